//! A server that lets each of 100,000 users make two requests a minute, and tells when to come back.
//! `cargo run --release --example keys`

use std::time::Instant;

use throttle::pace::{Error, ErrorKind, Pacer};

fn main() -> Result<(), Error> {
    let pacer = Pacer::new("2/min,key=col:1")?;
    let (mut served, mut refused, mut latest) = (0, 0, None);
    for request in 0..300_000 {
        let user = format!("user-{}", request % 100_000);
        match pacer.check((user, 1)) {
            Ok(()) => served += 1,
            Err(error) => {
                let ErrorKind::Refused(reason) = error.kind() else { return Err(error) };
                refused += 1;
                latest = latest.max(reason.until);
            }
        }
    }
    let wait = latest.map(|at| at.saturating_duration_since(Instant::now()));
    println!("{served} served; {refused} refused, for up to {wait:?}");
    Ok(())
}
