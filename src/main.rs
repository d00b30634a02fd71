//! `throttle`: see the library.

fn main() -> ! {
    throttle::run(std::env::args_os()).leave()
}
