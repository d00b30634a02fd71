//! `--csv`: items are records of a table, after a header.

use std::io::{self, Read};
use std::process::Command;

use csv_core::{ReadFieldResult, ReaderBuilder, Terminator};
use predicates::str::starts_with;
use throttle::cli;
use throttle::config::InputOptions;
use throttle::source::{Delimiter, Fields, Reader};

use crate::support::{Directory, Running, THROTTLE, UNLIMITED, fed, for_each_seed, text, throttle};

/// Reads pieces of random lengths.
struct Pieces<'a> {
    rest: &'a [u8],
    longest: usize,
    random: fastrand::Rng,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.random.usize(1..=self.longest).min(buffer.len()).min(self.rest.len());
        buffer[..length].copy_from_slice(&self.rest[..length]);
        self.rest = &self.rest[length..];
        Ok(length)
    }
}

fn options(args: &[&str]) -> InputOptions {
    cli::parse(["throttle", UNLIMITED].iter().chain(args).map(Into::into)).expect("valid").input
}

/// A record: its bytes, and its fields.
type Record = (Vec<u8>, Vec<Vec<u8>>);

/// The model: one byte at a time. An error is the index of a quote that is open at the end.
fn parsed(bytes: &[u8], separator: u8) -> Result<Vec<Record>, usize> {
    #[derive(PartialEq)]
    enum State {
        FieldStart,
        Plain,
        Quoted,
        QuoteInQuoted,
    }
    let (mut records, mut whole, mut fields, mut field) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut state, mut opened) = (State::FieldStart, 0);
    for (at, &byte) in bytes.iter().enumerate() {
        whole.push(byte);
        state = match (state, byte) {
            (State::Quoted, b'"') => State::QuoteInQuoted,
            (State::QuoteInQuoted, b'"') | (State::Quoted, _) => {
                field.push(byte);
                State::Quoted
            }
            (State::FieldStart, b'"') => {
                opened = at;
                State::Quoted
            }
            (_, b'\n') => {
                if whole.ends_with(b"\r\n") {
                    field.pop();
                }
                fields.push(std::mem::take(&mut field));
                records.push((std::mem::take(&mut whole), std::mem::take(&mut fields)));
                State::FieldStart
            }
            (_, byte) if byte == separator => {
                fields.push(std::mem::take(&mut field));
                State::FieldStart
            }
            _ => {
                field.push(byte);
                State::Plain
            }
        };
    }
    if state == State::Quoted {
        return Err(opened);
    }
    if !whole.is_empty() {
        fields.push(field);
        records.push((whole, fields));
    }
    Ok(records)
}

/// The fields of a record as another implementation reads them, with a newline for the end of a record.
fn as_csv_core(record: &[u8], separator: u8) -> Vec<Vec<u8>> {
    let mut reader = ReaderBuilder::new().delimiter(separator).terminator(Terminator::Any(b'\n')).build();
    let (mut rest, mut fields, mut field) = (record, Vec::new(), Vec::new());
    loop {
        let mut buffer = [0; 16];
        let (result, read, written) = reader.read_field(rest, &mut buffer);
        rest = &rest[read..];
        field.extend_from_slice(&buffer[..written]);
        match result {
            ReadFieldResult::Field { record_end } => {
                fields.push(std::mem::take(&mut field));
                if record_end {
                    break;
                }
            }
            ReadFieldResult::End => break,
            ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => {}
        }
    }
    if record.ends_with(b"\r\n") {
        fields.last_mut().expect("a field").pop();
    }
    fields
}

/// What the program reads: whole items with their fields, and the error.
fn read(
    bytes: &[u8],
    options: &InputOptions,
    columns: usize,
    longest: usize,
    seed: u64,
) -> (Vec<Record>, Option<String>) {
    let delimiter = Delimiter::of(options);
    let selectors: Vec<_> = (1..=columns).map(|column| format!("col:{column}").parse().unwrap()).collect();
    let fields = Fields::new(&selectors, options.separator.as_ref());
    let pieces = Pieces { rest: bytes, longest, random: fastrand::Rng::with_seed(seed) };
    let mut records = Vec::new();
    for segment in Reader::new(pieces, delimiter.clone(), options.max_record) {
        let segment = match segment {
            Ok(segment) => segment,
            Err(error) => return (records, Some(error.to_string())),
        };
        let before = records.len();
        let mut rest = segment.bytes();
        for record in delimiter.split(segment.bytes()) {
            // With what ends it: the rest of the line.
            let ending = rest[record.len()..].iter().take_while(|byte| b"\r\n".contains(byte));
            let ending = ending.take(if rest[record.len()..].starts_with(b"\r") { 2 } else { 1 }).count();
            let fields = fields.select(record, record.len()).flatten().map(Into::into).collect();
            let whole;
            (whole, rest) = rest.split_at(record.len() + ending);
            records.push((whole.to_vec(), fields));
        }
        assert_eq!((records.len() - before) as u64, segment.items());
    }
    (records, None)
}

#[test]
fn records_are_those_of_other_parsers_however_they_are_cut() {
    for_each_seed(1000, |random| {
        let (separator, option) = *random.choice(&[(b',', "-F,"), (b';', "-F;"), (b'\t', "-F\\t")]).unwrap();
        let alphabet = [separator, b'"', b'"', b'\n', b'\r', b' ', b'a', 0xff];
        let length = random.usize(..40);
        let bytes: Vec<_> = (0..length).map(|_| *random.choice(&alphabet).unwrap()).collect();
        let options = options(&["--csv=noheader", option]);
        let (records, error) = read(&bytes, &options, 41, random.usize(1..6), random.u64(..));
        match parsed(&bytes, separator) {
            Err(quote) => {
                let error = error.unwrap_or_else(|| panic!("{}", bytes.escape_ascii()));
                let line = bytes[..quote].split(|&byte| byte == b'\n').count();
                let place = format!("line {line}: the quote before ");
                assert!(error.starts_with(&place), "{}: {error} {line}", bytes.escape_ascii());
                assert!(error.ends_with(&format!(", in item {}", records.len() + 1)), "{error}");
            }
            Ok(expected) => {
                assert_eq!((records, error), (expected.clone(), None), "{}", bytes.escape_ascii());
                for (whole, fields) in expected.iter().filter(|record| record.0 != b"\n") {
                    assert_eq!(as_csv_core(whole, separator), *fields, "{}", whole.escape_ascii());
                }
            }
        }
    });
}

/// A field as programs write it.
fn written(random: &mut fastrand::Rng, text: &str) -> String {
    let must = text.contains(['"', ',', '\n', '\r']);
    if must || random.bool() { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[test]
fn tables_with_long_records_pass_untouched() {
    for_each_seed(3, |random| {
        let mut table = b"id,text\r\n".to_vec();
        for id in 0..300 {
            let length = random.usize(..5) * random.usize(..4000) * usize::from(random.u8(..8) < 7);
            let length = if id == 150 { 2 << 20 } else { length };
            let field: String =
                (0..length).map(|_| *random.choice(&['"', ',', '\n', 'x']).unwrap()).collect();
            table.extend(format!("{id},{}\r\n", written(random, &field)).into_bytes());
        }
        let records = parsed(&table, b',').unwrap();
        assert_eq!(records.len(), 301);
        let (read, error) = read(&table, &options(&["--csv=noheader"]), 2, 300_000, random.u64(..));
        assert!(read == records && error.is_none(), "{error:?}");
        for args in [&["--csv"][..], &["--csv=noheader"], &["--csv", "-K", "col:id"]] {
            let args = [&[UNLIMITED, "-v"], args].concat();
            let output = throttle(&args).write_stdin(table.clone()).output().unwrap();
            assert!(output.stdout == table, "{args:?} altered {} bytes", table.len());
            let items = if args.contains(&"--csv=noheader") { 301 } else { 300 };
            assert!(
                text(&output.stderr).contains(&format!("{items} of {items} items released")),
                "{}",
                text(&output.stderr)
            );
        }
    });
}

/// Commands get the columns that a model finds, by name and by number.
#[test]
fn columns_are_selected_by_name() {
    for_each_seed(15, |random| {
        let names = ["id", "user name", "a\"b", "x,y", "line\nbreak", "\u{e4}"];
        let header: Vec<_> = names.iter().map(|name| written(random, name)).collect();
        let mut table = header.join(",") + "\n";
        let mut expected = String::new();
        for _ in 0..random.usize(1..5) {
            let row: Vec<_> = (0..names.len())
                .map(|_| {
                    let length = random.usize(..6);
                    (0..length)
                        .map(|_| *random.choice(&['"', ',', '\n', 'x', ' ']).unwrap())
                        .collect::<String>()
                })
                .collect();
            let line: Vec<_> = row.iter().map(|field| written(random, field)).collect();
            table += &(line.join(",") + "\n");
            let arguments: Vec<_> = row.iter().chain([&row[1]]).map(String::as_str).collect();
            expected += &["[", &arguments.join("]["), "]"].concat();
        }
        let places: Vec<_> = names.iter().map(|name| format!("{{col:{name}}}")).collect();
        let mut args = vec![UNLIMITED, "--csv", "--", "printf", "[%s]"];
        args.extend(places.iter().map(String::as_str).chain(["{col:2}"]));
        fed(&args, table).success().stdout(expected).stderr("");
    });
}

#[test]
fn the_header_goes_out_first_and_at_once_and_is_charged_to_nothing() {
    let mut run = Running::start(Command::new(THROTTLE).args(["-n1", "-p1h", "--csv"]));
    run.write("\"id\",na");
    run.write("me\r\n");
    assert_eq!(run.line(), "\"id\",name\r\n");
    run.write("1,\"a\n");
    run.write("b\"\r\n");
    assert_eq!([run.line(), run.line()], ["1,\"a\n", "b\"\r\n"]);
    run.write("2,c\n");
    run.signal(nix::sys::signal::Signal::SIGINT);
    assert!(text(&run.collect().stderr).contains("1 item released"));
}

#[test]
fn tables_without_items() {
    for (table, stdout) in [("", ""), ("a,b", "a,b"), ("a,b\n", "a,b\n"), ("\n", "\n"), ("\n \na\n", "\n")] {
        let mut run = throttle(&[UNLIMITED, "--csv", "--dry-run"]);
        let items = if stdout == "\n" && table.len() > 1 { "0.000000000\t \n0.000000000\ta\n" } else { "" };
        run.write_stdin(table).assert().success().stdout(items);
        let all = if items.is_empty() { stdout } else { table };
        fed(&[UNLIMITED, "--csv"], table).success().stdout(all).stderr("");
    }
    // Blank records before a header may be left out.
    let mut run = throttle(&[UNLIMITED, "--csv", "--skip-blank", "-K", "col:a"]);
    run.write_stdin("\n \na,b\n\n1,2\n").assert().success().stdout("a,b\n1,2\n").stderr("");
}

#[test]
fn what_counts_items_does_not_count_the_header() {
    let directory = Directory::new();
    directory.file("t.csv", "id,wait\n1,\"a\nb\"\n2,c\n3,d");
    let script = |script: &str| {
        let output = directory.sh(script).output().unwrap();
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let ok = |stdout: &str| (stdout.to_owned(), String::new(), Some(0));
    let plan = "0.000000000\t1,\"a\nb\"\n1.000000000\t2,c\n2.000000000\t3,d";
    assert_eq!(script("throttle -r 1/s --csv --dry-run <t.csv"), ok(plan));
    assert_eq!(script("throttle -r 1T/s --csv echo {#}:{col:id} <t.csv"), ok("1:1\n2:2\n3:3\n"));
    // Items that the log has are not run again, and what failed is a table of its own.
    let run = "throttle -q -r 1T/s --csv --log log --resume --failed again.csv";
    let (stdout, _, code) = script(&format!("{run} -- sh -c 'test $1 != 2 && echo $1' sh {{col:id}} <t.csv"));
    assert_eq!((&stdout[..], code), ("1\n3\n", Some(123)));
    assert_eq!(script("cat again.csv"), ok("id,wait\n2,c\n"));
    assert_eq!(script(&format!("{run} echo {{col:wait}} <t.csv")), ok("c\n"));
    assert_eq!(script("throttle -q -r 1T/s --csv --log log --resume echo {col:id} <t.csv"), ok(""));
    // The rest of the input is left for others.
    let two = "(throttle -q -r 2/h,algo=fixed --on-limit fail --csv; cat) <t.csv";
    assert_eq!(script(two).0, "id,wait\n1,\"a\nb\"\n2,c\n3,d");
    // Costs, keys, arrivals.
    let costs = "throttle -r 2/s -c col:id --csv --dry-run <t.csv";
    assert!(script(costs).1.contains("item 3"), "{:?}", script(costs));
    directory.file("stamps.csv", "text,time\n\"a,\n\",0\nb,0.5\nc,1\n");
    let arrivals = "throttle -r 1T/s --csv --dry-run --arrivals col:time <stamps.csv";
    assert_eq!(script(arrivals), ok("0.000000000\t\"a,\n\",0\n0.500000000\tb,0.5\n1.000000000\tc,1\n"));
    let (stdout, stderr, code) = script("throttle -r 1/s --csv --audit --arrivals col:time <stamps.csv");
    assert_eq!((code, &stderr[..]), (Some(75), ""), "{stdout}");
    assert!(stdout.contains("item 2") && stdout.contains("item 3"), "{stdout}");
    let passed = script("throttle -r 1T/s --csv --audit --arrivals now <t.csv");
    assert_eq!(passed.0, "id,wait\n1,\"a\nb\"\n2,c\n3,d");
}

#[test]
fn who_reads_a_table_on_stdin_gets_the_header() {
    let table = "id,text\n1,\"a\nb\"\n2,c\n3,d\n";
    let run = |args: &[&str], stdout: &str| {
        fed(&[&[UNLIMITED, "--csv"], args].concat(), table).success().stdout(stdout.to_owned()).stderr("");
    };
    run(
        &["--pipe", "-B2", "--", "sh", "-c", "cat; echo -"],
        "id,text\n1,\"a\nb\"\n2,c\n-\nid,text\n3,d\n-\n",
    );
    run(&["--pipe", "tail", "-n+2"], "1,\"a\nb\"\n2,c\n3,d\n");
    // A worker gets it once.
    let worker = "read -r head; while read -r line; do case $line in *'\"a') read -r more;; esac; \
                  echo \"$head: $line $more\"; more=; done";
    let stdout = "id,text: 1,\"a b\"\nid,text: 2,c \nid,text: 3,d \n";
    run(&["--worker", "--", "sh", "-c", worker], stdout);
    run(&["-B2", "printf", "[%s]"], "[1,\"a\nb\"][2,c][3,d]");
}

#[test]
fn a_header_is_read_as_programs_write_it() {
    for table in ["\u{feff}\"a,\"\"b\",c\n1,2\n", "\"a,\"\"b\",c\r\n1,2\r\n", "\"a,\"\"b\",c\n\"1\",\"2\""] {
        let mut run = throttle(&[UNLIMITED, "--csv", "--", "printf", "%s-%s", "{col:c}", "{col:a,\"b}"]);
        run.write_stdin(table).assert().success().stdout("2-1").stderr("");
        fed(&[UNLIMITED, "--csv"], table).success().stdout(table);
    }
}

/// The arguments after `--csv`, the input, the output, and the message if there is a mistake.
type Mistake = (&'static [&'static str], &'static str, &'static str, &'static str);

const MISTAKES: [Mistake; 12] = [
    (&["-K", "col:user"], "id,User\n1,2\n", "", "the header has no column 'user': it has 'id', 'User'"),
    (
        &["echo", "{col:id}"],
        "id,x,id\n1,2,3\n",
        "",
        "the header has several columns 'id': write col:1 or col:3",
    ),
    (&["echo", "{col:3}"], "id,x,id\n1,2,3\n", "3\n", ""),
    (
        &[],
        "a,b\n1,\"x\ny\"\n2,\"z\n3,4\n",
        "a,b\n1,\"x\ny\"\n",
        "line 4: the quote before '\"z' is not closed before the end of the input, in item 2",
    ),
    (
        &[],
        "a,\"b\n1,2\n",
        "",
        "line 1: the quote before '\"b' is not closed before the end of the input, in the header",
    ),
    (
        &["--max-record=9"],
        "a,b\n\n1,\"x\n12345678\n",
        "a,b\n\n",
        "line 3: the quote before '\"x' is not closed within the 9 bytes of --max-record",
    ),
    (&["--max-record=9"], "a,b,c,d,e,f\n1\n", "", "the header is longer than 9 bytes: raise --max-record"),
    (
        &["--max-record=9"],
        "a\n1234567890\n",
        "a\n",
        "item 1, at byte 2, is longer than 9 bytes: raise --max-record, or check the delimiter",
    ),
    (&["echo", "{col:b}"], "a,b\n1,2\n3\n", "2\n", "item 2: has no col:b for COMMAND: '3'"),
    (&[], "\u{0}", "\u{0}", ""),
    (&["-F\\t", "echo", "{col:b}"], "a\tb\n1\t\"2\t\"\n", "2\t\n", ""),
    (&["-F;", "echo", "{col:b}"], "a;b\n1,;\"2;\"\n", "2;\n", ""),
];

#[test]
fn mistakes_in_tables_say_where_and_what() {
    for (args, table, stdout, told) in MISTAKES {
        let run = fed(&[&[UNLIMITED, "--csv"], args].concat(), table);
        let run = run.code(i32::from(!told.is_empty())).stdout(stdout);
        match told {
            "" => run.stderr(""),
            _ => run.stderr(starts_with(format!("throttle: {told}\n"))),
        };
    }
}

#[test]
fn limits_in_files_name_columns_that_exist() {
    let directory = Directory::new();
    let limits = directory.file("limits", "1T/s,key=col:no\n");
    let at = format!("@{}", limits.display());
    let run = fed(&["-r", &at, "--csv"], "id\n1\n");
    run.code(1).stdout("").stderr("throttle: the header has no column 'no': it has 'id'\n");
    let run = fed(&["-r", &at], "id\n1\n");
    run.code(1).stderr("throttle: col:no is a name in a header: add --csv, or write col:N\n");
}
