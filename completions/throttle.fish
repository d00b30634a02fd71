complete -c throttle -s n -l count -d 'Release at most N items per period [default: 1]' -r
complete -c throttle -s p -l period -d 'Length of the period: 500ms, 2s, 1m30s [default: 1s]' -r
complete -c throttle -s r -l rate -d 'A limit: 10/s, 100/2m, 5000/h; or @FILE, one a line' -r
complete -c throttle -s A -l algorithm -d 'Rule: sliding (default), bucket, interval or fixed' -r -f -a "sliding\t''
bucket\t''
interval\t''
fixed\t''"
complete -c throttle -s b -l burst -d 'The most that a bucket releases at once [default: N]' -r
complete -c throttle -s c -l cost -d 'What an item costs: 5, bytes, col:2, .a.b [default: 1]' -r
complete -c throttle -s K -l key -d 'One limit for each value of SEL: col:1, host, .user.id' -r
complete -c throttle -l on-limit -d 'If an item cannot go at once: wait, drop, latest, fail' -r -f -a "wait\t''
drop\t''
latest\t''
fail\t''"
complete -c throttle -l lookahead -d 'Look at most N items ahead for one that may go [default: 1024]' -r
complete -c throttle -l margin -d 'Make every period longer by DUR, against jitter' -r
complete -c throttle -s s -l state -d 'Share the limits with all runs that name this STATE' -r
complete -c throttle -l store-timeout -d 'Wait at most DUR for a server that is away [default: 1m]' -r
complete -c throttle -s a -l arg-file -d 'Read items from FILE and leave stdin to COMMAND' -r -F
complete -c throttle -s d -l delimiter -d 'Items end at D [default: \\n]' -r
complete -c throttle -s F -l field-separator -d 'What separates fields, for col:N [default: blanks]' -r
complete -c throttle -l max-record -d 'Longest item allowed [default: 64Mi]' -r
complete -c throttle -s I -d 'What stands for the item in COMMAND [default: {}]' -r
complete -c throttle -s B -l batch -d 'Release up to N items together, counted as one' -r
complete -c throttle -s j -s P -l jobs -d 'Run up to N commands at once [default: 1]' -r
complete -c throttle -l timeout -d 'End a command that runs longer than DUR' -r
complete -c throttle -l retries -d 'Try a failed item up to N times more' -r
complete -c throttle -l backoff -d 'How long to wait before a retry: [CODES=]MIN..MAX' -r
complete -c throttle -l halt -d 'When failures end the run: soon,fail=3 or now,fail=10%' -r
complete -c throttle -l arrivals -d 'With --dry-run or --audit: where items tell their time' -r
complete -c throttle -l unsorted -d 'Sort items that are out of order by up to DUR' -r
complete -c throttle -l log -d 'Note the end of each command in FILE' -r -F
complete -c throttle -l log-format -d 'Write a new log as tsv (default) or json' -r -f -a "tsv\t''
json\t''"
complete -c throttle -l progress -d 'Show how far the run has come, on a terminal' -r -f -a "auto\t''
always\t''"
complete -c throttle -l stats -d 'Print all numbers at the end as one JSON object' -r -f -a "json\t''"
complete -c throttle -l plot -d 'Draw the releases over time to FILE, as SVG' -r -F
complete -c throttle -l in-order -d 'Keep the order of the input, also among different keys'
complete -c throttle -l reset-state -d 'Forget what STATE has recorded, and do nothing else'
complete -c throttle -s 0 -l null -d 'Items end at NUL, as from find -print0'
complete -c throttle -s k -l keep-order -d 'Print output in the order of the input'
complete -c throttle -s u -l ungrouped -d 'Let the outputs of commands mix'
complete -c throttle -l pipe -d 'Give the item to COMMAND on its stdin'
complete -c throttle -l dry-run -d 'Print when each item would be released, without waiting'
complete -c throttle -l audit -d 'Check time stamps against the limits, release nothing'
complete -c throttle -l resume -d 'Do not run again what the log says is done'
complete -c throttle -s v -l verbose -d 'Print the limits at the start, a summary at the end'
complete -c throttle -s q -l quiet -d 'Print errors only'
complete -c throttle -s h -l help -d 'Print help (see more with \'--help\')'
complete -c throttle -s V -l version -d 'Print version'
