//! Shell scripts in a command: an item in one is run as code, whatever it contains.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
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

/// Warns of a script that items become part of, or that gets an item as its name instead of as its argument.
pub(super) fn warning(template: &Template) -> Option<String> {
    let script = Script::of(template)?;
    script.code_warning().or_else(|| script.name_warning())
}

/// A line for a shell, as the arguments that run it: with its first argument instead of `placeholder`, or else at the
/// end.
pub(crate) fn as_script(shell: &str, line: &str, placeholder: Option<&OsStr>) -> String {
    let template = Template::new(&[line.into()], placeholder);
    let is_appended = template.args().len() > 1;
    let mut script = in_shell(&template.args()[0], |_| argument(shell, 1));
    script.extend_from_slice(if is_appended { b" \"$1\"" } else { b"" });
    quoted(&[shell.into(), "-c".into(), OsString::from_vec(script), shell.into()])
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
    fn code_warning(&self) -> Option<String> {
        if matches!(self.pieces(), [piece] if piece.is_of_item()) {
            return None;
        }
        let args = self.template.args();
        let mut after: Vec<_> = args[self.at + 1..].iter().map(|arg| self.template.typed(arg)).collect();
        if after.is_empty() && self.shell != "fish" {
            after.push(self.shell.into());
        }
        let before = after.len().saturating_sub(usize::from(self.shell != "fish"));
        let mut places: Vec<&Piece> = Vec::new();
        let script = in_shell(self.pieces(), |place| {
            let known = places.iter().position(|known| *known == place);
            let number = known.unwrap_or_else(|| {
                places.push(place);
                places.len() - 1
            });
            argument(self.shell, before + number + 1)
        });
        let what = match places.first()? {
            Piece::Item => "the item",
            _ => "a part of the item",
        };
        // An item alone is appended anyway.
        if places != [&Piece::Item] || before > 0 {
            after.extend(places.iter().map(|place| self.template.typed(std::slice::from_ref(*place))));
        }
        let mut line: Vec<_> = args[..self.at].iter().map(|arg| self.template.typed(arg)).collect();
        line.push(OsString::from_vec(script));
        line.extend(after);
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

/// An argument of a script, as the shell expands it.
fn argument(shell: &str, number: usize) -> String {
    if shell == "fish" { format!("$argv[{number}]") } else { format!("${number}") }
}

/// A script with arguments in the places of items and their parts, as one word each wherever they are.
fn in_shell<'a>(script: &'a [Piece], mut argument: impl FnMut(&'a Piece) -> String) -> Vec<u8> {
    let (mut out, mut quotes) = (Vec::new(), Quotes::default());
    for piece in script {
        match piece {
            Piece::Text(text) => {
                text.iter().for_each(|&byte| quotes.pass(byte));
                out.extend_from_slice(text);
            }
            // They hold nothing of an item.
            Piece::Number(_) | Piece::Headers => out.extend_from_slice(piece.name().as_bytes()),
            Piece::Item | Piece::Selected(_) => out.extend(match quotes.open {
                None => format!("\"{}\"", argument(piece)).into_bytes(),
                Some(b'"') => argument(piece).into_bytes(),
                Some(_) => format!("'\"{}\"'", argument(piece)).into_bytes(),
            }),
        }
    }
    // A place alone in single quotes leaves empty ones.
    String::from_utf8(out)
        .map_or_else(FromUtf8Error::into_bytes, |text| without_empty_quotes(&text).into_bytes())
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
            let line = as_script("sh", &script, None);
            let told = warning(&Template::new(&["sh", "-c", &script].map(OsString::from), None));
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
