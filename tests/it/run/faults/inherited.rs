//! Signals that are blocked or ignored when the program starts.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use nix::sys::signal::Signal::{
    self, SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGURG, SIGUSR1, SIGUSR2, SIGXFSZ,
};
use nix::sys::signal::{SigHandler, SigSet, signal};
use predicates::str::starts_with;

use crate::support::{Directory, Running, THROTTLE, UNLIMITED, numbers, text};

/// Makes a command start with only these signals blocked and ignored, of those that the program handles.
fn start_with(command: &mut Command, blocked: &[Signal], ignored: &[Signal]) {
    let blocked: SigSet = blocked.iter().copied().collect();
    let ignored = ignored.to_vec();
    let prepare = move || {
        for &number in &ignored {
            // SAFETY: ignoring runs none of our code.
            #[expect(unsafe_code)]
            unsafe { signal(number, SigHandler::SigIgn) }?;
        }
        Ok(blocked.thread_set_mask()?)
    };
    // SAFETY: it only makes those calls, which are allowed between fork and exec.
    #[expect(unsafe_code)]
    unsafe {
        command.pre_exec(prepare);
    }
}

#[test]
fn signals_that_were_blocked_are_heard() {
    let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGURG, SIGUSR1];
    // Not INT or QUIT: a shell makes background processes ignore them.
    for signal in [SIGTERM, SIGHUP] {
        let mut command = Command::new(THROTTLE);
        start_with(command.args(["-n1", "-p1h"]), &all, &[]);
        let mut running = Running::start(&mut command);
        running.write("1\n2\n");
        assert_eq!(running.line(), "1\n");
        running.signal(SIGUSR1);
        assert!(running.error_line().starts_with("throttle: 1 of 2 items released"));
        running.signal(signal);
        assert_eq!(running.wait().signal(), Some(signal as i32));
    }
}

#[test]
fn answers_of_a_store_are_heard_with_urg_blocked() {
    let directory = Directory::new();
    let mut command = Command::new(THROTTLE);
    start_with(command.args(["-s./state", "-r100/s"]).current_dir(directory.path()), &[SIGURG], &[]);
    let mut running = Running::start(&mut command);
    running.write(numbers(3));
    assert_eq!((running.line(), running.line(), running.line()), ("1\n".into(), "2\n".into(), "3\n".into()));
}

#[test]
fn signals_that_were_ignored_stay_ignored() {
    for ignored in [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1] {
        let mut command = Command::new(THROTTLE);
        start_with(command.args(["-n1", "-p300ms"]), &[], &[ignored]);
        let mut running = Running::start(&mut command);
        running.write("1\n2\n");
        assert_eq!(running.line(), "1\n");
        running.signal(ignored);
        let output = running.finish();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "2\n".into()), "{ignored}");
        assert_eq!(text(&output.stderr), "", "{ignored}");
    }
}

#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs Linux")]
fn commands_get_the_mask_and_the_dispositions_as_found() {
    let heard = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGURG, SIGUSR1];
    let caught = [SIGINT, SIGPIPE, SIGURG, SIGXFSZ, SIGCHLD];
    let nothing: &[Signal] = &[];
    let table = [
        (nothing, nothing),
        (&heard, nothing),
        (&[SIGUSR2], &[SIGPIPE]),
        (nothing, &caught),
        (&caught, &heard),
    ];
    for (blocked, ignored) in table {
        let mut direct = Command::new("grep");
        start_with(direct.args(["-E", "Sig(Blk|Ign)", "/proc/self/status"]), blocked, ignored);
        let mut paced = Command::new(THROTTLE);
        start_with(paced.args([UNLIMITED, "--", "grep", "-E", "Sig(Blk|Ign)"]), blocked, ignored);
        let mut paced = Running::start(&mut paced);
        paced.write("/proc/self/status\n");
        let expected = Running::start(&mut direct).finish();
        let [paced, expected] = [paced.finish(), expected].map(|output| masks(&text(&output.stdout)));
        assert_eq!(paced, expected, "{blocked:?} {ignored:?}");
    }
}

/// The blocked and the ignored signals, without the two that the C library reserves.
fn masks(status: &str) -> [u64; 2] {
    let mask = |name| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name)).expect("a status");
        u64::from_str_radix(mask.trim(), 16).expect("a mask") & !(0b11 << 31)
    };
    [mask("SigBlk:"), mask("SigIgn:")]
}

#[test]
fn a_file_that_may_not_grow_any_more_is_an_error_with_a_message() {
    let script = "trap - XFSZ; ulimit -f 8; yes 123456789 | throttle -r1T/s > out";
    let told = starts_with("throttle: cannot write to standard output: File too large\n");
    Directory::new().sh(script).assert().code(1).stderr(told);
}
