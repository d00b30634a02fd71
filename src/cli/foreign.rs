//! Options of xargs, parallel, pv, curl and wget that have another name here, or none.

use std::ffi::OsString;

use super::args::Cli;

/// In braces, these stand for the value that was typed, or else for their own names.
const PLACEHOLDERS: [&str; 4] = ["DUR", "FILE", "N", "S"];

/// Options of other programs: their names, the programs, and what to do here, with tabs between.
const OPTIONS: &str = include_str!("foreign.tsv");

/// Arguments after which parallel takes items from its command line.
const SOURCES: [&str; 4] = [":::", ":::+", "::::", "::::+"];

/// Advice on the option `name` of another program, if it is one. `args` is the whole command line.
pub(super) fn advice(name: &str, args: &[OsString]) -> Option<String> {
    let mut rows = OPTIONS.lines().map(|row| row.splitn(3, '\t').collect::<Vec<_>>());
    let row = rows.find(|row| row[0].split(' ').any(|known| known == name))?;
    let [_, whose, advice] = row[..] else { return None };
    let value = value(name, args);
    // A number of lines has no unit.
    let has_unit = value.as_ref().is_some_and(|value| value.ends_with(|c: char| c.is_ascii_alphabetic()));
    let advice = if has_unit { advice.split("; as with xargs").next().unwrap_or(advice) } else { advice };
    let advice = with_value(advice, value.as_deref());
    Some(format!("{name} is an option of {whose}: {advice}"))
}

/// Advice on `:::`, unless it is after `--`, where it belongs to the command.
pub(super) fn source_advice(cli: &Cli) -> Option<String> {
    let words = cli.before.iter().chain(cli.unmarked_command()).map(|arg| arg.to_str().unwrap_or_default());
    let source = words.take_while(|arg| *arg != "--").find(|arg| SOURCES.contains(arg))?;
    Some(format!(
        "{source} is an argument of parallel: here, items come from stdin, as in printf '%s\\n' a b | \
         throttle, or from -a FILE; if it is the command's own, put -- before the command"
    ))
}

/// Fills in the value for each placeholder; without a value, their names.
fn with_value(advice: &str, value: Option<&str>) -> String {
    let advice = match value.filter(|value| value.contains('/')) {
        Some(rate) => advice.replace("{N}/s", rate),
        None => advice.to_owned(),
    };
    PLACEHOLDERS.iter().fold(advice, |advice, name| {
        let is_it = |value: &&str| *name != "N" || value.starts_with(|c: char| c.is_ascii_digit());
        let told = value.filter(is_it).map_or_else(|| (*name).to_owned(), |value| as_ours(name, value));
        advice.replace(&format!("{{{name}}}"), &told)
    })
}

/// A value as written here. Units of numbers are binary in all these programs: pv's `1m` is `1Mi`.
fn as_ours(name: &str, value: &str) -> String {
    let number = value.trim_end_matches(['b', 'B']).trim_end_matches('i');
    match number.char_indices().next_back() {
        Some((at, unit)) if name == "N" && "kmgtKMGT".contains(unit) => {
            format!("{}{}i", &number[..at], unit.to_ascii_uppercase())
        }
        _ if name == "N" => number.to_owned(),
        _ => value.to_owned(),
    }
}

/// The value of an option as typed, if it looks like a number or a file name. Not 0, which means no limit elsewhere and
/// is invalid here.
fn value(name: &str, args: &[OsString]) -> Option<String> {
    let at = args.iter().position(|arg| arg.to_str().is_some_and(|arg| arg.starts_with(name)))?;
    let attached = args[at].to_str()?.strip_prefix(name)?.trim_start_matches('=');
    let value = if attached.is_empty() { args.get(at + 1)?.to_str()? } else { attached };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./_%".contains(c);
    (!value.trim_start_matches('0').is_empty() && value.chars().all(is_plain)).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Instead, parse};

    fn typed(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn values_that_were_typed_are_in_the_advice() {
        for (name, text, told) in [
            ("--delay", "throttle --delay 1 echo", "use -n 1 -p 1"),
            ("--delay", "throttle --delay=0.5 echo", "use -n 1 -p 0.5"),
            ("--delay", "throttle --delay", "use -n 1 -p DUR"),
            (
                "-L",
                "throttle -L10",
                "use -r 10/s,cost=bytes,algo=bucket for bytes, or -A interval -r 10/s for items; as with \
                 xargs, -B 10",
            ),
            ("-L", "throttle -L -j2", "or -A interval -r N/s for items"),
            (
                "-L",
                "throttle -L 10/m",
                "use -r 10/m,cost=bytes,algo=bucket for bytes, or -A interval -r 10/m for items",
            ),
            ("-l", "throttle -l2 echo", "as with xargs, -B 2"),
            ("--sem", "throttle --sem echo", "use --once -s NAME -r RATE"),
            ("-L", "throttle -L M", "or -A interval -r N/s for items"),
            (
                "-L",
                "throttle -L 2mb",
                "use -r 2Mi/s,cost=bytes,algo=bucket for bytes, or -A interval -r 2Mi/s",
            ),
            ("-L", "throttle -L 1.5K", "-r 1.5Ki/s for items"),
            (
                "--limit-rate",
                "throttle --limit-rate=200k",
                "as in -- curl --limit-rate 200k; for items, use -r 200Ki/s,cost=bytes,algo=bucket",
            ),
            ("--wait", "throttle --wait=5 wget", "use -r 1/5,from=exit"),
            ("--joblog", "throttle --joblog my.log", "use --log my.log"),
            ("--max-procs", "throttle --max-procs=0", "use -j N"),
        ] {
            let advice = advice(name, &typed(text)).unwrap();
            assert!(advice.contains(told), "{text}: {advice}");
        }
        assert_eq!(advice("--nonsense", &typed("throttle --nonsense")), None);
    }

    #[test]
    fn each_row_gives_advice_on_options_that_are_not_ours() {
        for row in OPTIONS.lines() {
            for name in row.split('\t').next().unwrap().split(' ') {
                assert!(advice(name, &[]).is_some_and(|advice| !advice.contains('\t')), "{row}");
                let unknown = parse(typed(&format!("throttle -n1 {name} x"))).unwrap_err();
                assert!(
                    matches!(unknown, Instead::Mistake(told) if told.contains("is an option of")),
                    "{row}"
                );
            }
        }
    }

    #[test]
    fn sources_are_those_of_a_command_behind_two_dashes() {
        let is_mistake = |text| parse(typed(text)).is_err();
        assert!(is_mistake("throttle -n1 echo ::: a b"));
        assert!(!is_mistake("throttle -n1 -- parallel echo ::: a b"));
        assert!(!is_mistake("throttle -n1 echo a:::b"));
    }
}
