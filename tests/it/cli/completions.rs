//! The completions, in the shells they are for.
//!
//! Each row is typed and completed with a tab; then the words of the resulting line are compared.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::{env, fs};

use crate::support::{Directory, HANG, needs_program, text};

/// What is typed, and the resulting words.
const TYPED: &[(&str, &str)] = &[
    ("--hal", "<--halt>"),
    ("-A b", "<-A><bucket>"),
    ("-Ab", "<-Abucket>"),
    ("--algorithm=in", "<--algorithm=interval>"),
    ("--on-limit dr", "<--on-limit><drop>"),
    ("--on-bad s", "<--on-bad><skip>"),
    ("--halt soon,f", "<--halt><soon,fail=>"),
    ("--halt=now,su", "<--halt=now,success=>"),
    ("--tag=ho", "<--tag=host>"),
    ("-K ho", "<-K><host>"),
    ("-c by", "<-c><bytes>"),
    ("-s gi", "<-s><github>"),
    ("-s redis+", "<-s><redis+sentinel://>"),
    ("-s @it", "<-s><@items.txt>"),
    ("-n 1 -a it", "<-n><1><-a><items.txt>"),
    ("-r 1/s,al", "<-r><1/s,algo=>"),
    ("-r 1/s,algo=bu", "<-r><1/s,algo=bucket>"),
    ("-r 1/s,algo=bucket,bu", "<-r><1/s,algo=bucket,burst=>"),
    ("-r 1/s,start=e", "<-r><1/s,start=empty>"),
    ("-r 4/r", "<-r><4/running>"),
    ("-r 4/running,o", "<-r><4/running,only=>"),
    ("--rate=1/s,key=h", "<--rate=1/s,key=host>"),
    ("-r @it", "<-r><@items.txt>"),
    ("-r@it", "<-r@items.txt>"),
    ("--rate=@it", "<--rate=@items.txt>"),
    ("help fa", "<help><failures>"),
    ("--help fa", "<--help><failures>"),
    ("--stats j", "<--stats><json>"),
    ("--stats=pr", "<--stats=prom:>"),
    ("--stats prom:it", "<--stats><prom:items.txt>"),
    ("-a with", "<-a><with blank.txt>"),
    ("-a with\\ b", "<-a><with blank.txt>"),
    ("-r @with", "<-r><@with blank.txt>"),
    ("--log directory/in", "<--log><directory/inner>"),
    ("--stats prom:directory/in", "<--stats><prom:directory/inner>"),
    // The command and its arguments.
    ("-n1 ourcom", "<-n1><ourcommand>"),
    ("-n1 -- ourcom", "<-n1><--><ourcommand>"),
    ("-n 1 -- ourcommand --ours", "<-n><1><--><ourcommand><--ours-only>"),
    ("-n 1 -j 2 ourcommand --ours", "<-n><1><-j><2><ourcommand><--ours-only>"),
    ("-qn 1 -r 5/s ourcommand fir", "<-qn><1><-r><5/s><ourcommand><first>"),
];

/// What is typed where there are several completions, and the words with the first of them.
const FIRST: &[(&str, &str)] = &[
    ("-A ", "<-A><bucket>"),
    ("-r 10/s,algo=", "<-r><10/s,algo=bucket>"),
    ("-r 10/s,start=", "<-r><10/s,start=empty>"),
    ("--rate=10/s,from=", "<--rate=10/s,from=exit>"),
    ("-r 4/running,", "<-r><4/running,cost=>"),
    ("help ", "<help><algorithms>"),
];

/// What is typed where a directory follows, and the resulting words. zsh removes the slash again if the word ends
/// there.
const DIRECTORIES: &[(&str, &str)] = &[
    ("--log dir", "<--log><directory/>"),
    ("-adir", "<-adirectory/>"),
    ("--stats prom:dir", "<--stats><prom:directory/>"),
];

#[test]
fn bash_completes() {
    let library =
        needs_program("bash").and_then(|_| needs_file("/usr/share/bash-completion/bash_completion"));
    let Some(library) = library else { return };
    let library = format!(". {}\ncomplete -W '--ours-only first' ourcommand\n", library.display());
    bash(&library, TYPED);
    bash(&library, DIRECTORIES);
    bash(&(library + "bind 'TAB: menu-complete'\n"), FIRST);
}

/// Without its library, bash also splits words at @, and completes no arguments of commands.
#[test]
fn bash_completes_without_its_library() {
    if needs_program("bash").is_some() {
        let own: Vec<_> = TYPED.iter().copied().filter(|(typed, _)| !typed.contains("ourcommand ")).collect();
        bash("", &own);
    }
}

fn bash(setup: &str, typed: &[(&str, &str)]) {
    let completion = completion("throttle.bash");
    let setup = format!("PS1='$ '\nbind 'set enable-bracketed-paste off'\n{setup}\n. {completion}\n{WORDS}");
    let place = Place::new();
    place.directory.file("rc", setup);
    place.types("bash --noprofile --rcfile rc -i", typed);
}

#[test]
fn zsh_completes() {
    if needs_program("zsh").is_none() {
        return;
    }
    for (option, typed) in [("", TYPED), ("setopt menu_complete", FIRST)] {
        zsh(option, typed);
    }
}

fn zsh(option: &str, typed: &[(&str, &str)]) {
    let setup = format!(
        "{option}\nPS1='%% '\nunsetopt zle_bracketed_paste beep\nfpath=({} $fpath)\nautoload -Uz compinit && \
         compinit -u -D\n\
         _ours() {{ compadd -- --ours-only first }}\ncompdef _ours ourcommand\n{WORDS}",
        completion("")
    );
    let place = Place::new();
    place.directory.file(".zshrc", setup);
    place.types("zsh -i", typed);
}

/// fish lists its completions on request.
#[test]
fn fish_completes() {
    if needs_program("fish").is_none() {
        return;
    }
    let place = Place::new();
    let setup = format!(
        "source {}\ncomplete -c ourcommand -l ours-only\ncomplete -c ourcommand -f -a first\n",
        completion("throttle.fish")
    );
    let typed = || TYPED.iter().chain(FIRST);
    let ask = |(typed, _): &(&str, &str)| {
        format!("echo (complete -C 'throttle {typed}' | string replace -r '\\t.*' '' | sort | head -n 1)\n")
    };
    let questions: Vec<_> = typed().map(ask).collect();
    let script = setup + &questions.concat();
    place.directory.file("script", script);
    let output = place.run("fish --no-config script");
    let told = text(&output.stdout);
    assert_eq!(told.lines().count(), typed().count(), "{told}\n{}", text(&output.stderr));
    for ((typed, words), last) in typed().zip(told.lines()) {
        assert!(words.ends_with(&format!("<{last}>")), "{typed}: '{last}'");
    }
}

/// fish would repeat the text beside each value.
#[test]
fn fish_does_not_show_the_text_on_an_option_beside_its_values() {
    if needs_program("fish").is_none() {
        return;
    }
    let place = Place::new();
    let valued =
        ["-A ", "-r 1", "-r 1/s,", "-r 1/s,algo=", "-r @", "-s ", "--halt ", "--stats ", "--on-bad "];
    let ask = |typed: &&str| format!("complete -C 'throttle {typed}'\n");
    let setup = format!("source {}\n", completion("throttle.fish"));
    place.directory.file("script", setup + &valued.iter().map(ask).collect::<String>());
    let told = text(&place.run("fish --no-config script").stdout);
    assert!(told.lines().count() > 2 * valued.len(), "{told}");
    assert_eq!(told.lines().find(|line| line.contains('\t')), None);
}

/// Prints the words of the command line.
const WORDS: &str = "throttle() { printf 'words: '; printf '<%s>' \"$@\"; echo; }\n";

/// A directory with something to complete.
struct Place {
    directory: Directory,
}

impl Place {
    fn new() -> Self {
        let directory = Directory::new();
        directory.file("items.txt", "");
        directory.file("with blank.txt", "");
        fs::create_dir(directory.path().join("directory")).expect("a directory");
        directory.file("directory/inner", "");
        let command = directory.file("ourcommand", "#!/bin/sh\n");
        fs::set_permissions(command, PermissionsExt::from_mode(0o755)).expect("it is ours");
        fs::create_dir(directory.path().join("throttle")).expect("a directory");
        directory.file("throttle/github", "");
        Place { directory }
    }

    fn run(&self, line: &str) -> Output {
        let here = self.directory.path();
        let path = format!("{}:/usr/bin:/bin", here.display());
        let mut command = assert_cmd::Command::new("sh");
        command.timeout(HANG).args(["-c", line]).current_dir(here).env("PATH", path).env("TERM", "dumb");
        command.env("HOME", here).env("ZDOTDIR", here).env("XDG_STATE_HOME", here);
        command.output().expect("it is there")
    }

    /// Types all lines at a terminal.
    fn types(&self, shell: &str, typed: &[(&str, &str)]) {
        if needs_program("script").is_none() {
            return;
        }
        let lines: Vec<_> = typed.iter().map(|(typed, _)| format!("throttle {typed}\t\n")).collect();
        self.directory.file("typed", lines.concat() + "exit\n");
        let output = self.run(&format!("script -qec '{shell}' /dev/null <typed"));
        let told = text(&output.stdout);
        let words: Vec<_> = told.lines().filter_map(|line| line.trim_end().split_once("words: ")).collect();
        assert_eq!(words.len(), typed.len(), "{told}");
        for ((typed, wanted), (_, words)) in typed.iter().zip(words) {
            assert_eq!(words, *wanted, "{typed}");
        }
    }
}

fn completion(name: &str) -> String {
    format!("'{}'", Path::new(env!("CARGO_MANIFEST_DIR")).join("completions").join(name).display())
}

fn needs_file(path: &str) -> Option<PathBuf> {
    let path = PathBuf::from(path);
    if path.is_file() {
        return Some(path);
    }
    assert!(env::var_os("CI").is_none(), "{} is missing, and required under CI", path.display());
    eprintln!("skipped: {} is missing", path.display());
    None
}
