//! Beginners' mistakes: each gets one line, which says what to write instead.

use nix::sys::signal::Signal;

use crate::support::{Directory, Running, THROTTLE, UNLIMITED, fed, needs_program, text, throttle};

/// The arguments, and the whole message.
const TABLE: &[(&[&str], &str)] = &[
    // Limits in the place of the command or its arguments.
    (
        &["curl", "-fsS", "-n", "10", "-p", "1m"],
        "no limit given: -n 10 -p 1m is after the command, so it belongs to the command: write -n 10 -p 1m \
         -- curl -fsS",
    ),
    (
        &["echo", "-r", "1/s"],
        "no limit given: -r 1/s is after the command, so it belongs to the command: write -r 1/s -- echo",
    ),
    (
        &["-j2", "--", "echo", "-r1/s", "a b", "--period=5"],
        "no limit given: -r1/s --period=5 is after the command, so it belongs to the command: write -r1/s \
         --period=5 -- echo 'a b'",
    ),
    (
        &["--", "-r", "10/s", "cat"],
        "no limit given: -r 10/s cat is after --, where COMMAND belongs: put options before --",
    ),
    (
        &["grep", "-n", "x"],
        "no limit given: add one, such as -n 10 -p 1m or -r 10/s; throttle -h lists options",
    ),
    (
        &["-j", "8", "echo"],
        "no limit given: add one, such as -n 10 -p 1m or -r 10/s; for a limit on running commands only, -r \
         8/running",
    ),
    (&["10/s"], "10/s is a limit, not a command: did you mean -r 10/s?"),
    (&["60rpm", "curl"], "60rpm is a limit, not a command: did you mean -r 60rpm?"),
    (&["-r", "10/s", "100/m", "curl"], "100/m is a limit, not a command: did you mean -r 100/m?"),
    // Options with too few hyphens, or with dashes.
    (&["-r9/s", "-I", "-_", "echo", "-_"], "there is no option -_; if it is the value of -I, write -I-_"),
    (
        &["-r9/s", "--delimiter", "-_", "echo"],
        "there is no option -_; if it is the value of --delimiter, write --delimiter=-_",
    ),
    (&["-p", "-1s"], "-1s is negative, which the value of -p cannot be"),
    (&["-r", "-1.5/s"], "-1.5/s is negative, which the value of -r cannot be"),
    (&["-r", "9/s", "-q", "-1"], "there is no option -1; try 'throttle --help'"),
    (&["-p1s", "-5", "cat"], "there is no option -5; try 'throttle --help'"),
    (&["-r9/s", "-s", "-", "--zz", "4"], "there is no option --zz; try 'throttle --help'"),
    (
        &["-r9/s", "--worker", "--timeot", "5"],
        "there is no option --timeot: is it --timeout? See 'throttle --help'",
    ),
    (&["-r9/s", "-K", "--jbos", "3"], "there is no option --jbos: is it --jobs? See 'throttle --help'"),
    (&["-r9/s", "--worker", "--zz"], "there is no option --zz; try 'throttle --help'"),
    (&["-rate", "10/s"], "there is no option -rate: is it --rate? See 'throttle --help'"),
    (&["-count=10"], "there is no option -count: is it --count? See 'throttle --help'"),
    (&["-n1", "-jobs", "4", "echo"], "there is no option -jobs: is it --jobs? See 'throttle --help'"),
    (
        &["-n1", "-timeout", "4", "echo"],
        "there is no option -timeout: is it --timeout? See 'throttle --help'",
    ),
    // These would be a delimiter, a state and a file.
    (&["-n1", "-dry-run", "rm"], "there is no option -dry-run: is it --dry-run? See 'throttle --help'"),
    (&["-n1", "-stats=json"], "there is no option -stats: is it --stats? See 'throttle --help'"),
    (&["-n1", "-audit"], "there is no option -audit: is it --audit? See 'throttle --help'"),
    // Values of several words, and words that only a shell knows.
    (&["-n9", "-p", "1", "minute"], r#"minute is taken for the command: write -p "1 minute""#),
    (&["-n9", "-p1", "hour", "echo"], r#"hour is taken for the command: write -p "1 hour""#),
    (&["-n9", "--until", "2", "h", "echo"], r#"h is taken for the command: write --until "2 h""#),
    (&["-n9", "cd", "a b"], r#"cd is a builtin of the shell: write -- sh -c 'cd "$@"' sh 'a b'"#),
    (
        &["-n9", "--", "export", "{}"],
        r#"export is a builtin of the shell: write -- sh -c 'export "$@"' sh '{}'"#,
    ),
    (&["-n9", "--csv", "-F", "::"], "--csv needs a separator of one byte, as in -F ';'"),
    (&["-n9", "--csv", "-F", "\""], "--csv needs another separator: leave out -F for a comma"),
    (&["-n9", "--csv", "-0"], "--csv cuts records at newlines outside quotes: leave out -0"),
    (&["-n9", "--csv", "-d", "\\r\\n"], "--csv cuts records at newlines outside quotes: leave out -d"),
    (
        &["-n9", "--csv", "--trim", "-F\\t"],
        "--trim would remove empty fields of the table with their separators: leave it out",
    ),
    (&["-n9", "-K", "col:user"], "col:user is a name in a header: add --csv, or write col:N"),
    (&["-n9", "-F,", "echo", "{col:a b}"], "col:a b is a name in a header: add --csv, or write col:N"),
    (
        &["-n9", "--csv=noheader", "-c", "col:size"],
        "col:size needs a header: with --csv=noheader, write col:N",
    ),
    (
        &["-n9", "--dry-run", "--arrivals", "col:time"],
        "col:time is a name in a header: add --csv, or write col:N",
    ),
    (&["-n9", "-j2", "--tag=col:id", "echo"], "col:id is a name in a header: add --csv, or write col:N"),
    // What an option lacks, or cannot be together with.
    (
        &["-r", "5/s", "-p", "2m"],
        "-p 2m with -r is a second limit, 1 per 2m: if you mean that, add -n 1; for another period, write \
         -r 5/2m",
    ),
    (&["--hold", "5s"], "--hold needs a state: add -s STATE"),
    (&["--reset-state"], "--reset-state needs a state: add -s STATE"),
    (
        &["--once", "-r1/s", "--until", "5s"],
        "--once releases once and becomes COMMAND: leave out --until, or use --max-wait",
    ),
    (&["-r1/s", "-s", "@/no/such"], "--state: cannot read /no/such: No such file or directory (os error 2)"),
    (&["\u{2014}r", "1/s"], "\u{2014}r begins with a dash instead of a hyphen: write -r"),
    (&["-n1", "\u{2013}j", "4"], "\u{2013}j begins with a dash instead of a hyphen: write -j"),
    // Command lines for a shell in the place of a command.
    (&["-n1", "A=1", "env"], "A=1 is for a shell: write -- env A=1 env"),
    (&["-n1", "source", "x"], "source is a builtin of bash: write -- bash -c 'source \"$@\"' bash x"),
    (
        &["-r1/s", "curl -fsS {}"],
        "there is no program 'curl -fsS {}': do not quote a program and its arguments as one word: write -- \
         curl -fsS {}",
    ),
    (&["-r1/s", "--tag", "host", "echo"], "host is taken for the command: write --tag=host"),
    (&["-r1/s", "--progress", "always", "echo"], "always is taken for the command: write --progress=always"),
    (&["--status", "api"], "--status needs a state: write -s api --status"),
    (&["--hold=1m", "api"], "--hold needs a state: write -s api --hold DUR"),
    (&["-s", "api", "--reset-state", "echo"], "--reset-state runs no command: leave out echo"),
    // Bytes.
    (
        &["-L", "1M"],
        "-L is an option of pv and xargs: use -r 1Mi/s,cost=bytes,algo=bucket for bytes, or -A interval -r \
         1Mi/s for items",
    ),
    (
        &["help", "retries"],
        "there is no help on 'retries': see throttle help failures; the topics are rates, algorithms, keys, input, \
         commands, failures, shared, reports, signals, exit",
    ),
];

/// The arguments, and which value is invalid and why.
const INVALID: &[(&[&str], &str)] = &[
    (&["-n", "10/s"], "'10/s' for '--count <N>': that is a rate: write -r 10/s"),
    (&["-p", "10/s"], "'10/s' for '--period <DUR>': that is a rate: write -r 10/s"),
    (&["-n", "10,000"], "'10,000' for '--count <N>': write the number in digits only: 10000"),
    (&["-r", "5/s,"], "'5/s,' for '--rate <RATE>': no option follows a comma: leave the comma out"),
    (
        &["-r", "5/s,key = host"],
        "'5/s,key = host' for '--rate <RATE>': 'key = host': leave out the white space: write key=host",
    ),
    (
        &["-n9", "--tag=id", "echo"],
        "'id' for '--tag[=<SEL>]': use col:N (such as col:1), bytes, host, .path.to.value or re:REGEX; by name, \
         col:id in a table, .id in JSON",
    ),
    (
        &["-n9", "--halt", "fail=2", "echo"],
        "'fail=2' for '--halt <WHEN>': write soon,fail=2 to start no more commands, or now,fail=2 to end the \
         running ones as well",
    ),
    (&["-n9", "--csv=x"], "'x' for '--csv[=<HEADER>]' [possible values: header, noheader]"),
    (
        &["-r", "5/s,per=host", "curl"],
        "'5/s,per=host' for '--rate <RATE>': 'per=host': for a limit per host, write key=host",
    ),
    (
        &["-r", "1MB/s"],
        "'1MB/s' for '--rate <RATE>': bytes are a cost, not a count: try 1M/s,cost=bytes,algo=bucket",
    ),
    (
        &["-r", "1Mbit/s"],
        "'1Mbit/s' for '--rate <RATE>': bytes are a cost, not a count: try 0.125M/s,cost=bytes,algo=bucket",
    ),
    (
        &["-n1", "--retries=1", "--backoff", "1-5", "echo"],
        "'1-5' for '--backoff <WAIT>': '1-5' is not a duration such as 500ms, 2s, 1m30s or 1h; for a range, \
         write MIN..MAX, as in 1s..5m",
    ),
    (
        &["-n1", "-j", "200%", "echo"],
        "'200%' for '--jobs <N>': use a number: for 200% of the processors, -j $((($(nproc) * 200 + 99) / 100))",
    ),
    (
        &["-n1", "--halt", "soon,fail=1,x", "echo"],
        "'soon,fail=1,x' for '--halt <WHEN>': write soon or now, then fail=N, success=N or done=N, where N is \
         a number of items or a percentage, as in soon,fail=3 or now,fail=10%",
    ),
];

/// The arguments with a command line for a shell, what was looked for, and what to write.
const NO_PROGRAMS: &[(&[&str], &str, &str)] = &[
    (&["-r", "1/s", "echo {} | wc -c"], "'echo {} | wc -c'", r#"sh -c 'echo "$1" | wc -c' sh"#),
    (&["-r1/s", "--", "mv '{}' \"$HOME\""], r#"'mv '\''{}'\'' "$HOME"'"#, r#"sh -c 'mv "$1" "$HOME"' sh"#),
    (&["-r1/s", "-I%", "gzip -k >log;", "echo"], "'gzip -k >log;'", r#"sh -c 'gzip -k >log; echo "$1"' sh"#),
    (&["-r1/s", "--pipe", "wc -c | cat"], "'wc -c | cat'", "sh -c 'wc -c | cat' sh"),
    (&["-n1", "--worker", "rev | rev"], "'rev | rev'", "sh -c 'rev | rev' sh"),
    (&["-n1", "-B3", "wc -c | cat"], "'wc -c | cat'", r#"sh -c 'wc -c | cat "$@"' sh"#),
    (&["-n1", "A=1 env"], "'A=1 env'", r#"sh -c 'A=1 env "$1"' sh"#),
];

#[test]
fn a_first_mistake_is_told_in_one_line() {
    let told = |args: &[&str], told: &str| {
        fed(args, "x\n").code(2).stdout("").stderr(format!("throttle: {told}\n"));
    };
    for (args, why) in TABLE {
        told(args, why);
    }
    for (args, why) in INVALID {
        told(args, &format!("invalid value {why}; try 'throttle --help'"));
    }
    for (args, name, write) in NO_PROGRAMS {
        told(args, &format!("there is no program {name}, and no shell is used: write -- {write}"));
    }
}

/// The arguments after an unlimited rate, the items, and the whole message. The run goes on.
const WARNINGS: &[(&[&str], &str, &str)] = &[
    (&["sh", "-c", ": {}"], "x\n", r#"sh runs the item as code: write -- sh -c ': "$1"' sh"#),
    (
        &["--", "env", "bash", "-ec", ": '{}' {col:2} \"{}\"", "x"],
        "x y\n",
        r#"bash runs the item as code: write -- env bash -ec ': "$1" "$2" "$1"' x '{}' '{col:2}'"#,
    ),
    (
        &["/bin/sh", "-c", ": {host}", "sh", "a"],
        "http://x\n",
        r#"sh runs a part of the item as code: write -- /bin/sh -c ': "$2"' sh a '{host}'"#,
    ),
    (
        &["sh", "-c", ": {}", "x", "{#}"],
        "x\n",
        r#"sh runs the item as code: write -- sh -c ': "$2"' x '{#}' '{}'"#,
    ),
    (
        &["sh", "-c", ": \"$1\""],
        "x\n",
        "the item becomes $0 of the script, which looks for it in its arguments: write -- sh -c ': \"$1\"' sh",
    ),
    (
        &["sh", "-c", ": ${1%.*}", "{}", "y"],
        "x\n",
        "the item becomes $0 of the script, which looks for it in its arguments: write -- sh -c ': ${1%.*}' sh \
         '{}' y",
    ),
    (&["sh", "-c", ": $0 \\$1 '$1'; exit $#", "{}"], "x\n", ""),
    (&["sh", "-c", ":"], "x\n", ""),
    // Each item is a script.
    (&["sh", "-c"], "true\n", ""),
    (&["sh", "-c", "{col:2}"], "x true\n", ""),
    (&["sh", "-c", ": {#}"], "x\n", ""),
    (&["--pipe", "sh", "-c", ": {}; cat >/dev/null"], "x\n", ""),
    // Members of JSON.
    (
        &["true", "x{user.id}y"],
        "{\"user\": {\"id\": 1}}\n",
        "{user.id} is passed on unchanged: for that member of the item, write {.user.id}",
    ),
    (&["true", "{id}", "${n}", "{.n}", "{n"], "{\"n\": 1}\n", ""),
    (&["true", "{n}"], "n\n{\"n\": 1}\n", ""),
    // Items without a part that limits go by.
    (
        &["-K", ".user.id", "true"],
        "{\"user\": 1}\n{\"user\": {\"id\": 1}}\n\n{}\nx\n",
        "item 1 '{\"user\": 1}' has no .user.id, so key=.user.id puts it under the empty key\n\
         throttle: 3 of 5 items have no .user.id: they share the empty key",
    ),
    (
        &["-K", ".items[0]"],
        "{\"items\": [5]}\n",
        "item 1 '{\"items\": [5]}' has no .items[0] (elements are written .items.0), so key=.items[0] puts it under \
         the empty key",
    ),
    (&["-K", ".a[0]"], "{\"a[0]\": 5}\n", ""),
    (&["-K", "col:9"], "a b\n", "item 1 'a b' has no col:9, so key=col:9 puts it under the empty key"),
    (
        &["-K", "re:[0-9]"],
        "1\nx\n",
        "item 2 'x' has no re:[0-9], so key=re:[0-9] puts it under the empty key",
    ),
    (&["-K", "col:2", "-F,"], "a,\n,b\n", ""),
    (
        &["-r", "9/s,key=col:9,only=x", "true"],
        "a\n",
        "no item matched the limit 9/1s,algo=sliding,margin=20ms,key=col:9,only=x",
    ),
    // CSV.
    (
        &["-F,", "true", "{col:2}"],
        "a,b\n\"a,b\",c\n",
        "item 2 '\"a,b\",c' has a separator inside quotes, where -F cuts it: for CSV, use --csv, or without \
         a header --csv=noheader",
    ),
    (
        &["--csv", "true", "{a}", "{name}/{id}"],
        "id,name\n1,x\n",
        "{name} is passed on unchanged: for that column, write {col:name}",
    ),
    (&["--csv", "true", "{a}", "{name}/{id}"], "x,y\n1,2\n", ""),
    (&["-F,", "-K", "col:1"], "\"a\",\"b\"\n", ""),
    // Decimals that make a burst of what looks slow.
    (
        &["-r", "0.333333/s"],
        "",
        "0.333333/s is 333333/11days13h46m40s, of which 333333 may go at once; for 1 at once, write 1/3s3us1ns, \
         and for one at a time add algo=interval",
    ),
    (
        &["-r", "99.99/s,algo=bucket"],
        "",
        "99.99/s is 9999/1m40s, of which 9999 may go at once; for 100 at once, write 100/1s100us11ns, and for one at \
         a time add algo=interval",
    ),
    (
        &["-r", "99.99/s,algo=bucket,burst=5", "-r", "99.99/s,algo=interval", "-r", "0.95/s,algo=interval"],
        "",
        "",
    ),
    (
        &["-r", "3.14159265358979323846/s"],
        "",
        "3.14159265358979323846/s is 1567/8m18s791ms591us650ns, of which 1567 may go at once; for 4 at once, write \
         4/1s273ms239us545ns, and for one at a time add algo=interval",
    ),
    (&["-r", "1.5/s", "-r", "0.1/s", "-r", "1.1/s", "-r", "1.0001k/s", "-r", "0.9/s"], "", ""),
    // More at once than there may be.
    (&["-r3/running", "true"], "x\n", "3/running holds nothing up with -j 1: for 3 at once, add -j 3"),
    (&["-r3/running", "-j2", "true"], "x\n", ""),
    (&["-r1/running", "-r9/running,cost=col:1", "true"], "9\n", ""),
    (&["-F,", "--csv=noheader", "-K", "col:2"], "\"a,b\",c\n", ""),
    // Options of ours among the arguments.
    (
        &["true", "--on-limit=drop"],
        "x\n",
        "--on-limit=drop is after the command, so it belongs to the command: options of throttle go before it",
    ),
    (
        &["--dry-run", "no-such-program", "-j", "4"],
        "",
        "-j is after the command, so it belongs to the command: options of throttle go before it",
    ),
    (
        &["true", "-r", "10/s"],
        "x\n",
        "-r is after the command, so it belongs to the command: options of throttle go before it",
    ),
    (&["true", "-j", "4", "-n9", "-p", "1m", "--timeout=1"], "x\n", ""),
    (&["--", "true", "--on-limit=drop"], "x\n", ""),
    (&["env", "true", "--", "--on-limit=drop"], "x\n", ""),
];

#[test]
fn what_may_not_be_meant_is_told_once() {
    for (args, items, told) in WARNINGS {
        let run = fed(&[&[UNLIMITED], *args].concat(), *items).success();
        let told = if told.is_empty() { String::new() } else { format!("throttle: {told}\n") };
        run.stderr(told);
        fed(&[&[UNLIMITED, "-q"], *args].concat(), *items).success().stderr("");
    }
}

#[test]
fn a_command_that_is_no_program_may_be_an_alias() {
    let told = "throttle: cannot run ll: no such program in $PATH; for an alias of your shell, write what it stands \
                for\nthrottle: ended early: 1 item read and not released\n";
    fed(&[UNLIMITED, "ll"], "x\n").code(127).stderr(told);
    // Without $PATH, a file here is not looked for.
    let directory = Directory::new();
    directory.sh("echo echo hi >ll; chmod +x ll").assert().success();
    let mut command = std::process::Command::new(THROTTLE);
    command.args([UNLIMITED, "ll"]).env_remove("PATH").current_dir(directory.path());
    assert_cmd::Command::from_std(command).write_stdin("x\n").assert().code(127).stderr(told);
}

#[test]
fn an_interrupted_run_tells_what_it_refused() {
    let mut run = Running::throttle(&["-n1", "-p1h", "--on-limit", "drop", "-K", "col:2"]);
    // The last line has another key: once it is there, the others were refused.
    run.write("a x\nb x\nc x\nd y\n");
    assert_eq!([run.line(), run.line()], ["a x\n", "d y\n"]);
    run.signal(Signal::SIGINT);
    let told = text(&run.collect().stderr);
    assert_eq!(told, "throttle: ended by SIGINT: 2 items released, 2 refused, 0 read and not released\n");
}

#[test]
fn columns_of_csv_have_no_quotes() {
    for (separator, items) in [("-F,", "\"a, \"\"b\"\"\",c\nd,\"e\"\n"), ("-F;", "\"a, \"\"b\"\"\";c\nd;e\n")]
    {
        let mut run =
            throttle(&[UNLIMITED, "--csv=noheader", separator, "printf", "[%s]", "{col:1}", "{col:2}"]);
        run.write_stdin(items).assert().success().stdout("[a, \"b\"][c][d][e]").stderr("");
    }
}

#[test]
fn a_function_of_bash_is_run_by_bash() {
    let told = "throttle: fetch is a function of bash: write -- bash -c 'fetch \"$@\"' bash '{}' 'a b'\n";
    let script = "fetch() { printf '[%s]' \"$@\"; }; export -f fetch; true() { false; }; export -f true;";
    let bash = |line: &str| {
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", &format!("{script} \"$0\" {UNLIMITED} {line}"), THROTTLE]);
        assert_cmd::Command::from_std(bash).write_stdin("x y\n").assert()
    };
    if needs_program("bash").is_none() {
        return;
    }
    bash("-- fetch {} 'a b'").code(2).stdout("").stderr(told);
    bash("-- bash -c 'fetch \"$@\"' bash {} 'a b'").success().stdout("[x y][a b]").stderr("");
    let suggested = "-- bash -c 'fetch \"$1\"' bash";
    let told = "there is no program 'fetch {}', and no shell is used";
    bash("'fetch {}'").code(2).stderr(format!("throttle: {told}: write {suggested}\n"));
    bash(suggested).success().stdout("[x y]").stderr("");
    // A program of this name can be run.
    bash("-- true").success().stderr("");
}

#[test]
fn what_is_suggested_for_a_line_of_a_shell_does_what_it_says() {
    let suggested =
        throttle(&[UNLIMITED, "sh", "-c", "echo \"$1\" | wc -c", "sh"]).write_stdin("$(x) 'y\n").unwrap();
    assert_eq!(suggested.stdout, b"8\n");
}

#[test]
fn a_month_that_may_be_a_minute_warns() {
    let told = "throttle: '-p 1M': M is a month, so the period is 1month; for minutes, write -p 1m\n";
    fed(&["-n9", "-p", "1M"], "x\n").success().stdout("x\n").stderr(told);
    fed(&["-n9", "-p", "1M", "-q"], "x\n").success().stderr("");
    fed(&["-n9", "-p", "1month"], "x\n").success().stderr("");
}

#[test]
fn a_backoff_may_be_one_time() {
    let args = ["-r1T/s", "--retries=1", "--backoff=7=10ms", "--", "sh", "-c", "echo try; exit 7"];
    fed(&args, "x\n").code(123).stdout("try\ntry\n");
}

/// One option of each kind, with a value that is valid.
const OPTIONS: &str = "-k -j2 -I@ -t -u --tag --pipe --worker --worker=status --timeout=5 --retries=1 --backoff=1ms \
    --max-hold=5 --halt=soon,fail=1 --log=log --log-format=json --resume --failed=f -r9/running -r1..9/s \
    -r9/s,from=exit -b5 -ccol:1 -Kcol:1 --on-limit=drop --in-order --jitter=1ms --state=./s \
    --store-timeout=5 --reset-state --set-limits --status --json --hold=0 -d, --csv=noheader -B2 \
    --max-wait=1 --until=5 --arrivals=col:1 --at=2026-01-01 --unsorted=1 --stats=json --stats=prom:p \
    --plot=p.svg";

/// Corrects a command line as the message about it says; `None` if it does not say how.
fn corrected(args: &[String], message: &str) -> Option<Vec<String>> {
    let after = |before: &str| message.split_once(before).map(|(_, rest)| rest.trim_end());
    let word = |rest: &str| rest.split([' ', ',', ':']).next().unwrap_or_default().to_owned();
    let with =
        |more: &[&str]| Some([args, &more.iter().map(ToString::to_string).collect::<Vec<_>>()].concat());
    if let Some(command) = after("add one, such as -- ") {
        return with(&[&["--"][..], &command.split(' ').collect::<Vec<_>>()].concat());
    }
    if let Some(option) = after("leave out -").map(|rest| format!("-{}", word(rest))) {
        let kept: Vec<_> = args.iter().filter(|arg| !arg.starts_with(&option)).cloned().collect();
        assert!(kept.len() < args.len(), "{args:?} has no {option} to leave out");
        return Some(kept);
    }
    if message.trim_end().ends_with(": leave it out") {
        let named = word(message.strip_prefix("throttle: ").expect("our name"));
        return Some(args.iter().filter(|arg| !arg.contains(&named)).cloned().collect());
    }
    if message.contains(" cannot be shared: ") {
        let is_ours = |arg: &String| !arg.contains("..") && !arg.contains("from=exit");
        return Some(args.iter().filter(|arg| is_ours(arg)).cloned().collect());
    }
    let added =
        after(" needs ").filter(|_| message.contains(": add it")).or_else(|| after(": add ")).map(word)?;
    let value = match added.as_str() {
        "--retries" => "--retries=1",
        "--log" => "--log=log",
        "-s" => "--state=./s",
        "-A" => "-Abucket",
        "-r" => "-r9/s",
        "one" if args.iter().any(|arg| arg == "--dry-run") => "--arrivals=col:1",
        "one" => "--audit",
        option => option,
    };
    // Where something follows, options go before it.
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    Some([&args[..end], &[value.to_owned()], &args[end..]].concat())
}

#[test]
fn whoever_follows_the_advice_is_not_refused_for_it() {
    let modes: [&[&str]; 6] =
        [&[], &["--audit"], &["--dry-run"], &["--once"], &["--reset-state"], &["--set-limits"]];
    for (mode, option) in modes.iter().flat_map(|mode| OPTIONS.split(' ').map(move |option| (*mode, option)))
    {
        let first = [&["-r9/s", option], mode].concat();
        let (mut args, mut seen) = (first.iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::new());
        loop {
            let directory = Directory::new();
            let args_now: Vec<_> = args.iter().map(String::as_str).collect();
            let output = directory.throttle(&args_now).write_stdin("1\n2\n").output().unwrap();
            let message = text(&output.stderr);
            if output.status.code() != Some(2) {
                break;
            }
            seen.push(format!("{}: {message}", args.join(" ")));
            let Some(next) = corrected(&args, &message) else {
                assert_eq!(seen.len(), 1, "{seen:#?}");
                break;
            };
            assert!(seen.len() < 5, "{seen:#?}");
            args = next;
        }
    }
}
