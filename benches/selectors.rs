//! The cost of charging a record.
//!
//! `cargo bench --bench selectors`

use std::hint::black_box;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use throttle::charge::Draft;
use throttle::config::Rate;
use throttle::source::Charger;

fn main() {
    divan::main();
}

/// The number of records in each input.
const RECORDS: usize = 10_000;

fn rate(text: &str) -> Rate {
    text.parse().expect("a valid rate")
}

fn charges(bencher: Bencher<'_, '_>, limit: &str, record: impl Fn(usize) -> String) {
    let records: Vec<_> = (0..RECORDS).map(record).collect();
    let bytes: usize = records.iter().map(String::len).sum();
    let mut charger = Charger::new(&[rate(limit)], None);
    let mut draft = Draft::default();
    let counted = bencher.counter(ItemsCount::new(RECORDS)).counter(BytesCount::new(bytes));
    counted.bench_local(|| {
        for record in &records {
            charger.charge_into(record.as_bytes(), record.len() + 1, &mut draft).expect("a cost");
            black_box(&draft);
        }
    });
}

#[divan::bench(args = ["cost=bytes", "key=col:1", "key=col:6", "key=re:[0-9]+", "key=re:user(\\d+)"])]
fn words(bencher: Bencher<'_, '_>, selector: &str) {
    charges(bencher, &format!("1T/s,{selector}"), |n| format!("user{n} some words and {} more", n % 7));
}

#[divan::bench(args = ["https://www{}.example.org/p?q=1", "http://10.0.0.7:8080/{}", "HTTP://U@Example{}.ORG/", "{}"])]
fn host(bencher: Bencher<'_, '_>, form: &str) {
    charges(bencher, "1T/s,key=host", |n| form.replace("{}", &(n % 1000).to_string()));
}

#[divan::bench(args = ["cost=.tokens", "key=.user.id", "cost=.tokens,key=.user.id", "key=.last"])]
fn json(bencher: Bencher<'_, '_>, selector: &str) {
    let record = |n: usize| {
        let text = "what is asked of the model, with a \\\"quotation\\\" in it";
        format!(
            r#"{{"user":{{"id":"u{}"}},"tokens":{},"text":"{text}","tags":[1,[2]],"last":true}}"#,
            n % 1000,
            n % 500
        )
    };
    charges(bencher, &format!("1T/s,{selector}"), record);
}
