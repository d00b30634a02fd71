//! Placeholders in COMMAND for an item or a part of it.

use fastrand::Rng;
use predicates::str::contains;
use serde_json::{Value, json};

use crate::support::{UNLIMITED, fed, seeds, text, throttle};

#[test]
fn selectors_in_braces_stand_for_what_they_select() {
    let table: &[(&[&str], &str, &str)] = &[
        (&["echo", "{col:2}-{col:1}"], "a b\nc d\n", "b-a\nd-c\n"),
        (&["-F,", "echo", "{col:2}"], "a,b c,d\n", "b c\n"),
        (
            &["echo", "{.user.id}", "{.n}", "{.list.0}"],
            "{\"user\":{\"id\":\"x y\"},\"n\":7,\"list\":[1]}\n",
            "x y 7 1\n",
        ),
        (
            &["echo", "{host}:{bytes}:{#}"],
            "https://EXAMPLE.org/1\nhttp://b.example\n",
            "example.org:22:1\nb.example:17:2\n",
        ),
        (&["echo", "{re:id=(\\d{1,3})}"], "x id=12345\n", "123\n"),
        (&["echo", "{} {1} %{x} ${host}", "{"], "a\n", "a {1} %{x} ${host} {\n"),
        (&["-I@", "echo", "@", "{}", "{col:1}"], "a b\n", "a b {} a\n"),
        (&["-B9", "echo", "{col:2}", "-", "{#}"], "a b\nc d\ne f\n", "b d f - 1 2 3\n"),
        (&["-t", "true", "{col:2}"], "a b\n", ""),
        (&["--dry-run", "echo", "{col:2}"], "a b\n", "0.000000000\techo b\n"),
        (&["--trim", "echo", "{bytes}"], " ab \r\n", "3\n"),
        (&["echo", "{col:2}"], "\0 b\n", "b\n"),
        (&["-B9", "echo", "{#}"], "a\0\n\0\n", "1 2\n"),
    ];
    for (args, input, printed) in table {
        let assert = fed(&[&[UNLIMITED], *args].concat(), *input).success();
        let traced = if args[0] == "-t" { "true b\n" } else { "" };
        assert.stdout(*printed).stderr(traced);
    }
}

#[test]
fn an_item_without_the_part_is_bad() {
    let missing = |extra: &[&str], command: &[&str]| {
        let mut run = throttle(&[&[UNLIMITED, "-j1"], extra, command].concat());
        run.write_stdin("{\"id\":1}\n{}\n{\"id\":3}\n").assert()
    };
    let why = "item 2: has no .id for COMMAND: '{}'";
    missing(&[], &["echo", "{.id}"]).code(1).stdout("1\n").stderr(contains(why));
    missing(&["--on-bad=skip"], &["echo", "{.id}"])
        .code(1)
        .stdout("1\n3\n")
        .stderr(format!("throttle: {why}; skipped\n"));
    missing(&["--on-bad=skip", "--dry-run"], &["echo", "{.id}"])
        .code(1)
        .stdout("0.000000000\techo 1\n0.000000000\techo 3\n");
}

#[test]
fn what_is_selected_may_be_short_where_the_item_is_too_long_for_an_argument() {
    let input = format!("{{\"id\":\"x\",\"data\":\"{}\"}}\n", "y".repeat(300_000));
    fed(&[UNLIMITED, "echo", "{.id}"], input.clone()).success().stdout("x\n");
    fed(&[UNLIMITED, "echo", "{.data}"], input).code(123).stderr(contains("not run: it is too long"));
}

#[test]
fn in_batches_what_is_selected_is_an_argument_of_its_own() {
    fed(&[UNLIMITED, "-B2", "echo", "x{host}"], "").code(2).stderr(
        "throttle: with -B, {host} becomes one argument for each item: make it an argument of its own\n",
    );
    fed(&[UNLIMITED, "-B1", "echo", "x{host}"], "http://a/\n").stdout("xa\n");
}

/// Placeholders, and other text, which does not become one whatever it stands next to.
const PLACES: [&str; 8] = ["{}", "{#}", "{col:1}", "{col:2}", "{bytes}", "{.a}", "{.b.0}", "{re:\\d{2}}"];
const OTHERS: [&str; 12] =
    ["x", "{", "}", "{x", "$", "{1}", "{col:0}", "{.}", "\\", " ", "{\u{e9}}", "{re:(}"];

/// An item, and the values of its placeholders.
fn item(random: &mut Rng, number: usize) -> (String, Vec<String>) {
    let (a, b, c) = (random.u32(10..10_000), random.u32(10..10_000), random.bool());
    let value: Value = json!({ "a": a, "b": [format!("t {b}"), c] });
    let text = value.to_string();
    let fields: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
    let digits: String = text.chars().skip_while(|c| !c.is_ascii_digit()).take(2).collect();
    let length = text.len() + 1;
    let values = vec![
        text.clone(),
        number.to_string(),
        fields[0].clone(),
        fields[1].clone(),
        length.to_string(),
        a.to_string(),
        format!("t {b}"),
        digits,
    ];
    (text, values)
}

/// Fills in an argument by trying every placeholder at every position.
fn model(arg: &str, values: &[String]) -> String {
    let (mut rest, mut filled, mut is_after_dollar) = (arg, String::new(), false);
    while let Some(first) = rest.chars().next() {
        let found = PLACES.iter().zip(values).find(|(place, _)| rest.starts_with(**place));
        let found = found.filter(|(place, _)| !is_after_dollar || **place == "{}");
        is_after_dollar = found.is_none() && first == '$';
        let length = found.map_or(first.len_utf8(), |(place, _)| place.len());
        filled.push_str(found.map_or(&rest[..length], |(_, value)| value));
        rest = &rest[length..];
    }
    filled
}

#[test]
fn property_commands_get_what_a_model_says() {
    for seed in seeds(12) {
        let mut random = Rng::with_seed(seed);
        let mut arg = |most: usize| {
            let piece = |random: &mut Rng| match random.bool() {
                true => PLACES[random.usize(..PLACES.len())],
                false => OTHERS[random.usize(..OTHERS.len())],
            };
            (0..random.usize(..most)).map(|_| piece(&mut random)).collect::<String>()
        };
        let args: Vec<_> = (0..3).map(|_| arg(6)).chain(["{}".to_owned()]).collect();
        let items: Vec<_> = (1..=5).map(|number| item(&mut random, number)).collect();
        let input = items.iter().flat_map(|(text, _)| [text.as_str(), "\n"]).collect::<String>();
        let mut typed = vec![UNLIMITED, "printf", "%s\\0"];
        typed.extend(args.iter().map(String::as_str));
        let output = throttle(&typed).write_stdin(input).output().unwrap();
        let expected = items.iter().flat_map(|(_, values)| args.iter().map(|arg| model(arg, values)));
        let expected: String = expected.map(|filled| filled + "\0").collect();
        assert_eq!(text(&output.stdout), expected, "seed {seed}: {args:?}: {}", text(&output.stderr));
    }
}
