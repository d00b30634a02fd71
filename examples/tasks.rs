//! Tasks of an asynchronous program that share limits: the limits have no timer of their own, the runtime has.
//! `cargo run --example tasks`

use std::sync::Mutex;
use std::time::Instant;

use async_executor::LocalExecutor;
use async_io::Timer;
use throttle::pace::{Admission, Error, Item, Pace, Refusal};

/// Waits until `item` is admitted. Others may be admitted meanwhile, so it is asked about again.
async fn admitted(pace: &Mutex<Pace>, item: &Item) -> Option<Admission> {
    loop {
        let answer = pace.lock().expect("no task panics").admit(item, Instant::now());
        match answer {
            Ok(admission) => return Some(admission),
            Err(Refusal::Until(at)) => _ = Timer::at(at).await,
            Err(Refusal::Never) => return None,
        }
    }
}

async fn request(pace: &Mutex<Pace>, item: &Item, name: &str) {
    if let Some(admission) = admitted(pace, item).await {
        println!("{name}");
        pace.lock().expect("no task panics").commit(admission, Instant::now());
    }
}

fn main() -> Result<(), Error> {
    let now = Instant::now();
    let mut pace = Pace::new("3/300ms\n1/100ms,key=col:1", now)?;
    let names = ["a 1", "a 2", "b 1", "b 2", "c 1", "c 2"];
    let items =
        names.map(|name| pace.item(name.as_bytes(), now)).into_iter().collect::<Result<Vec<_>, _>>()?;
    let pace = Mutex::new(pace);
    let executor = LocalExecutor::new();
    let tasks: Vec<_> =
        names.iter().zip(&items).map(|(name, item)| executor.spawn(request(&pace, item, name))).collect();
    async_io::block_on(executor.run(async {
        for task in tasks {
            task.await;
        }
    }));
    Ok(())
}
