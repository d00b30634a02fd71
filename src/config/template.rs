//! COMMAND, with places for an item, its number and its selected parts.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::slice;

use anyhow::{Result, bail};

use super::selector::Selector;

/// The most digits that a number has.
const MAX_DIGITS: usize = 20;

/// The placeholder of an item, unless `-I` sets another.
const ITEM: &str = "{}";

/// Stands for the file to which the command writes what a server said.
pub const HEADERS: &str = "{headers}";

/// A command line with places for items.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    args: Vec<Vec<Piece>>,
    selectors: Vec<Selector>,
    /// What stands for the item.
    placeholder: OsString,
}

/// A piece of an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Literal text.
    Text(Vec<u8>),
    /// Stands for the item.
    Item,
    /// Stands for the number of the item, with at least this many digits.
    Number(usize),
    /// Stands for the part that the selector with this index selects.
    Selected(usize),
    /// Stands for the file that `$THROTTLE_HEADERS` names.
    Headers,
}

impl Piece {
    /// True if it stands for something of an item, and so for each item of a batch.
    pub fn is_of_item(&self) -> bool {
        !matches!(self, Piece::Text(_) | Piece::Headers)
    }
}

impl Template {
    /// Parses `command`. `placeholder`, by default `{}`, stands for the item wherever it occurs, a selector in braces
    /// for the part that it selects, and `{#}` for the item's number. With none of these, items are appended.
    /// `{headers}` stands for the file of headers.
    pub fn new(command: &[OsString], placeholder: Option<&OsStr>) -> Self {
        let placeholder = placeholder.unwrap_or(OsStr::new(ITEM));
        let mut template =
            Template { args: Vec::new(), selectors: Vec::new(), placeholder: placeholder.to_owned() };
        let placeholder = placeholder.as_bytes();
        for arg in command {
            let pieces = pieces(arg.as_bytes(), |rest, is_variable| match rest.strip_prefix(placeholder) {
                Some(after) => Some((Piece::Item, after)),
                None if is_variable => None,
                None => template.selected(rest),
            });
            template.args.push(pieces);
        }
        if !template.args.iter().flatten().any(Piece::is_of_item) {
            template.args.push(vec![Piece::Item]);
        }
        template
    }

    /// A command that gets its items elsewhere: only `{headers}` has a meaning.
    pub fn without_items(command: &[OsString]) -> Self {
        let place = |rest, is_variable| if is_variable { None } else { headers(rest) };
        let args = command.iter().map(|arg| pieces(arg.as_bytes(), place)).collect();
        Template { args, selectors: Vec::new(), placeholder: ITEM.into() }
    }

    /// A tag for the output of a command: the part of the item that the selector `text` selects, or the item if `text`
    /// is empty.
    ///
    /// # Errors
    /// `text` does not select a part.
    pub fn tag(text: &str) -> Result<Self> {
        let (piece, selectors) = match text {
            "" => (Piece::Item, Vec::new()),
            _ => (Piece::Selected(0), vec![Selector::parse_part(text)?]),
        };
        Ok(Template { args: vec![vec![piece]], selectors, placeholder: ITEM.into() })
    }

    /// The arguments, the first of which is the command.
    pub fn args(&self) -> &[Vec<Piece>] {
        &self.args
    }

    /// An argument of `command` that is only a place for an item, if there is one.
    pub fn sole_place(command: &[OsString]) -> Option<String> {
        let template = Template::new(command, None);
        // If there is no place, one was appended.
        let typed = command.iter().zip(&template.args);
        let (arg, _) =
            typed.into_iter().find(|(_, pieces)| matches!(&pieces[..], [piece] if piece.is_of_item()))?;
        Some(arg.to_string_lossy().into_owned())
    }

    /// An argument as it is typed.
    pub(super) fn typed(&self, arg: &[Piece]) -> OsString {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Item => self.placeholder.as_bytes().to_vec(),
            Piece::Number(1) => b"{#}".to_vec(),
            Piece::Number(width) => format!("{{#:0{width}}}").into_bytes(),
            Piece::Headers => HEADERS.into(),
            Piece::Selected(index) => format!("{{{}}}", self.selectors[*index]).into_bytes(),
        };
        OsString::from_vec(arg.iter().flat_map(piece).collect())
    }

    /// The parts of an item that the command needs, as numbered by [`Piece::Selected`].
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// True if the command is given the items themselves.
    pub fn takes_items(&self) -> bool {
        self.args.iter().flatten().any(|piece| *piece == Piece::Item)
    }

    /// True if the command is given the file of headers.
    pub fn takes_headers(&self) -> bool {
        self.args.iter().flatten().any(|piece| *piece == Piece::Headers)
    }

    /// Checks that arguments are unambiguous if there are several items.
    ///
    /// # Errors
    /// An argument combines a part or the number of an item with something else.
    pub fn check_batches(&self) -> Result<()> {
        for arg in self.args.iter().filter(|arg| arg.len() > 1) {
            let part = arg.iter().find(|piece| matches!(piece, Piece::Number(_) | Piece::Selected(_)));
            if let Some(part) = part.map(|part| self.typed(slice::from_ref(part))) {
                let name = part.to_string_lossy();
                bail!("with -B, {name} becomes one argument for each item: make it an argument of its own");
            }
        }
        Ok(())
    }

    /// The place at the start of `text`, and what follows it.
    fn selected<'a>(&mut self, text: &'a [u8]) -> Option<(Piece, &'a [u8])> {
        if let Some(place) = number(text).or_else(|| headers(text)) {
            return Some(place);
        }
        let inner = text.strip_prefix(b"{")?;
        // A regular expression may contain braces. Up to one of those, it would be invalid.
        let most = if inner.starts_with(b"re:") { usize::MAX } else { 1 };
        let parse = |end: usize| Some((Selector::parse_part(str::from_utf8(&inner[..end]).ok()?).ok()?, end));
        let (selector, end) = memchr::memchr_iter(b'}', inner).take(most).find_map(parse)?;
        let (selector, after) = (Some(selector).filter(is_meant)?, &inner[end + 1..]);
        let index = self.selectors.iter().position(|known| *known == selector).unwrap_or_else(|| {
            self.selectors.push(selector);
            self.selectors.len() - 1
        });
        Some((Piece::Selected(index), after))
    }
}

/// Cuts an argument at its places: `place` finds one at the start of a text, and what follows it, and is told if that
/// would be a variable of the shell, as in `${host}`.
fn pieces<'a>(
    mut rest: &'a [u8],
    mut place: impl FnMut(&'a [u8], bool) -> Option<(Piece, &'a [u8])>,
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    while let Some((&byte, tail)) = rest.split_first() {
        let is_variable = matches!(pieces.last(), Some(Piece::Text(text)) if text.ends_with(b"$"));
        let place = place(rest, is_variable);
        let (piece, after) = place.unwrap_or_else(|| (Piece::Text(vec![byte]), tail));
        match (pieces.last_mut(), piece) {
            (Some(Piece::Text(text)), Piece::Text(more)) => text.extend(more),
            (_, piece) => pieces.push(piece),
        }
        rest = after;
    }
    if pieces.is_empty() { vec![Piece::Text(Vec::new())] } else { pieces }
}

fn headers(text: &[u8]) -> Option<(Piece, &[u8])> {
    Some((Piece::Headers, text.strip_prefix(HEADERS.as_bytes())?))
}

/// A place for the number of the item at the start of `text`, `{#}` or `{#:04}`, and what follows it.
fn number(text: &[u8]) -> Option<(Piece, &[u8])> {
    let inner = text.strip_prefix(b"{#")?;
    if let Some(after) = inner.strip_prefix(b"}") {
        return Some((Piece::Number(1), after));
    }
    let (digits, after) =
        inner.strip_prefix(b":0")?.split_at_checked(inner.iter().position(|&byte| byte == b'}')? - 2)?;
    let width = str::from_utf8(digits).ok()?.parse().ok().filter(|width| (1..=MAX_DIGITS).contains(width))?;
    Some((Piece::Number(width), &after[1..]))
}

/// False for shell code in braces that looks like a path: `{. ./lib; }` and `{./a,./b}`.
fn is_meant(selector: &Selector) -> bool {
    let Selector::Path(path) = selector else { return true };
    path.iter().all(|name| name.trim() == name && !name.contains(['/', ',', ';', '\n']))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(args: &[&str], placeholder: Option<&str>) -> Template {
        let command: Vec<_> = args.iter().map(OsString::from).collect();
        Template::new(&command, placeholder.map(OsStr::new))
    }

    /// An argument, with its places printed as selectors.
    fn shown(arg: &str, placeholder: Option<&str>) -> Vec<String> {
        let template = template(&[arg], placeholder);
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => String::from_utf8(text.clone()).unwrap(),
            Piece::Item => "<item>".to_owned(),
            Piece::Number(width) => format!("<number {width}>"),
            Piece::Selected(index) => format!("<{}>", template.selectors[*index]),
            Piece::Headers => "<headers>".to_owned(),
        };
        template.args[0].iter().map(piece).collect()
    }

    #[test]
    fn selectors_in_braces_are_places() {
        for (arg, pieces) in [
            ("a{}b", &["a", "<item>", "b"][..]),
            ("{#}{#:04}x{#:020}", &["<number 1>", "<number 4>", "x", "<number 20>"]),
            ("x{col:2}", &["x", "<col:2>"]),
            ("{.user.id}/{host}", &["<.user.id>", "/", "<host>"]),
            ("{.user name}", &["<.user name>"]),
            ("{bytes}", &["<bytes>"]),
            (r#"{"id":"{.id}"}"#, &[r#"{"id":""#, "<.id>", r#""}"#]),
            ("{re:a{1,2}}b", &["<re:a{1,2}>", "b"]),
            (r"{re:\{(\d+)\}}", &[r"<re:\{(\d+)\}>"]),
            (r"{re:\\}}", &[r"<re:\\>", "}"]),
            ("-D{headers}", &["-D", "<headers>"]),
        ] {
            assert_eq!(shown(arg, None), pieces, "{arg}");
        }
    }

    #[test]
    fn other_braces_stay() {
        for arg in [
            "",
            "{",
            "}",
            "{1}",
            "{#:4}",
            "{#:0}",
            "{#:00}",
            "{#:021}",
            "{#:0x}",
            "{#:04",
            "{#a}",
            "{.}",
            "{..a}",
            "{col:0}",
            "{col:2",
            "{re:(}",
            "{re:a{1}",
            "{hosts}",
            "%{http_code}",
            "${host}",
            "${headers}",
            "{header}",
            "${#}",
            "{. ./lib; }",
            "{./a,./b}",
            "{ host }",
        ] {
            assert_eq!(shown(arg, None), [arg], "{arg}");
        }
    }

    #[test]
    fn another_placeholder_stands_for_the_item_only() {
        assert_eq!(shown("{}{host}@", Some("@")), ["{}", "<host>", "<item>"]);
        assert_eq!(shown("{host}", Some("{host}")), ["<item>"]);
        assert_eq!(shown("$@", Some("@")), ["$", "<item>"]);
    }

    #[test]
    fn without_a_place_items_go_to_the_end() {
        for (args, has_one) in
            [(&["a"][..], false), (&["a", "{}"], true), (&["a", "x{#}"], true), (&["{headers}"], false)]
        {
            let template = template(args, None);
            assert_eq!(template.args.len(), args.len() + usize::from(!has_one), "{args:?}");
        }
    }

    #[test]
    fn without_items_only_the_file_of_headers_has_a_place() {
        let template = Template::without_items(&["{}", "-D{headers}", ""].map(OsString::from));
        let text = |text: &str| Piece::Text(text.into());
        assert_eq!(template.args, [vec![text("{}")], vec![text("-D"), Piece::Headers], vec![text("")]]);
    }

    #[test]
    fn equal_selectors_are_one() {
        assert_eq!(template(&["{col:1}", "{col:2}{col:1}"], None).selectors.len(), 2);
    }

    #[test]
    fn in_batches_what_is_selected_is_an_argument_of_its_own() {
        for (arg, is_clear) in [
            ("{}", true),
            ("x{}", true),
            ("{host}", true),
            ("{#}", true),
            ("x{host}", false),
            ("{}{#}", false),
            ("x{headers}", true),
        ] {
            assert_eq!(template(&[arg], None).check_batches().is_ok(), is_clear, "{arg}");
        }
    }
}
