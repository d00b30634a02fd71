//! Tasks of an asynchronous program that share limits, and wait through the timer of its runtime.
//! `cargo run --example tasks`

use async_executor::Executor;
use async_io::Timer;
use throttle::pace::{Error, Pacer};

fn main() -> Result<(), Error> {
    let pacer = Pacer::new("3/300ms\n1/100ms,key=col:1")?.sleeping(Timer::after);
    let executor = Executor::new();
    let tasks: Vec<_> = ["a", "a", "b", "b", "c", "c"]
        .map(|name| {
            let pacer = pacer.clone();
            executor.spawn(async move {
                let permit = pacer.ready((name, 1)).await?;
                println!("{name}");
                drop(permit);
                Ok::<_, Error>(())
            })
        })
        .into();
    async_io::block_on(executor.run(async {
        for task in tasks {
            task.await?;
        }
        Ok(())
    }))
}
