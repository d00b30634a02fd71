//! Commands that end in unusual ways, or leave unusual things behind.

use crate::support::{Directory, UNLIMITED, sh, throttle};

#[test]
fn a_command_may_be_killed_by_any_signal() {
    // The C library keeps 32 and 33 to itself.
    for (signal, name) in [("9", "SIGKILL"), ("34", "signal 34"), ("50", "signal 50"), ("64", "signal 64")] {
        let script = format!("kill -{signal} $$");
        throttle(&[UNLIMITED, "--", "sh", "-c", &script])
            .write_stdin("x\n")
            .assert()
            .code(125)
            .stderr(format!("throttle: item 1: sh was killed by {name}\n"));
    }
}

#[test]
fn a_real_time_signal_is_logged_by_its_number() {
    let script = "echo x | throttle -r1T/s --log log -- sh -c 'kill -34 $$'; tail -n1 log | cut -f6-";
    let directory = Directory::new();
    sh(script).current_dir(directory.path()).assert().stdout("162\t34\tx\n");
}
