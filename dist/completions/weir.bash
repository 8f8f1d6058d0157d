# SPDX-License-Identifier: MIT
#
# Completion for bash: source it, or install it as bash-completion/completions/weir.

_weir()
{
    local commands="spec sim serve check reload take peek acquire give charge reset explain top stat policy override bench"
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$commands help --help --version"
    else
        case $before in
        --plot | --config | --unix | --password-file)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
            ;;
        --arrivals | --timeout | --until | --time | --keys | -n | --resp | --threads | --memory | --max-clients | \
            -s | --server | --id | --count | --every | --percent | --for | --reason)
            COMPREPLY=()
            return
            ;;
        esac
        case ${COMP_WORDS[1]} in
        spec) words="--chart --plot --json --help" ;;
        sim) words="--arrivals --timeout --until --summary --json --help" ;;
        serve)
            words="--config --resp --unix --threads --memory --data --password-file --no-password --max-clients"
            words="$words --log-format --log-level --test-clock --print-config --help"
            ;;
        check)
            [ "${word#-}" = "$word" ] && mapfile -t COMPREPLY < <(compgen -f -- "$word") && return
            words="--server --json --help"
            ;;
        reload) words="--server --json --help" ;;
        take | give | charge) words="--id --quiet --server --json --help" ;;
        acquire) words="--timeout --quiet --server --json --help" ;;
        peek | reset | explain) words="--quiet --server --json --help" ;;
        top) words="--refused --count --server --json --help" ;;
        stat) words="--every --count --server --json --help" ;;
        policy)
            words="list show set del mode enforce shadow disabled"
            words="$words --fresh --percent --for --all --server --json --help"
            ;;
        override) words="list set delete --for --reason --server --json --help" ;;
        bench) words="core limiter server table wait --time --keys --json --help" ;;
        help) words=$commands ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _weir weir
