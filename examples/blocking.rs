//! A loop that makes a request for each URL on its standard input, by the limits in its first argument:
//! `printf 'https://a.example/\nhttps://b.example/\n' | cargo run --example blocking -- '5/s'`

use std::io;

use throttle::pace::{Error, Pacer};

fn main() -> Result<(), Error> {
    let limits = std::env::args().nth(1).unwrap_or_else(|| "5/s\n1/s,key=host".to_owned());
    let pacer = Pacer::new(&limits)?;
    for url in io::stdin().lines().map_while(Result::ok) {
        let permit = pacer.wait(pacer.item(url.as_bytes())?)?;
        println!("{url}");
        drop(permit);
    }
    Ok(())
}
