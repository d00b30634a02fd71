//! Which top-level modules of the library use which: arrows point one way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules that any other may use, and that use none.
const COMMON: [&str; 9] =
    ["time", "exit", "charge", "inherited", "interrupt", "output", "pipe", "printable", "which"];

/// The other modules, each with the modules above it that it may use. The library's docs say what is in them.
const MODULES: [(&str, &[&str]); 13] = [
    ("rule", &[]),
    ("config", &["rule"]),
    ("cli", &["rule", "config"]),
    ("gate", &["rule", "config"]),
    ("source", &["config"]),
    ("pace", &["gate", "rule", "config", "source"]),
    ("records", &["source", "config"]),
    ("sink", &["source", "config"]),
    ("store", &["gate", "rule", "config"]),
    ("audit", &["gate", "rule", "config", "source"]),
    ("schedule", &["gate", "rule", "config", "source"]),
    ("ui", &["schedule", "audit", "store", "gate", "rule", "config", "source"]),
    ("runtime", &["audit", "config", "gate", "records", "schedule", "source", "sink", "store", "ui"]),
];

/// The wiring, which may use all modules.
const WIRING: [&str; 4] = ["lib", "main", "program", "verbs"];

/// Uses that the table does not allow but that still occur, by file. Remove each with its cause.
const EXCEPTIONS: &[(&str, &[&str])] = &[];

/// Types of the library's interface, which its users name in other words than those who work on the program.
const OF_THE_LIBRARY: [&str; 2] = ["Admission", "Ask"];

/// Types that are lists of options, of counters, or of what is kept: their fields are many, and one thing.
const LISTS: [&str; 5] = ["CommandArgs", "Rate", "Record", "Run", "Stats"];

/// The other modules that each file uses, in code that is not for tests.
fn uses() -> BTreeMap<String, BTreeSet<String>> {
    sources().iter().map(|source| (source.name.clone(), source.uses())).collect()
}

/// All files with code that is not for tests.
fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &mut files);
    let mut sources: Vec<_> = files.iter().map(|path| Source::read(&root, path)).collect();
    let for_tests: Vec<_> = sources.iter().flat_map(|source| source.test_modules.clone()).collect();
    sources.retain(|source| !for_tests.iter().any(|module| source.module.starts_with(module)));
    sources
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// A file without its comments and inline test modules.
struct Source {
    /// Relative to `src`.
    name: String,
    /// The path of its module, without `crate`.
    module: Vec<String>,
    code: String,
    /// Modules in other files that it declares for tests only.
    test_modules: Vec<Vec<String>>,
}

impl Source {
    fn read(root: &Path, path: &Path) -> Self {
        let name = path.strip_prefix(root).expect("below").to_str().expect("UTF-8").to_owned();
        Source::new(&name, &fs::read_to_string(path).expect("a source file"))
    }

    fn new(name: &str, text: &str) -> Self {
        let mut module: Vec<String> =
            name.trim_end_matches(".rs").split('/').map(ToOwned::to_owned).collect();
        module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
        let mut source =
            Source { name: name.to_owned(), module, code: String::new(), test_modules: Vec::new() };
        source.take(text);
        source
    }

    /// Keeps code that is neither a comment nor for tests. Relies on rustfmt's layout.
    fn take(&mut self, text: &str) {
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.trim() == "#[cfg(test)]" {
                self.skip_item(&mut lines);
            } else {
                self.code.push_str(line.split("//").next().unwrap_or_default());
                self.code.push('\n');
            }
        }
    }

    /// Skips an item, which ends where its indentation returns. Records it if it is a module in another file.
    fn skip_item<'a>(&mut self, lines: &mut impl Iterator<Item = &'a str>) {
        let is_attribute = |line: &&str| line.trim_start().starts_with("#[");
        let Some(first) = lines.find(|line| !is_attribute(line)) else { return };
        if let Some((_, name)) =
            first.trim_end_matches(';').split_once("mod ").filter(|_| first.ends_with(';'))
        {
            self.test_modules.push([&self.module[..], &[name.to_owned()]].concat());
        }
        if first.ends_with('{') {
            let indentation = &first[..first.len() - first.trim_start().len()];
            let end = format!("{indentation}}}");
            lines.find(|line| *line == end).expect("the item's end");
        }
    }

    /// Other modules that occur in paths.
    fn uses(&self) -> BTreeSet<String> {
        let mut uses: BTreeSet<String> = self.paths().into_iter().collect();
        self.module.first().map(|own| uses.remove(own));
        uses
    }

    /// The types that it declares, each with its lines.
    fn types(&self) -> Vec<(&str, Vec<&str>)> {
        let lines: Vec<_> = self.code.lines().map(str::trim_end).collect();
        let body = |at: usize| {
            let is_list = lines[at].ends_with('{');
            lines[at..].iter().copied().take_while(|line| is_list && *line != "}").collect()
        };
        let declared = lines.iter().enumerate().filter_map(|(at, line)| Some((declared(line)?, body(at))));
        declared.collect()
    }

    /// The first name of each path from the crate's root.
    fn paths(&self) -> Vec<String> {
        let words = words(&self.code);
        let mut names = Vec::new();
        let mut at = 0;
        while at < words.len() {
            let supers = words[at..].chunks(2).take_while(|pair| *pair == ["super", "::"]).count();
            let is_root = words[at..].starts_with(&["crate", "::"]);
            at += 2 * supers.max(usize::from(is_root)).max(1) - usize::from(supers == 0 && !is_root);
            if is_root || (supers > 0 && supers >= self.module.len()) {
                names.extend(heads(&words[at..]));
            }
        }
        names
    }
}

/// The name of the type that a line declares, outside of functions.
fn declared(line: &str) -> Option<&str> {
    let public = line.strip_prefix("pub").map(|rest| match rest.strip_prefix('(') {
        Some(rest) => rest.split_once(") ").map_or("", |(_, item)| item),
        None => rest.trim_start(),
    });
    let (kind, rest) = public.unwrap_or(line).split_once(' ')?;
    let name = rest.split(|c: char| !c.is_alphanumeric()).next();
    name.filter(|_| matches!(kind, "struct" | "enum" | "trait"))
}

/// Identifiers, `::`, and every other character on its own.
fn words(code: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if rest.starts_with("::") => 2,
            _ if is_name(first) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        words.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    words
}

/// The next name of a path, or all of them if they are in braces.
fn heads(words: &[&str]) -> Vec<String> {
    if words.first() != Some(&"{") {
        return words.first().map(|&name| name.to_owned()).into_iter().collect();
    }
    let (mut depth, mut heads, mut is_head) = (0, Vec::new(), false);
    for &word in words {
        match word {
            "{" => (depth, is_head) = (depth + 1, depth == 0),
            "}" if depth == 1 => break,
            "}" => depth -= 1,
            "," => is_head = depth == 1,
            name if is_head => {
                heads.push(name.to_owned());
                is_head = false;
            }
            _ => {}
        }
    }
    heads
}

/// The modules that a file may use by the table; `None` if it may use all.
fn allowed(file: &str) -> Option<Vec<&'static str>> {
    let module = file.split(['/', '.']).next().expect("a name");
    if WIRING.contains(&module) {
        return None;
    }
    let row = MODULES.iter().find(|(name, _)| *name == module);
    let uses = row.map(|(_, uses)| [uses, &COMMON[..]].concat());
    Some(uses.unwrap_or_default())
}

#[test]
fn each_module_uses_only_what_the_table_allows() {
    let mut faults = Vec::new();
    let mut excused: BTreeMap<&str, BTreeSet<&str>> =
        EXCEPTIONS.iter().map(|(file, modules)| (*file, modules.iter().copied().collect())).collect();
    let uses = uses();
    for (file, modules) in &uses {
        let Some(allowed) = allowed(file) else { continue };
        for module in modules.iter().filter(|module| !allowed.contains(&module.as_str())) {
            let is_excused =
                excused.get_mut(file.as_str()).is_some_and(|modules| modules.remove(module.as_str()));
            if !is_excused {
                faults.push(format!("src/{file} uses '{module}'; its module may use {}", allowed.join(", ")));
            }
        }
    }
    for (file, modules) in excused {
        faults.extend(
            modules.iter().map(|module| format!("src/{file} no longer uses '{module}': drop the exception")),
        );
    }
    assert!(faults.is_empty(), "see tests/it/cli/modules.rs:\n{}", faults.join("\n"));
}

#[test]
fn no_two_types_have_one_name() {
    let sources = sources();
    let mut files = BTreeMap::<&str, Vec<&str>>::new();
    for source in &sources {
        source.types().iter().for_each(|(name, _)| files.entry(name).or_default().push(&source.name));
    }
    assert!(files.len() > 200, "{} types were found", files.len());
    files.retain(|name, files| files.len() > 1 + usize::from(OF_THE_LIBRARY.contains(name)));
    assert!(files.is_empty(), "rename all but one of each: {files:?}");
}

#[test]
fn no_type_has_more_than_a_dozen_fields() {
    let (sources, mut lists) = (sources(), BTreeSet::new());
    for source in &sources {
        for (name, lines) in source.types() {
            let is_field = |line: &&&str| {
                let indented = line.strip_prefix("    ").and_then(|line| line.split_once(": "));
                indented
                    .is_some_and(|(name, _)| name.starts_with(char::is_alphabetic) && !name.contains("fn "))
            };
            if lines.iter().filter(is_field).count() > 12 {
                assert!(LISTS.contains(&name), "src/{}: {name} is several things: divide it", source.name);
                lists.insert(name);
            }
        }
    }
    assert_eq!(lists, BTreeSet::from(LISTS));
}

/// `rustfmt` leaves long texts and comments alone.
#[test]
fn no_line_is_longer_than_120_columns() {
    let mut files = Vec::new();
    for directory in ["src", "tests", "examples"] {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        let long = text.lines().position(|line| line.chars().count() > 120);
        let line = long.unwrap_or(0) + 1;
        assert!(long.is_none(), "{}: line {line} is too long: break it", file.display());
    }
}

#[test]
fn files_are_where_the_docs_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("CONTRIBUTING.md")];
    collect(&root.join("src"), &mut files);
    for file in files {
        let text = fs::read_to_string(&file).expect("a file");
        for name in text.lines().flat_map(files_named) {
            let is_there = root.join(name).is_file() || root.join("src").join(name).is_file();
            assert!(is_there, "{} names {name}, which is not there: correct the path", file.display());
        }
    }
}

#[test]
fn each_promise_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let index = fs::read_to_string(root.join("main.rs")).expect("a file");
    let promises: Vec<_> =
        index.lines().filter(|line| line.starts_with("//! ") && line.contains('`')).collect();
    assert!(promises.len() > 20, "the index is gone");
    for name in promises.iter().flat_map(|line| line.split('`').skip(1).step_by(2)) {
        let path = name.replace("::", "/");
        let is_module = root.join(&path).with_extension("rs").is_file();
        let is_test = || {
            let (module, test) = path.rsplit_once('/').expect("a module and a test");
            let file = fs::read_to_string(root.join(module).with_extension("rs")).unwrap_or_default();
            file.contains(&format!("fn {test}("))
        };
        assert!(is_module || is_test(), "the index of tests/it/main.rs names {name}, which is not there");
    }
}

/// The paths of files in backticks, except patterns such as `rule/NAME.rs` and `completions/*.in`.
fn files_named(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|name| {
        let is_path = name.contains('/') && !name.contains("NAME") && !name.contains(['*', ' ']);
        is_path && [".rs", ".lua", ".in", ".7", ".txt"].iter().any(|end| name.ends_with(end))
    })
}

#[test]
fn the_arrows_of_the_table_point_one_way() {
    for (row, (module, uses)) in MODULES.iter().enumerate() {
        for used in *uses {
            assert!(
                MODULES[..row].iter().any(|(above, _)| above == used),
                "{module} uses {used}, which is not above it"
            );
        }
    }
}

#[test]
fn types_are_found_however_they_are_written() {
    let table = [
        ("struct A;", Some("A")),
        ("pub struct B {", Some("B")),
        ("pub(crate) enum C<T> {", Some("C")),
        ("pub(in crate::store) trait D: E {", Some("D")),
        ("pub fn struct_of() {", None),
        ("    struct F {", None),
    ];
    for (line, name) in table {
        assert_eq!(declared(line), name, "{line}");
    }
}

#[test]
fn uses_are_found_however_they_are_written() {
    let text = "
use crate::sink::{Sink, jobs::Job};
use crate::{
    source::{Block, Item},
    store,
};
use super::super::config::Config;
use super::ring::Ring;
// crate::ui is what a comment says
fn f() -> crate::time::Time { super::super::exit::of(1) } // as crate::ui does
#[cfg(test)]
use crate::ui::first;
#[cfg(test)]
#[expect(dead_code)]
mod table {
    use crate::ui::second;
}
#[cfg(test)]
mod tests;
";
    let source = Source::new("gate/sliding.rs", text);
    let uses: Vec<_> = source.uses().into_iter().collect();
    assert_eq!(uses, ["config", "exit", "sink", "source", "store", "time"]);
    assert_eq!(source.test_modules, [["gate", "sliding", "tests"].map(ToOwned::to_owned)]);
    assert!(Source::new("store/mod.rs", "use super::config::X;").uses().contains("config"));
    assert!(Source::new("store/file/mod.rs", "use super::config::X;").uses().is_empty());
    assert!(Source::new("store/mod.rs", "use crate::store::Order;").uses().is_empty());
}
