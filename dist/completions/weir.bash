# SPDX-License-Identifier: MIT
#
# Completion for bash: source it, or install it as bash-completion/completions/weir.

_weir()
{
    local commands="spec sim serve check reload take peek acquire reserve commit cancel give charge reset explain top stat keys policy override quota backup dump load doctor bench"
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="$commands help --help --version"
    else
        case $before in
        --plot | --config | --unix | --hash-key-file | --password-file | --cacert | --cert | --key)
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
            return
            ;;
        --log-level)
            mapfile -t COMPREPLY < <(compgen -W "debug info warn error" -- "$word")
            return
            ;;
        --log-format)
            mapfile -t COMPREPLY < <(compgen -W "logfmt json" -- "$word")
            return
            ;;
        --data)
            mapfile -t COMPREPLY < <(compgen -d -- "$word"; compgen -W "none" -- "$word")
            return
            ;;
        --fsync)
            mapfile -t COMPREPLY < <(compgen -W "always everysec never" -- "$word")
            return
            ;;
        --arrivals | --timeout | --ttl | --until | --time | --keys | -n | --threads | --memory | --max-clients | \
            --resp | --resp-tls | --http | --https | --admin | \
            -s | --server | -c | --coordinator | --nodes | --base | --id | --count | --sort | --every | --percent | --for | --reason)
            COMPREPLY=()
            return
            ;;
        esac
        case ${COMP_WORDS[1]} in
        spec) words="--chart --plot --json --help" ;;
        sim)
            words="fleet --arrivals --timeout --until --summary --json --help"
            if [ "${COMP_WORDS[2]}" = fleet ] && [ "$COMP_CWORD" -gt 2 ]; then
                words="--nodes --users --windows --limit --base --coordinator --tiers --faults --failover --on-loss"
                words="$words --load --sparse --seed --json --help"
            fi
            ;;
        serve)
            words="--config --resp --resp-tls --http --https --admin --unix --threads --memory --data --hash-key-file --fsync
                   --password-file --no-password"
            words="$words --max-clients --log-format --log-level --test-clock --print-config --help"
            ;;
        check)
            [ "${word#-}" = "$word" ] && mapfile -t COMPREPLY < <(compgen -f -- "$word") && return
            words="--server --json --help"
            ;;
        reload) words="--server --json --help" ;;
        take | give | charge) words="--id --quiet --server --json --help" ;;
        reserve) words="--ttl --timeout --id --quiet --server --json --help" ;;
        commit | cancel) words="--quiet --server --json --help" ;;
        acquire) words="--timeout --quiet --server --json --help" ;;
        peek | reset | explain) words="--quiet --server --json --help" ;;
        top) words="--refused --candidate --count --server --json --help" ;;
        keys) words="--sort --count --server --json --help" ;;
        stat) words="--every --count --server --json --help" ;;
        policy)
            # What may follow depends on the verb, and on whether a name, or --all, stands before it.
            case $COMP_CWORD:${COMP_WORDS[2]} in
            2:-*) words="--fresh --percent --for --all" ;;
            2:*) words="list show set del mode candidate" ;;
            3:mode) words="--all" ;;
            4:mode) words="enforce shadow disabled" ;;
            *:mode) words="--percent --for" ;;
            *:set) words="--fresh" ;;
            4:candidate) words="none" ;;
            esac
            [ "${word#-}" = "$word" ] || words="$words --server --json --help"
            ;;
        override)
            case $COMP_CWORD:${COMP_WORDS[2]} in
            2:-*) words="--for --reason" ;;
            2:*) words="list set delete" ;;
            *:set) words="--for --reason" ;;
            esac
            [ "${word#-}" = "$word" ] || words="$words --server --json --help"
            ;;
        quota)
            case $COMP_CWORD:${COMP_WORDS[2]} in
            2:-*) words="--nodes --base --count --yes --json" ;;
            2:*) words="create show list set watch delete" ;;
            *:create | *:set) words="--nodes --base" ;;
            *:watch) words="--count --json" ;;
            *:show | *:list) words="--json" ;;
            *:delete) words="--yes" ;;
            esac
            [ "${word#-}" = "$word" ] || words="$words --coordinator --help"
            ;;
        backup) words="--server --json --help" ;;
        dump) words="--policy --hash --prefix --freeze --output --server --help" ;;
        load)
            [ "${word#-}" = "$word" ] && mapfile -t COMPREPLY < <(compgen -f -- "$word") && return
            words="--dry-run --no-elapsed --from --policy --hash --as --server --json --help"
            ;;
        doctor)
            [ "${word#-}" = "$word" ] && mapfile -t COMPREPLY < <(compgen -d -- "$word") && return
            words="--repair --json --help"
            ;;
        bench) words="core fleet limiter server store table wait --time --keys --json --help" ;;
        help) words=$commands ;;
        esac
        case $words in
        *--server*) words="$words --cacert --cert --key --insecure" ;; # for rediss://
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _weir weir
