//! The entry point of `throttle`; see the library.

use throttle::{inherited, run, ui};

fn main() -> ! {
    inherited::prepare();
    let exit = run(std::env::args_os());
    ui::stderr::flush(exit);
    exit.leave()
}
