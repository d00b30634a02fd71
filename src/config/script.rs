//! Shell scripts in a command: an item in one is run as code, whatever it contains.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::slice;
use std::string::FromUtf8Error;

use super::template::{Piece, Template};
use crate::printable::quoted;

/// Shells that take a script as the argument of `-c`.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "zsh", "ksh", "fish"];

/// The script of a shell, its place among the arguments, and the shell.
struct Script<'a> {
    template: &'a Template,
    at: usize,
    shell: &'a str,
}

/// Warns of a script that items become part of, or that gets an item as its name instead of as its argument. If they
/// `are_many`, a command gets several items.
pub(super) fn warning(template: &Template, are_many: bool) -> Option<String> {
    let script = Script::of(template)?;
    script.code_warning(are_many).or_else(|| script.name_warning())
}

/// A line for a shell, as the arguments that run it: with arguments instead of places for items, or else an item at the
/// end.
pub(crate) fn as_script(shell: &str, line: &str, placeholder: Option<&OsStr>, are_many: bool) -> String {
    let template = Template::new(&[line.into()], placeholder);
    let mut arguments = Arguments { template: &template, shell, before: 0, are_many, places: Vec::new() };
    let mut script = arguments.fill(&template.args()[0]);
    if template.args().len() > 1 {
        script.extend_from_slice(format!(" \"{}\"", arguments.argument(&Piece::Item)).as_bytes());
    }
    let line = [shell.into(), "-c".into(), OsString::from_vec(script), shell.into()];
    quoted(&[&line[..], &arguments.given()].concat())
}

/// The arguments of a script that stand in the places of items and their parts.
struct Arguments<'a> {
    template: &'a Template,
    shell: &'a str,
    /// The number of other arguments before them.
    before: usize,
    /// A command gets several items.
    are_many: bool,
    places: Vec<&'a Piece>,
}

impl<'a> Script<'a> {
    fn of(template: &'a Template) -> Option<Self> {
        let text = |at: usize| match template.args().get(at)?.as_slice() {
            [Piece::Text(text)] => str::from_utf8(text).ok(),
            _ => None,
        };
        let name = |at| SHELLS.iter().find(|shell| Path::new(text(at).unwrap_or_default()).ends_with(shell));
        let (at, shell) = (0..template.args().len()).find_map(|at| Some((at, *name(at)?)))?;
        let mut at = at + 1;
        loop {
            let option = text(at).filter(|option| option.starts_with(['-', '+']))?;
            at += 1;
            match option.trim_start_matches(['-', '+']) {
                "o" | "O" => at += 1,
                letters if letters.ends_with('c') && !option.starts_with("--") => break,
                _ => {}
            }
        }
        (at < template.args().len()).then_some(Script { template, at, shell })
    }

    fn pieces(&self) -> &'a [Piece] {
        &self.template.args()[self.at]
    }

    /// Items, or parts of them, in the script; not if each item is a script.
    fn code_warning(&self, are_many: bool) -> Option<String> {
        if matches!(self.pieces(), [piece] if piece.is_of_item()) {
            return None;
        }
        let args = self.template.args();
        let mut after: Vec<_> = args[self.at + 1..].iter().map(|arg| self.template.typed(arg)).collect();
        if after.is_empty() && self.shell != "fish" {
            after.push(self.shell.into());
        }
        let before = after.len().saturating_sub(usize::from(self.shell != "fish"));
        let Script { template, shell, .. } = *self;
        let mut arguments = Arguments { template, shell, before, are_many, places: Vec::new() };
        let script = arguments.fill(self.pieces());
        let what = match arguments.places.first()? {
            Piece::Item => "the item",
            _ => "a part of the item",
        };
        let mut line: Vec<_> = args[..self.at].iter().map(|arg| self.template.typed(arg)).collect();
        line.push(OsString::from_vec(script));
        line.extend(after.into_iter().chain(arguments.given()));
        Some(format!("{} runs {what} as code: write -- {}", self.shell, quoted(&line)))
    }

    /// The argument after the script, which is its name, depends on the item, and the script expects arguments.
    fn name_warning(&self) -> Option<String> {
        let args = self.template.args();
        let name = args.get(self.at + 1)?;
        let is_constant = name.iter().all(|piece| matches!(piece, Piece::Text(_)));
        if self.shell == "fish" || is_constant || !uses_arguments(self.pieces()) {
            return None;
        }
        let mut line: Vec<_> = args.iter().map(|arg| self.template.typed(arg)).collect();
        line.insert(self.at + 1, self.shell.into());
        line.pop_if(|last| self.at + 2 == args.len() && self.template.typed(name) == *last);
        let line = quoted(&line);
        Some(format!(
            "the item becomes $0 of the script, which looks for it in its arguments: write -- {line}"
        ))
    }
}

impl<'a> Arguments<'a> {
    /// The argument for a place, as the shell expands it.
    fn argument(&mut self, place: &'a Piece) -> String {
        let known = self.places.iter().position(|known| *known == place);
        let number = self.before + 1 + known.unwrap_or(self.places.len());
        if known.is_none() {
            self.places.push(place);
        }
        match (self.shell, self.are_many && number == 1) {
            ("fish", true) => "$argv".to_owned(),
            ("fish", false) => format!("$argv[{number}]"),
            (_, true) => "$@".to_owned(),
            (_, false) => format!("${number}"),
        }
    }

    /// A script with arguments in the places of items and their parts, as one word each wherever they are.
    fn fill(&mut self, script: &'a [Piece]) -> Vec<u8> {
        let (mut out, mut quotes) = (Vec::new(), Quotes::default());
        for piece in script {
            match piece {
                Piece::Text(text) => {
                    text.iter().for_each(|&byte| quotes.pass(byte));
                    out.extend_from_slice(text);
                }
                // They hold nothing of an item.
                Piece::Number(_) | Piece::Headers => {
                    out.extend(self.template.typed(slice::from_ref(piece)).into_vec());
                }
                Piece::Item | Piece::Selected(_) => {
                    if quotes.is_escaped {
                        out.pop();
                    }
                    quotes.is_escaped = false;
                    let argument = self.argument(piece);
                    out.extend(match quotes.open {
                        None => format!("\"{argument}\"").into_bytes(),
                        Some(b'"') => argument.into_bytes(),
                        Some(_) => format!("'\"{argument}\"'").into_bytes(),
                    });
                }
            }
        }
        // A place alone in single quotes leaves empty ones.
        String::from_utf8(out)
            .map_or_else(FromUtf8Error::into_bytes, |text| without_empty_quotes(&text).into_bytes())
    }

    /// What the command gets for the script after `before` other arguments: nothing if an item is appended anyway.
    fn given(&self) -> Vec<OsString> {
        let stays = |piece: &Piece| matches!(piece, Piece::Number(_) | Piece::Headers);
        let is_appended = self.before == 0 && !self.template.args().iter().flatten().any(stays);
        let places = self.places.iter().filter(|_| !(is_appended && self.places == [&Piece::Item]));
        places.map(|place| self.template.typed(slice::from_ref(*place))).collect()
    }
}

fn without_empty_quotes(text: &str) -> String {
    text.replace("''\"$", "\"$").replace("\"''", "\"")
}

/// Reports whether a script expands its arguments, and not its name.
fn uses_arguments(script: &[Piece]) -> bool {
    let (mut quotes, mut is_dollar, mut uses) = (Quotes::default(), false, false);
    for piece in script {
        let Piece::Text(text) = piece else { continue };
        for &byte in text {
            match byte {
                b'0' if is_dollar => return false,
                b'1'..=b'9' | b'@' | b'*' if is_dollar => uses = true,
                _ => {}
            }
            is_dollar = !quotes.is_escaped
                && quotes.open != Some(b'\'')
                && (byte == b'$' || is_dollar && byte == b'{');
            quotes.pass(byte);
        }
    }
    uses
}

/// The quotes of a shell.
#[derive(Default)]
struct Quotes {
    /// The kind of quotes that are open.
    open: Option<u8>,
    /// The next byte is after a backslash.
    is_escaped: bool,
}

impl Quotes {
    fn pass(&mut self, byte: u8) {
        match (byte, self.open) {
            _ if self.is_escaped => self.is_escaped = false,
            (b'\\', None | Some(b'"')) => self.is_escaped = true,
            (b'\'' | b'"', None) => self.open = Some(byte),
            (_, Some(open)) if byte == open => self.open = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::random::for_each_seed;

    /// Each with what it gets besides the item that is appended if there is no place.
    #[test]
    fn a_rewritten_script_gets_all_that_it_names() {
        let table = [
            ("cat", false, "'cat \"$1\"' sh"),
            ("cat", true, "'cat \"$@\"' sh"),
            ("cat {}", true, "'cat \"$@\"' sh"),
            ("echo {#} {}", false, "'echo {#} \"$1\"' sh '{}'"),
            ("echo {col:2} {}", false, "'echo \"$1\" \"$2\"' sh '{col:2}' '{}'"),
            ("echo {col:2} {#}", false, "'echo \"$1\" {#}' sh '{col:2}'"),
            ("echo {#}", false, "'echo {#}' sh"),
            ("echo \\{}", false, "'echo \"$1\"' sh"),
        ];
        for (line, are_many, expected) in table {
            assert_eq!(as_script("sh", line, None, are_many), format!("sh -c {expected}"), "{line}");
            let template = Template::new(&["sh", "-c", line].map(OsString::from), None);
            if let Some(told) = warning(&template, are_many) {
                assert!(told.ends_with(&format!("write -- sh -c {expected}")), "{told}");
            }
        }
    }

    /// What a shell would run as code, it prints as text, whatever quotes the item stood in.
    #[test]
    fn a_rewritten_script_gets_items_as_they_are() {
        const ITEM: &str = "a b'c\"$(d) `e`;*\\";
        for_each_seed(40, |random| {
            let (mut script, mut printed) = (String::from("printf '[%s]'"), String::new());
            for _ in 0..random.usize(1..4) {
                (script, printed) = (script + " ", printed + "[");
                for _ in 0..random.usize(1..4) {
                    let open = *random.choice(&["", "'", "\""]).expect("one");
                    script += open;
                    for _ in 0..random.usize(1..4) {
                        let text = *random.choice(&["x", "{}", "{}", "7"]).expect("one");
                        script += text;
                        printed += if text == "{}" { ITEM } else { text };
                    }
                    script += open;
                }
                printed += "]";
            }
            let line = as_script("sh", &script, None, false);
            let told = warning(&Template::new(&["sh", "-c", &script].map(OsString::from), None), false);
            if script.contains("{}") {
                assert_eq!(told, Some(format!("sh runs the item as code: write -- {line}")));
            } else {
                printed = printed + "[" + ITEM + "]";
                assert_eq!(told, None);
            }
            // As throttle would run it: the item at the end.
            let run = Command::new("sh").args(["-c", &format!("{line} \"$0\""), ITEM]).output().expect("sh");
            assert_eq!(String::from_utf8_lossy(&run.stdout), printed, "{script}: {line}");
        });
    }
}
