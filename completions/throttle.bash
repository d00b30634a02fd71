# Completion of throttle for bash. Made by: THROTTLE_WRITE_GENERATED=1 cargo test generated

# What may follow `prefix` as a SEL; a key may be a host, too.
_throttle_selectors()
{
    local prefix=$1 kind=$2 name
    for name in col: re: . bytes; do
        candidates+=("$prefix$name")
    done
    [[ $kind != key ]] || candidates+=("${prefix}host")
}

# Files that begin like `value`. Readline quotes their names, and ends that of a directory in a slash, but not if
# something stands before it.
_throttle_files()
{
    local before=$1 value=$2 file
    compopt -o filenames
    while IFS= read -r file; do
        [[ ! $before || ! -d $file ]] || file+=/
        candidates+=("$before$file")
    done < <(compgen -f -- "$value")
}

# A RATE: its period, then options after commas.
_throttle_rate()
{
    local before=$1 value=$2 done name options="algo burst margin start from cost key only during tz"
    if [[ $value == @* ]]; then
        _throttle_files "$before@" "${value#@}"
        return
    elif [[ $value != *,* ]]; then
        for name in s m h d running; do
            candidates+=("$before${value%%/*}/$name")
        done
        return
    fi
    done=$before${value%,*},
    case ${value##*,} in
        algo=*)
            for name in sliding bucket interval fixed calendar; do candidates+=("${done}algo=$name"); done
            ;;
        start=*) candidates=("${done}start=full" "${done}start=empty") ;;
        from=*) candidates=("${done}from=start" "${done}from=exit") ;;
        key=*) _throttle_selectors "${done}key=" key ;;
        cost=*) _throttle_selectors "${done}cost=" cost ;;
        *)
            [[ $value != */running,* ]] || options="cost key only during tz"
            for name in $options; do
                [[ ,$value == *,$name=* ]] || candidates+=("$done$name=")
            done
            candidates+=("${done}local")
            ;;
    esac
}

_throttle_states()
{
    local before=$1 value=$2 file
    if [[ $value == @* ]]; then
        _throttle_files "$before@" "${value#@}"
        return
    elif [[ $value == */* && $value != *://* ]]; then
        _throttle_files "$before" "$value"
        return
    fi
    for file in "${XDG_STATE_HOME:-$HOME/.local/state}"/throttle/*; do
        [[ ! -f $file || $file == *-@(wal|shm|journal) ]] || candidates+=("$before${file##*/}")
    done
    for file in redis:// rediss:// redis+sentinel:// rediss+sentinel:// unix:///; do
        candidates+=("$before$file")
    done
}

_throttle_stats()
{
    local before=$1 value=$2
    if [[ $value == prom:* ]]; then
        _throttle_files "${before}prom:" "${value#prom:}"
    else
        candidates=("${before}json" "${before}prom:")
    fi
}

_throttle_halt()
{
    local before=$1 when what
    for when in soon now; do
        for what in fail success done; do
            candidates+=("$before$when,$what=")
        done
    done
}

# What may be the value of an option. The word is `before`, which is complete, and `value`.
_throttle_value()
{
    local option=$1 before=$2 value=$3 name
    case $option in
        -r | --rate) _throttle_rate "$before" "$value" ;;
        -A | --algorithm) for name in sliding bucket interval fixed calendar; do candidates+=("$before$name"); done ;;
        -c | --cost) _throttle_selectors "$before" cost ;;
        -K | --key) _throttle_selectors "$before" key ;;
        --on-limit) for name in wait drop latest fail; do candidates+=("$before$name"); done ;;
        -s | --state) _throttle_states "$before" "$value" ;;
        -a | --arg-file) _throttle_files "$before" "$value" ;;
        --csv) for name in header noheader; do candidates+=("$before$name"); done ;;
        --on-bad) for name in fail skip; do candidates+=("$before$name"); done ;;
        --tag) _throttle_selectors "$before" key ;;
        --worker) for name in line status; do candidates+=("$before$name"); done ;;
        --halt) _throttle_halt "$before" ;;
        --arrivals) _throttle_selectors "$before" cost ;;
        --log) _throttle_files "$before" "$value" ;;
        --log-format) for name in tsv json; do candidates+=("$before$name"); done ;;
        --resume) for name in unfinished new; do candidates+=("$before$name"); done ;;
        --failed) _throttle_files "$before" "$value" ;;
        --progress) for name in auto always; do candidates+=("$before$name"); done ;;
        --stats) _throttle_stats "$before" "$value" ;;
        --plot) _throttle_files "$before" "$value" ;;
        --generate) for name in man state reports cookbook complete-bash complete-zsh complete-fish; do candidates+=("$before$name"); done ;;
    esac
}

# Sets `words` to the words up to the cursor, put together again where bash cuts them at =, : and @, though no blank is
# there, and `starts` to where each begins in COMP_WORDS.
_throttle_words()
{
    local i word line=$COMP_LINE
    words=() starts=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $i == 0 || $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            words+=("")
            starts+=("$i")
        fi
        line=${line#"$word"}
        # The last one as it is to be completed: without a quote, but also with the @ before it.
        [[ $i != "$COMP_CWORD" || $word == [=:@]* ]] || word=${1#@}
        [[ $i != "$COMP_CWORD" || ${COMP_WORDS[i]} != @?* ]] || word=$1
        words[${#words[@]} - 1]+=$word
    done
}

# Sets `command` to where the command begins in `words`, and `option` to the one whose value the last word is.
_throttle_find()
{
    local i word
    command= option=
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        word=${words[i]} option=
        if [[ $word == -- ]]; then
            command=$((i + 1))
            return
        elif [[ $word == @(--count|--period|--rate|--algorithm|--burst|--cost|--key|--on-limit|--lookahead|--margin|--jitter|--state|--store-timeout|--hold|--arg-file|--delimiter|--field-separator|--max-record|--on-bad|--batch|--jobs|--timeout|--retries|--backoff|--max-hold|--halt|--max-wait|--until|--arrivals|--at|--unsorted|--log|--log-format|--failed|--stats|--plot|--generate) ]]; then
            option=$word
        elif [[ $word =~ ^-[0kutvqhV]*([nprAbcKsadFIBjP])$ ]]; then
            option=-${BASH_REMATCH[1]}
        elif [[ $word != -?* ]]; then
            command=$i
            return
        fi
        [[ ! $option ]] || ((i++))
    done
    # The value of the last option is there already.
    ((i < ${#words[@]})) || return 0
    option=
    [[ ${words[i]} == -* ]] || command=$i
}

_throttle_command()
{
    local at=$1
    if declare -F _comp_command_offset > /dev/null; then
        _comp_command_offset "$at"
    elif declare -F _command_offset > /dev/null; then
        _command_offset "$at"
    elif ((at == COMP_CWORD)); then
        mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
    fi
}

_throttle()
{
    local words starts command option current cut candidate candidates=()
    COMPREPLY=()
    _throttle_words "$2"
    _throttle_find
    # Readline quotes names again.
    set -- "$1" "${2//\\/}"
    if [[ ${words[1]} == @(help|--help) && ${#words[@]} == 3 ]]; then
        mapfile -t COMPREPLY < <(compgen -W "rates algorithms keys input commands failures shared reports signals exit" -- "$2")
        return
    elif [[ $command ]]; then
        _throttle_command "${starts[command]}"
        return
    fi
    current=${words[${#words[@]} - 1]//\\/}
    if [[ $option ]]; then
        _throttle_value "$option" "" "$current"
    elif [[ $current == --*=* ]]; then
        _throttle_value "${current%%=*}" "${current%%=*}=" "${current#*=}"
    elif [[ $current =~ ^-[0kutvqhV]*([nprAbcKsadFIBjP])(.+)$ ]]; then
        _throttle_value "-${BASH_REMATCH[1]}" "${current%"${BASH_REMATCH[2]}"}" "${BASH_REMATCH[2]}"
    else
        candidates=(-n --count -p --period -r --rate -A --algorithm -b --burst -c --cost -K --key --on-limit --in-order --lookahead --margin --jitter -s --state --store-timeout --reset-state --set-limits --status --json --hold -a --arg-file -0 --null -d --delimiter -F --field-separator --csv --max-record --trim --skip-blank --on-bad -I -B --batch -j -P --jobs -k --keep-order -u --ungrouped --tag --pipe --worker --timeout --retries --backoff --max-hold --halt --once --max-wait --until --dry-run --audit --arrivals --at --unsorted -t --trace --log --log-format --resume --failed -v --verbose -q --quiet --progress --stats --plot -h --help --generate -V --version)
    fi
    # Only what bash takes for the word is replaced.
    cut=${current%"$2"}
    for candidate in "${candidates[@]}"; do
        [[ $candidate != "$current"* ]] || COMPREPLY+=("${candidate#"$cut"}")
    done
    [[ ${COMPREPLY[0]-} != *[=:./] ]] || compopt -o nospace
    [[ ${COMPREPLY[0]-} != *=* ]] || compopt -o nospace
} && complete -F _throttle throttle
