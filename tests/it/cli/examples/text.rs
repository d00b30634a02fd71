//! Finds the examples in the manual pages and the README.

const PAGES: [&str; 4] = [
    include_str!("../../../../man/throttle.1.in"),
    include_str!("../../../../man/throttle-state.7"),
    include_str!("../../../../man/throttle-reports.7"),
    include_str!("../../../../man/throttle-cookbook.7"),
];
const README: &str = include_str!("../../../../README.md");

/// An example in a manual page that starts like this is output, not a command.
const OUTPUTS: [&str; 2] = ["30 of 300", "throttle: "];

/// Commands in the README that build or install.
const BUILDS: [&str; 2] = ["cargo ", "install "];

/// All examples that are commands, as shell scripts without duplicates.
pub(super) fn scripts() -> Vec<String> {
    let pages = PAGES.into_iter().flat_map(shown);
    let pages = pages.filter(|text| !OUTPUTS.iter().any(|output| text.starts_with(output)));
    let readme = blocks(README).flat_map(|block| commands(&block));
    let readme = readme.filter(|text| !BUILDS.iter().any(|build| text.starts_with(build)));
    let scripts = pages.chain(readme).map(|text| without_schedule(&text).trim_end().to_owned());
    let mut scripts: Vec<_> = scripts.collect();
    scripts.sort_unstable();
    scripts.dedup();
    scripts
}

/// The examples of a manual page, as they are printed.
fn shown(page: &str) -> impl Iterator<Item = String> {
    let examples =
        page.split(".RS 4\n.EX\n").skip(1).map(|rest| rest.split(".EE\n").next().expect("its end"));
    let escapes = [(r"\-", "-"), (r"\(aq", "'"), (r"\(ga", "`"), (r"\e", r"\")];
    examples.map(move |text| escapes.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)))
}

/// The indented blocks of a Markdown text.
fn blocks(text: &str) -> impl Iterator<Item = String> {
    let blocks = text.split("\n\n").filter(|block| block.lines().all(|line| line.starts_with("    ")));
    blocks.map(|block| block.lines().flat_map(|line| [&line[4..], "\n"]).collect())
}

/// The commands of a block, each with the exports before it.
fn commands(block: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    for line in block.lines() {
        commands.last_mut().expect("one").extend([line, "\n"]);
        if !line.ends_with('\\') && !line.starts_with("export ") {
            commands.push(String::new());
        }
    }
    commands.retain(|command| !command.is_empty());
    commands.iter().map(|command| without_comment(command)).collect()
}

/// Removes comments, which start after at least two blanks.
fn without_comment(command: &str) -> String {
    let lines = command.lines().map(|line| line.split("  # ").next().expect("a part").trim_end());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Removes the schedule from a line of a crontab.
fn without_schedule(text: &str) -> &str {
    let is_schedule = |word: &str| word.chars().all(|c| "*/0123456789".contains(c));
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(' ').filter(|(word, _)| is_schedule(word)) {
        rest = after;
    }
    rest
}

/// The file that an example reads its items from.
pub(super) fn input_of(script: &str) -> Option<String> {
    let after = script.split_once(" <").or_else(|| script.split_once(" -a /"))?.1;
    let name = after.split_whitespace().next()?;
    Some(name.trim_start_matches("$HOME/").to_owned())
}

#[test]
fn examples_are_found_as_they_are_printed() {
    let page = ".RS 4\n.EX\nseq 6 | throttle \\-n 2 \\e\n  \\(aqx\\(aq\n.EE\n.RE\n.EX\nno example\n.EE\n";
    assert_eq!(shown(page).collect::<Vec<_>>(), ["seq 6 | throttle -n 2 \\\n  'x'\n"]);
    let readme = "# Title\n\n    one                 # of two\n    two \\\n      more\n\ntext\n\n    export \
        A=1\n    three\n\nend\n";
    let found: Vec<_> = blocks(readme).flat_map(|block| commands(&block)).collect();
    assert_eq!(found, ["one\n", "two \\\n  more\n", "export A=1\nthree\n"]);
}

#[test]
fn a_line_of_a_crontab_is_a_command_and_its_input_is_known() {
    let command = without_schedule("*/5 * * * *  throttle -s api -- curl <$HOME/poll.urls >>poll.log");
    assert_eq!(command, "throttle -s api -- curl <$HOME/poll.urls >>poll.log");
    assert_eq!(input_of(command).as_deref(), Some("poll.urls"));
    assert_eq!(
        input_of(without_schedule("0 3 * * * throttle -a /srv/urls -- x")).as_deref(),
        Some("srv/urls")
    );
    assert_eq!(input_of("seq 6 | throttle -n 2"), None);
}
