# SPDX-License-Identifier: MIT
#
# Completion for bash: source it, or install it as bash-completion/completions/weir.

_weir()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="spec sim bench help --help --version"
    else
        case $before in
        --plot)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
            ;;
        --arrivals | --timeout | --until | --time | --keys | -n)
            COMPREPLY=()
            return
            ;;
        esac
        case ${COMP_WORDS[1]} in
        spec) words="--chart --plot --json --help" ;;
        sim) words="--arrivals --timeout --until --summary --json --help" ;;
        bench) words="core limiter table wait --time --keys --json --help" ;;
        help) words="spec sim bench" ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _weir weir
