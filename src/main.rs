//! The entry point of `throttle`; see the library.
//!
//! It takes the place of the one of std, which reads /proc/self/maps and sets up a stack on which to tell of an
//! overflow: a tenth of the time that the program takes to start.
#![cfg_attr(not(test), no_main)]

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use throttle::{inherited, run, ui};

#[expect(unsafe_code)]
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn main(_: c_int, mut next: *const *const c_char) -> c_int {
    inherited::prepare();
    let args = std::iter::from_fn(|| {
        // SAFETY: the array ends with a null pointer, before which each is a string that lives as long as the program.
        let arg = unsafe { (*next).as_ref().map(|arg| CStr::from_ptr(arg)) }?;
        // SAFETY: there is at least the null pointer after an argument.
        next = unsafe { next.add(1) };
        Some(OsStr::from_bytes(arg.to_bytes()).to_os_string())
    });
    let exit = run(args.collect::<Vec<OsString>>());
    ui::stderr::flush(exit);
    exit.leave()
}

/// Called by std instead of the unwinder in a release, from which `build.rs` leaves out what it needs.
///
/// Returns `_URC_END_OF_STACK`: there is no frame above.
#[cfg(panic = "abort")]
#[expect(unsafe_code)]
#[unsafe(no_mangle)]
extern "C" fn __wrap__Unwind_Backtrace(_: *const u8, _: *const u8) -> c_int {
    5
}
