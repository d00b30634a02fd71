//! Fifty tasks of tokio that share limits. Other runtimes differ in the timer: see `Pacer::sleeping`.
//! `cargo run --example tasks`

use std::time::Duration;

use throttle::pace::{Error, Pacer};
use tokio::task::JoinSet;
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let pacer = Pacer::new("10/100ms\n2/100ms,key=col:1")?.sleeping(sleep);
    let mut tasks = JoinSet::new();
    for number in 0..50 {
        let pacer = pacer.clone();
        tasks.spawn(async move {
            let host = ["a", "b", "c", "d", "e", "f"][number % 6];
            let permit = pacer.ready((host, 1)).await?;
            // The request: it counts until it has been answered.
            sleep(Duration::from_millis(20)).await;
            drop(permit);
            println!("{number} of {host}");
            Ok(())
        });
    }
    tasks.join_all().await.into_iter().collect()
}
