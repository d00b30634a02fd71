//! `throttle`: see the library.

fn main() -> ! {
    throttle::inherited::prepare();
    throttle::run(std::env::args_os()).leave()
}
