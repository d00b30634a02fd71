//! The manual page and the completions match the definition of the command line.
//!
//! `THROTTLE_WRITE_GENERATED=1 cargo test generated` regenerates them.

mod completions;

use std::path::Path;
use std::{env, fs, io};

use clap::{Arg, CommandFactory};
use clap_mangen::Man;
use throttle::cli::Cli;

const TEMPLATE: &str = include_str!("../../../man/throttle.1.in");

#[test]
fn the_manual_page_is_up_to_date() {
    check("man/throttle.1", &manual_page());
}

#[test]
fn the_completions_are_up_to_date() {
    check("completions/throttle.bash", &completions::bash());
    check("completions/_throttle", &completions::zsh());
    check("completions/throttle.fish", &completions::fish());
}

#[test]
fn the_manual_page_has_all_its_sections() {
    let page = manual_page();
    let sections: Vec<_> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
    let wanted = [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "EXAMPLES",
        "OPTIONS",
        "RATES",
        "ALGORITHMS",
        "SELECTORS",
        "KEYS AND LANES",
        "ITEMS",
        "WHEN AN ITEM CANNOT GO AT ONCE",
        "SHARED LIMITS",
        "COMMANDS",
        "FAILURES AND RETRIES",
        "LOGS AND REPORTS",
        "EXIT STATUS",
        "SIGNALS",
        "ENVIRONMENT",
        "BUGS",
        "SEE ALSO",
    ];
    assert_eq!(sections, wanted);
}

/// Compares a file with its wanted contents, or writes these.
fn check(path: &str, wanted: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("THROTTLE_WRITE_GENERATED").is_some() {
        fs::write(file, wanted).unwrap();
        return;
    }
    let found = fs::read_to_string(file).unwrap_or_default();
    assert!(found == wanted, "{path} is out of date: run THROTTLE_WRITE_GENERATED=1 cargo test generated");
}

fn manual_page() -> String {
    // Sections of the page cover the details.
    let shown = |arg: Arg| arg.long_help(None).hide_short_help(false);
    let command = Cli::command().mut_args(shown).mut_arg("generate", |arg| arg.hide_possible_values(true));
    let man = Man::new(command);
    TEMPLATE
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@NAME@\n", &roff(|out| man.render_name_section(out)))
        .replace("@SYNOPSIS@\n", &roff(|out| man.render_synopsis_section(out)))
        .replace("@OPTIONS@\n", &as_one_section(&roff(|out| man.render_options_section(out))))
}

/// One section, without the definition of the apostrophe that would precede each.
fn roff(render: impl Fn(&mut dyn io::Write) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    render(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap().replace(r"\*(Aq", r"\(aq");
    let lines = text.lines().filter(|line| !line.starts_with(".ie") && !line.starts_with(".el"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The options under OPTIONS: the headings of the help become subsections, and the layout is that of manual pages, with
/// metavariables without brackets and the text beside each option.
fn as_one_section(options: &str) -> String {
    let lines = options.lines().map(|line| match line.strip_prefix(".SH ") {
        Some(heading) => format!(".PD\n.SS {}{}\n.PD 0", &heading[..1], heading[1..].to_lowercase()),
        None if line == ".TP" => ".TP 22".to_owned(),
        None => line.replace(r"\fI<", r"\fI").replace(r">\fR", r"\fR"),
    });
    let lines = [".SH OPTIONS".to_owned()].into_iter().chain(lines).chain([".PD".to_owned()]);
    lines.map(|line| line + "\n").collect()
}
