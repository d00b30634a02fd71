//! Failed commands are tried again, within the limits.

use std::fs;
use std::io::Write;
use std::time::{Duration, SystemTime};

use super::{run, start, stretches, timed};
use crate::http::serve;
use crate::support::{Directory, Running, UNLIMITED, fed, needs_program, numbers};

/// The number of attempts at a command that runs `script`, and the exit status of the run.
fn attempts(args: &[&str], script: &str) -> (usize, Option<i32>) {
    let directory = Directory::new();
    let log = directory.path().join("log");
    let args = [&[UNLIMITED, "--retries=2", "--log", log.to_str().unwrap()], args].concat();
    let status = start(&args, script).write_stdin("1\n").output().unwrap().status;
    // Counts the rows below the heading, as a command that is killed early may not have printed anything.
    (fs::read_to_string(log).unwrap().lines().count() - 1, status.code())
}

#[test]
fn what_failed_is_tried_again_as_often_as_asked_for() {
    let table: &[(&[&str], &str, usize, i32)] = &[
        (&[], "exit 1", 3, 123),
        (&[], "test $THROTTLE_ATTEMPT = 2", 2, 0),
        (&[], "kill -9 $$", 3, 125),
        (&[], "exit 255", 1, 124),
        (&["--backoff=22,75=0..1ms"], "exit 75", 3, 123),
        (&["--backoff=22,75=0..1ms"], "exit 76", 1, 123),
        (&["--backoff=22,75=0..1ms"], "kill -9 $$", 1, 125),
        (&["--backoff=exit:255=0..1ms"], "exit 255", 3, 124),
        (&["--timeout=50ms"], "exec sleep 1000", 3, 125),
    ];
    for &(args, script, times, status) in table {
        assert_eq!(attempts(args, script), (times, Some(status)), "{args:?} {script}");
        assert_eq!(attempts(&[args, &["-uj3"]].concat(), script), (times, Some(status)), "{args:?} {script}");
    }
}

/// Judged by the ends that the commands saw themselves, so any delay in between is harmless.
#[test]
fn attempts_are_admitted_like_new_items() {
    let script = timed("true") + "; test $THROTTLE_ATTEMPT = 3";
    let printed = run(&["-r2/200ms,from=exit", "-uj9", "--retries=2"], &script, &numbers(4));
    let stretches = stretches(&printed);
    assert_eq!(stretches.len(), 12);
    for (number, one) in stretches.iter().enumerate() {
        // Which of the earlier ones ends first is not determined.
        let counting = stretches[..number].iter().filter(|other| other.end + 200_000_000 > one.start);
        assert!(counting.count() < 2, "{stretches:?}");
    }
}

#[test]
fn one_that_backs_off_goes_on_doing_so_under_new_limits() {
    let directory = Directory::new();
    let limits = directory.file("limits", "1k/s");
    let from = format!("-r@{}", limits.display());
    let script = timed("true") + "; test $THROTTLE_ATTEMPT = 2";
    let args = [&from, "-uj2", "--retries=1", "--backoff=1s..1s", "--", "sh", "-c", &script];
    let mut running = Running::fed(&args, "1\n");
    let first = running.line();
    fs::write(&limits, "2k/s").unwrap();
    let stretches = stretches(&(first + &running.line()));
    assert!(stretches[1].start >= stretches[0].end + 1_000_000_000, "{stretches:?}");
}

/// The waits between attempts, as the commands saw them.
fn waits(advice: &str, attempts: usize) -> Vec<u64> {
    let script = timed(&format!("{advice} > $THROTTLE_RETRY_AFTER")) + "; test $THROTTLE_ATTEMPT = ";
    let printed = run(&[UNLIMITED, "--retries=9"], &format!("{script}{attempts}"), "1\n");
    stretches(&printed).windows(2).map(|pair| pair[1].start - pair[0].end).collect()
}

#[test]
fn a_command_can_say_how_long_to_wait() {
    let waits = waits("echo 0.3", 3);
    assert!(waits.len() == 2 && waits.iter().all(|&wait| wait >= 300_000_000), "{waits:?}");
}

#[test]
fn a_command_can_say_until_when_to_wait() {
    let until = SystemTime::now() + Duration::from_secs(2);
    let date = httpdate::fmt_http_date(until);
    let waited = waits(&format!("echo '{date}'"), 2);
    assert_eq!(waited.len(), 1);
    // Dates are in whole seconds.
    assert!(SystemTime::now() >= until - Duration::from_secs(1));
}

/// A server that refuses the first `refusals` requests and says how long to wait.
fn reluctant_server(refusals: usize) -> u16 {
    let mut requests = 0;
    serve(move |stream| {
        requests += 1;
        let answer = match requests <= refusals {
            true => "429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
            false => "200 OK\r\nContent-Length: 5\r\n\r\ndone\n",
        };
        let _ = write!(stream, "HTTP/1.1 {answer}");
    })
}

#[test]
fn a_server_can_say_how_long_to_wait() {
    if needs_program("curl").is_none() {
        return;
    }
    let url = format!("http://127.0.0.1:{}/", reluctant_server(2));
    let curl = "curl -q -fsS --noproxy '*' -D \"$THROTTLE_RETRY_AFTER\"";
    // The server's wait applies, not the backoff.
    let args = [UNLIMITED, "--retries=5", "--backoff=22=1h..2h"];
    let started = SystemTime::now();
    assert_eq!(run(&args, &format!("exec {curl} $1"), &format!("{url}\n")), "done\n");
    assert!(started.elapsed().unwrap() >= Duration::from_secs(2));
}

/// It was released, so it is not among those that were not.
#[test]
fn an_item_whose_retry_the_end_of_the_run_prevents_is_counted_as_such() {
    let args = [UNLIMITED, "--retries=1", "--backoff=7=1h", "--", "sh", "-c", "exit $1", "sh"];
    fed(&args, "7\n255\n0\n").code(124).stderr(
        "throttle: item 2 '255': exited with 255, which ends the run\n\
         throttle: item 1 '7': exited with 7; the run ended before it was retried\n\
         throttle: ended early: 1 item read and not released, 1 not tried again\n",
    );
}
