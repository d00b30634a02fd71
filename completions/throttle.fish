# Completion of throttle for fish. Made by: THROTTLE_WRITE_GENERATED=1 cargo test generated

# Whether a topic of the help is to come.
function __throttle_wants_topic
    set -l words (commandline -opc)
    test (count $words) = 2; and contains -- $words[2] help --help
end

# The words of the command that throttle runs, up to the cursor. Fails if the cursor is not in it.
function __throttle_words
    set -l words (commandline -opc)
    __throttle_wants_topic; and return 1
    set -e words[1]
    while set -q words[1]
        set -l skip 1
        if test "$words[1]" = --
            set -e words[1]
            string escape -- $words
            return 0
        else if string match -qr -- '^(--count|--period|--rate|--algorithm|--burst|--cost|--key|--on-limit|--lookahead|--margin|--jitter|--state|--store-timeout|--hold|--arg-file|--delimiter|--field-separator|--max-record|--on-bad|--batch|--jobs|--timeout|--retries|--backoff|--max-hold|--halt|--max-wait|--until|--arrivals|--at|--unsorted|--log|--log-format|--failed|--stats|--plot|--generate|-[0kutvqhV]*[nprAbcKsadFIBjP])$' "$words[1]"
            set skip 2
        else if not string match -q -- '-?*' "$words[1]"
            string escape -- $words
            return 0
        end
        # The cursor is in the value of an option.
        test (count $words) -ge $skip; or return 1
        set words $words[(math $skip + 1)..]
    end
    not string match -q -- '-*' (commandline -ct)
end

function __throttle_in_command
    __throttle_words >/dev/null
end

function __throttle_command
    set -l words (__throttle_words)
    complete -C (string join ' ' -- $words (commandline -ct))
end

function __throttle_selectors
    printf '%s\n' "$argv[1]"col:\t'A field' "$argv[1]"re:\t'A regular expression' "$argv[1]".\t'A path in JSON' "$argv[1]"bytes\t'The length'
end

function __throttle_keys
    __throttle_selectors "$argv[1]"
    printf '%s\n' "$argv[1]"host\t'The host of a URL'
end

# Files that begin like this, behind a prefix. What has a tab behind it is not shown with the text on its option.
function __throttle_paths
    __fish_complete_path $argv[2] | string replace -r '\t.*' '' | string replace -r '(.*)' "$argv[1]"'$1\t'
end

# What stands behind -r, or --rate=, so far.
function __throttle_value
    commandline -ct | string replace -r '^(--rate=|-[a-zA-Z0]*r)' ''
end

function __throttle_rates
    set -l value (__throttle_value)
    if string match -q '@*' -- $value
        __throttle_paths @ (string sub -s 2 -- $value)
        return
    else if not string match -q '*,*' -- $value
        set -l count (string split -m 1 / -- $value)[1]
        printf '%s\t\n' $count/s $count/m $count/h $count/d $count/running
        return
    end
    set -l before (string replace -r '[^,]*$' '' -- $value)
    switch (string replace -r '.*,' '' -- $value)
        case 'algo=*'
            printf '%s\t\n' {$before}algo={sliding,bucket,interval,fixed,calendar}
        case 'start=*'
            printf '%s\t\n' {$before}start={full,empty}
        case 'from=*'
            printf '%s\t\n' {$before}from={start,exit}
        case 'key=*'
            __throttle_keys {$before}key=
        case 'cost=*'
            __throttle_selectors {$before}cost=
        case '*'
            if string match -q '*/running,*' -- $value
                printf '%s\t\n' $before{cost,key,only,during,tz}=
                return
            end
            printf '%s\t\n' $before{algo,burst,margin,start,from,cost,key,only,during,tz}= {$before}local
    end
end

function __throttle_stats
    set -l value (commandline -ct | string replace -r '^--stats=' '')
    if string match -q 'prom:*' -- $value
        __throttle_paths prom: (string sub -s 6 -- $value)
        return
    end
    printf '%s\t\n' json prom:
end

function __throttle_states
    set -l directory $HOME/.local/state
    set -q XDG_STATE_HOME; and set directory $XDG_STATE_HOME
    for file in $directory/throttle/*
        test -f $file; and string match -rv -- '-(wal|shm|journal)$' (string replace -r '.*/' '' -- $file)\t
    end
    printf '%s\t\n' redis{,+sentinel}:// rediss{,+sentinel}:// unix:///
    set -l value (commandline -ct | string replace -r '^(--state=|-[a-zA-Z0]*s)' '')
    if string match -q '@*' -- $value
        __throttle_paths @ (string sub -s 2 -- $value)
    else
        __throttle_paths '' $value
    end
end

complete -c throttle -f
complete -c throttle -n __throttle_wants_topic -x -a 'rates algorithms keys input commands failures shared reports signals exit'
complete -c throttle -n __throttle_in_command -x -a '(__throttle_command)'
complete -c throttle -n 'not __throttle_in_command' -s n -l count -x -d 'Release at most N items per period [default: 1]'
complete -c throttle -n 'not __throttle_in_command' -s p -l period -x -d 'Period: 500ms, 2s, 1m30s [default: 1s]'
complete -c throttle -n 'not __throttle_in_command' -s r -l rate -x -a '(__throttle_rates)' -d 'A limit: 10/s, 100/2m, 5000/h; or a file, @FILE'
complete -c throttle -n 'not __throttle_in_command' -s A -l algorithm -x -a 'sliding\t bucket\t interval\t fixed\t calendar\t' -d 'sliding (default), bucket, interval, fixed or calendar'
complete -c throttle -n 'not __throttle_in_command' -s b -l burst -x -d 'Most that a bucket releases at once [default: N]'
complete -c throttle -n 'not __throttle_in_command' -s c -l cost -x -a '(__throttle_selectors)' -d 'Cost of an item: 5, bytes, col:2, .a [default: 1]'
complete -c throttle -n 'not __throttle_in_command' -s K -l key -x -a '(__throttle_keys)' -d 'A limit for each value of SEL: col:1, host, .a'
complete -c throttle -n 'not __throttle_in_command' -l on-limit -x -a 'wait\t drop\t latest\t fail\t' -d 'Item that comes too early: wait, drop, latest, fail'
complete -c throttle -n 'not __throttle_in_command' -l in-order -d 'Keep the order of the input, even across keys'
complete -c throttle -n 'not __throttle_in_command' -l lookahead -x -d 'Let at most N items wait in lanes [default: 1024]'
complete -c throttle -n 'not __throttle_in_command' -l margin -x -d 'Make every period longer by DUR, against jitter'
complete -c throttle -n 'not __throttle_in_command' -l jitter -x -d 'Delay each release at random by up to DUR'
complete -c throttle -n 'not __throttle_in_command' -s s -l state -x -a '(__throttle_states)' -d 'Share the limits with all runs that use STATE'
complete -c throttle -n 'not __throttle_in_command' -l store-timeout -x -d 'Longest wait for a server, then 69 [default: 1m]'
complete -c throttle -n 'not __throttle_in_command' -l reset-state -d 'Forget what STATE has recorded; do nothing else'
complete -c throttle -n 'not __throttle_in_command' -l set-limits -d 'Replace STATE\'s limits; what was used stays used'
complete -c throttle -n 'not __throttle_in_command' -l status -d 'Print how much of STATE\'s limits is used'
complete -c throttle -n 'not __throttle_in_command' -l json -d 'With --status: print it as JSON'
complete -c throttle -n 'not __throttle_in_command' -l hold -x -d 'Hold all runs of STATE for DUR; do nothing else'
complete -c throttle -n 'not __throttle_in_command' -s a -l arg-file -r -F -d 'Read items from FILE and leave stdin to COMMAND'
complete -c throttle -n 'not __throttle_in_command' -s 0 -l null -d 'Items end at NUL, as from find -print0'
complete -c throttle -n 'not __throttle_in_command' -s d -l delimiter -x -d 'Items end at D, such as \\0 or \\r\\n [default: \\n]'
complete -c throttle -n 'not __throttle_in_command' -s F -l field-separator -x -d 'Separator of fields, for col:N [default: blanks]'
complete -c throttle -n 'not __throttle_in_command' -l csv -f -a 'header\t noheader\t' -d 'Items are records of CSV, after a header'
complete -c throttle -n 'not __throttle_in_command' -l max-record -x -d 'Longest item allowed [default: 64Mi]'
complete -c throttle -n 'not __throttle_in_command' -l trim -d 'Remove white space around items, such as a CR'
complete -c throttle -n 'not __throttle_in_command' -l skip-blank -d 'Skip items that are empty or only white space'
complete -c throttle -n 'not __throttle_in_command' -l on-bad -x -a 'fail\t skip\t' -d 'Item without a valid cost: fail (default) or skip'
complete -c throttle -n 'not __throttle_in_command' -s I -x -d 'What stands for the item in COMMAND [default: {}]'
complete -c throttle -n 'not __throttle_in_command' -s B -l batch -x -d 'Release up to N items together, counted as one'
complete -c throttle -n 'not __throttle_in_command' -s j -s P -l jobs -x -d 'Run up to N commands at once [default: 1]'
complete -c throttle -n 'not __throttle_in_command' -s k -l keep-order -d 'Print output in the order of the input'
complete -c throttle -n 'not __throttle_in_command' -s u -l ungrouped -d 'Let the outputs of commands mix'
complete -c throttle -n 'not __throttle_in_command' -l tag -f -a '(__throttle_keys)' -d 'Put the item and a tab before each line of output'
complete -c throttle -n 'not __throttle_in_command' -l pipe -d 'Give the item to COMMAND on its stdin'
complete -c throttle -n 'not __throttle_in_command' -l worker -f -a 'line\t status\t' -d 'Keep COMMAND running, and give it item after item'
complete -c throttle -n 'not __throttle_in_command' -l timeout -x -d 'End a command that runs longer than DUR'
complete -c throttle -n 'not __throttle_in_command' -l retries -x -d 'Try a failed item up to N more times'
complete -c throttle -n 'not __throttle_in_command' -l backoff -x -d 'Wait before a retry: 1s..5m, or 429,5xx=1s..5m'
complete -c throttle -n 'not __throttle_in_command' -l max-hold -x -d 'Longest pause a server may ask for [default: 1h]'
complete -c throttle -n 'not __throttle_in_command' -l halt -x -a '{soon,now},{fail,success,done}=\t' -d 'When to end the run: soon,fail=10%, now,success=1'
complete -c throttle -n 'not __throttle_in_command' -l once -d 'Wait for one release, then become COMMAND'
complete -c throttle -n 'not __throttle_in_command' -l max-wait -x -d 'Wait at most DUR for a release, or end with 75'
complete -c throttle -n 'not __throttle_in_command' -l until -x -d 'Start nothing after DUR, or a TIME; end with 75'
complete -c throttle -n 'not __throttle_in_command' -l dry-run -d 'Print when each item would go; run nothing'
complete -c throttle -n 'not __throttle_in_command' -l audit -d 'Check time stamps against limits; release nothing'
complete -c throttle -n 'not __throttle_in_command' -l arrivals -x -a '(__throttle_selectors)' -d 'Where time stamps are, for --dry-run and --audit'
complete -c throttle -n 'not __throttle_in_command' -l at -x -d 'Start the clock of --dry-run or --audit at TIME'
complete -c throttle -n 'not __throttle_in_command' -l unsorted -x -d 'Sort items that are out of order by up to DUR'
complete -c throttle -n 'not __throttle_in_command' -s t -l trace -d 'Print each command before it runs'
complete -c throttle -n 'not __throttle_in_command' -l log -r -F -d 'Record each command in FILE when it ends'
complete -c throttle -n 'not __throttle_in_command' -l log-format -x -a 'tsv\t json\t' -d 'Write a new log as tsv (default) or json'
complete -c throttle -n 'not __throttle_in_command' -l resume -f -a 'unfinished\t new\t' -d 'Skip items that the log shows as completed'
complete -c throttle -n 'not __throttle_in_command' -l failed -r -F -d 'Write failed items to FILE, as the next input'
complete -c throttle -n 'not __throttle_in_command' -s v -l verbose -d 'Print the limits first, a summary at the end'
complete -c throttle -n 'not __throttle_in_command' -s q -l quiet -d 'Print errors only'
complete -c throttle -n 'not __throttle_in_command' -l progress -f -a 'auto\t always\t' -d 'Show progress on a terminal'
complete -c throttle -n 'not __throttle_in_command' -l stats -x -a '(__throttle_stats)' -d 'Report statistics: json at the end, or prom:FILE'
complete -c throttle -n 'not __throttle_in_command' -l plot -r -F -d 'Draw the releases over time to FILE, as SVG'
complete -c throttle -n 'not __throttle_in_command' -s h -l help -d 'Print help; by topic: throttle help'
complete -c throttle -n 'not __throttle_in_command' -l generate -x -a 'man\t state\t reports\t cookbook\t complete-bash\t complete-zsh\t complete-fish\t' -d 'Print a manual page or a completion, for packages'
complete -c throttle -n 'not __throttle_in_command' -s V -l version -d 'Print version, commit and features'
