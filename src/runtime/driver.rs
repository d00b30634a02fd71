//! The loop: asks the scheduler what to do, does it, and reports back.

use anyhow::{Error, anyhow};
use nix::sys::signal::Signal;

use super::text_file::TextFile;
use super::world::{Event, Wait, Wake, World};
use crate::exit::{End, Exit, JobEnd};
use crate::records::{Entry, FailedItems, JobLog};
use crate::schedule::{Action, Admission, Notice, Schedule};
use crate::sink::{Cause, Flushed, Pipes, Sent, Sink};
use crate::time::Time;
use crate::ui::progress::Display;
use crate::ui::report::Reporter;

/// Connects a scheduler to the world, the sink and the user.
pub struct Driver<'a> {
    world: &'a mut dyn World,
    sink: &'a mut dyn Sink,
    reporter: &'a Reporter,
    log: Option<JobLog>,
    metrics: Option<TextFile>,
    failed: Option<FailedItems>,
}

impl<'a> Driver<'a> {
    /// A driver that logs nothing.
    pub fn new(world: &'a mut dyn World, sink: &'a mut dyn Sink, reporter: &'a Reporter) -> Self {
        Driver { world, sink, reporter, log: None, metrics: None, failed: None }
    }

    /// Logs the ends of commands, keeps `metrics` up to date, and writes the items that fail to a file.
    pub fn noting(self, log: Option<JobLog>, metrics: Option<TextFile>, failed: Option<FailedItems>) -> Self {
        Driver { log, metrics, failed, ..self }
    }

    /// Runs until all items are released and all commands have ended, or the run is stopped.
    pub fn run(&mut self, schedule: &mut Schedule) -> Exit {
        schedule.set_wall(self.world.now(), self.world.wall());
        loop {
            // Ctrl-C may have ended the input as well, in the middle of an item or a batch: neither is released.
            self.apply_signal(schedule);
            let now = self.world.now();
            if schedule.goes_by_wall() {
                schedule.set_wall(now, self.world.wall());
            }
            match schedule.poll(now, self.sink.capacity()) {
                Action::Send(admission) => self.send(schedule, now, admission),
                Action::Store(orders) => self.world.give_store(orders),
                Action::Notify(notice) => {
                    self.list(schedule, &notice);
                    self.reporter.notify(&notice, self.world.wall(), now);
                }
                Action::Terminate => self.signal(Signal::SIGTERM),
                Action::Kill => self.signal(Signal::SIGKILL),
                Action::Retire { first, next } => self.retire(schedule, first, next),
                Action::Wait { until, accepting } => self.wait(schedule, now, until, accepting),
                Action::Finish(exit) => {
                    let has_more_to_tell = self.world.has_begun_item() && schedule.leave_begun_item();
                    if !has_more_to_tell && self.finish(schedule) {
                        write_metrics(self.world, self.reporter, &mut self.metrics, schedule, Some(exit));
                        return exit;
                    }
                }
            }
        }
    }

    /// Sends what was admitted at `start`, then tells the scheduler how much has left, with an instant read after
    /// sending.
    fn send(&mut self, schedule: &mut Schedule, start: Time, admission: Box<Admission>) {
        let batch = admission.batch();
        if let Some(line) = self.sink.trace(batch) {
            self.reporter.trace(&line);
        }
        self.reporter.display().into_iter().for_each(Display::hide);
        let is_late = |world: &dyn World| admission.good_until().is_some_and(|until| world.now() > until);
        // Forming it may have taken longer than its slot is good.
        if is_late(self.world) {
            return schedule.late(self.world.now(), admission);
        }
        self.sink.prepare(batch);
        // What is prepared now is sent in the next slot. From here on, lateness goes unnoticed.
        if is_late(self.world) {
            return schedule.sent(self.world.now(), admission, 0);
        }
        let (items, Driver { world, sink, reporter, metrics, .. }) = (batch.items(), &mut *self);
        let mut meanwhile = || attend(*world, reporter, metrics, schedule);
        let sent = sink.send(start, batch, &mut meanwhile);
        let end = self.world.now();
        match sent {
            Sent::All => {
                self.sink.jobs().into_iter().for_each(|jobs| jobs.has_started(end));
                schedule.sent(end, admission, items);
            }
            Sent::Partly(items, cause) => {
                schedule.sent(end, admission, items);
                self.fail(schedule, cause);
            }
            Sent::Busy { pause, why } => {
                schedule.busy(end, admission, pause);
                if let Some(error) = why {
                    self.reporter.notice(&format_args!("{error:#}; retrying for a while"));
                }
            }
            Sent::TooLong => schedule.too_long(end, admission),
        }
    }

    /// Writes the items that have failed to the file for them. If that is impossible, the run ends.
    fn list(&mut self, schedule: &mut Schedule, notice: &Notice) {
        let items = notice.failed();
        let listed = self.failed.as_mut().filter(|_| !items.is_empty()).map(|failed| failed.add(items));
        if let Some(Err(error)) = listed {
            // Further failures would only repeat the message.
            self.failed = None;
            schedule.fail(Exit::Error, error);
        }
    }

    fn signal(&mut self, signal: Signal) {
        self.sink.jobs().into_iter().for_each(|jobs| jobs.signal(signal));
    }

    fn retire(&mut self, schedule: &mut Schedule, first: u64, next: u64) {
        let Some(jobs) = self.sink.jobs() else { return };
        jobs.retire(first, next);
        self.flush(schedule);
    }

    fn wait(&mut self, schedule: &mut Schedule, now: Time, due: Option<Time>, accepting: bool) {
        self.reporter.show(schedule, now, || self.world.wall());
        write_metrics(self.world, self.reporter, &mut self.metrics, schedule, None);
        let deadline = self.sink.jobs().and_then(|jobs| jobs.deadline());
        let metrics = self.metrics.as_ref().map(|metrics| metrics.write_at);
        let redraw = self.reporter.display().map(Display::redraw_at);
        let until = [due, deadline, redraw, metrics].into_iter().flatten().min();
        let running = schedule.running() > 0 || self.lingers();
        let by_wall = schedule.goes_by_wall();
        let outputs = self.sink.jobs().map_or_else(Pipes::new, |jobs| jobs.outputs());
        let wake = self.world.wait(Wait { until, due, accepting, running, by_wall, outputs: &outputs });
        drop(outputs);
        match wake {
            Wake::Due => schedule.due(),
            // The scheduler is polled again now, so that its answer is ready when the instant comes.
            Wake::Soon => {}
            Wake::Input(block) => {
                self.begin(schedule);
                // A header comes without items.
                if block.items() > 0 {
                    schedule.input(block);
                }
            }
            Wake::Output => self.outputs(schedule),
            Wake::End(error) => schedule.end_of_input(self.world.now(), error),
            Wake::Event(event) => self.apply_all(schedule, event),
            Wake::Stalled => schedule
                .fail(Exit::Error, anyhow!("the remaining items would never be released: check the limits")),
        }
        self.enforce_timeouts(schedule);
    }

    /// Ends the commands that run too long. Input may come all the time, so this waits for no turn.
    fn enforce_timeouts(&mut self, schedule: &mut Schedule) {
        let Some(deadline) = self.sink.jobs().and_then(|jobs| jobs.deadline()) else { return };
        let now = self.world.now();
        if deadline <= now {
            // A command that has ended by now did not time out, even if a stalled reader kept us from noticing.
            self.reap(schedule);
            self.sink.jobs().into_iter().for_each(|jobs| jobs.enforce(now));
            self.flush(schedule);
        }
    }

    fn apply_all(&mut self, schedule: &mut Schedule, first: Event) {
        let mut next = Some(first);
        while let Some(event) = next {
            self.apply(schedule, event);
            next = self.world.happened();
        }
    }

    fn apply(&mut self, schedule: &mut Schedule, event: Event) {
        let now = self.world.now();
        match event {
            Event::Limits(Ok(rates)) => schedule.change_limits(now, rates),
            Event::Limits(Err(error)) => {
                self.reporter.notice(&format_args!("{error:#}: the old limits stay in force"));
            }
            Event::Booked(answers) => {
                answers.into_iter().for_each(|(order, answer)| schedule.booked(now, &order, answer));
            }
            Event::BookingFailed(refusal) => {
                let released = crate::ui::number::items(schedule.stats().released);
                let error = refusal.error.context(format!("cannot continue after {released}"));
                schedule.booking_failed(refusal.exit, error);
            }
            Event::BookingWaits(why) => self.reporter.notice(&why),
            Event::Exited => {
                self.reap(schedule);
                self.flush(schedule);
            }
            Event::Stop(Exit::READER_GONE) => self.stop_without_reader(schedule),
            Event::Stop(exit) => schedule.stop(exit),
            Event::Report => attend(self.world, self.reporter, &mut self.metrics, schedule),
            Event::Continued { late } => {
                schedule.stood_still(late);
                self.reporter.display().into_iter().for_each(Display::invalidate);
            }
        }
    }

    /// True as long as workers run.
    fn lingers(&mut self) -> bool {
        self.sink.jobs().is_some_and(|jobs| jobs.linger())
    }

    /// Handles what commands have printed. A worker ends an item so.
    fn outputs(&mut self, schedule: &mut Schedule) {
        if self.lingers() {
            self.reap(schedule);
        }
        self.flush(schedule);
    }

    /// Collects the commands that have ended, with an instant read after that.
    fn reap(&mut self, schedule: &mut Schedule) {
        let Some(jobs) = self.sink.jobs() else { return };
        let (ended, now) = (jobs.reap(self.world.now()), self.world.now());
        // While a signal is waited for, other commands may end. All outputs are printed then, and logged if noted.
        for ended in &ended {
            if let Err(error) = self.record_end(schedule, now, ended) {
                schedule.fail(Exit::Error, error);
            }
        }
        // Ctrl-C and a reader that goes away end commands, too. That is no failure, and nothing more is started.
        self.apply_signal(schedule);
        if ended.iter().any(|ended| ended.end != End::Exited(0)) && self.world.has_lost_reader() {
            self.stop_without_reader(schedule);
        }
        for ended in ended {
            schedule.job_ended(now, &ended);
            if schedule.is_tried_again(ended.first) {
                self.sink.jobs().into_iter().for_each(|jobs| jobs.supersede(ended.first));
            }
        }
    }

    fn record_end(&mut self, schedule: &Schedule, now: Time, ended: &JobEnd) -> Result<(), Error> {
        let Some((log, attempt)) = self.log.as_mut().zip(schedule.attempt(ended.first)) else {
            return Ok(());
        };
        let delimiter = schedule.delimiter();
        let (wait, runtime) = (attempt.started.since(attempt.waited_from), now.since(attempt.started));
        let started = self.world.wall().shows(attempt.started);
        let (number, end) = (attempt.batch.attempt(), ended.end);
        let items = attempt.batch.numbered(delimiter).map(|(number, whole)| (number, delimiter.trim(whole)));
        log.note(&Entry { started, wait, runtime, attempt: number, end, items: items.collect() })
    }

    /// Passes on the output of commands whose turn it is, and logs them. Returns whether all went well.
    fn flush(&mut self, schedule: &mut Schedule) -> bool {
        let Driver { world, sink, reporter, metrics, .. } = self;
        let Some(jobs) = sink.jobs() else { return true };
        let captures = jobs.captures();
        let mut print = || {
            jobs.flush(&mut || {
                attend(*world, reporter, metrics, schedule);
                world.now()
            })
        };
        let flushed = if captures { reporter.make_way(print) } else { print() };
        let Flushed { printed, unprinted, told, cause } = flushed;
        told.into_iter().for_each(|told| self.reporter.notice(&told));
        let mut printed = printed.into_iter();
        let recorded =
            self.log.as_mut().map_or(Ok(()), |log| printed.try_for_each(|first| log.printed(first)));
        let is_well = recorded.is_ok() && cause.is_none();
        schedule.not_printed(unprinted);
        recorded.err().into_iter().for_each(|error| schedule.fail(Exit::Error, error));
        cause.into_iter().for_each(|cause| self.fail(schedule, cause));
        is_well
    }

    /// Prints what is left. Returns whether the run is over: nothing failed and no signal came meanwhile.
    fn finish(&mut self, schedule: &mut Schedule) -> bool {
        let now = self.world.now();
        self.sink.jobs().into_iter().for_each(|jobs| jobs.finish(now));
        let is_well = self.flush(schedule);
        if self.lingers() {
            self.wait(schedule, now, None, false);
            return false;
        }
        let is_over = is_well && !self.world.is_interrupted();
        self.apply_signal(schedule);
        is_over
    }

    /// Sends what goes before the items.
    fn begin(&mut self, schedule: &mut Schedule) {
        if let Err(cause) = self.reporter.make_way(|| self.sink.begin()) {
            self.fail(schedule, cause);
        }
    }

    /// Handles a failure to send or print.
    fn fail(&mut self, schedule: &mut Schedule, cause: Cause) {
        match cause {
            Cause::ReaderGone => self.stop_without_reader(schedule),
            Cause::Interrupted => self.apply_signal(schedule),
            Cause::Failed(exit, error) => schedule.fail(exit, error),
        }
    }

    /// Ends a run whose reader is gone, perhaps by a Ctrl-C that is ours as well.
    fn stop_without_reader(&mut self, schedule: &mut Schedule) {
        self.apply_signal(schedule);
        schedule.stop(Exit::READER_GONE);
    }

    /// Waits for the event of a signal that has come but was not reported yet, if there is one: for nothing else, as
    /// timeouts that come due would lead back here.
    fn apply_signal(&mut self, schedule: &mut Schedule) {
        while self.world.is_interrupted() {
            let event = self.world.happened();
            event.into_iter().for_each(|event| self.apply(schedule, event));
        }
    }
}

/// Does what must not wait for the reader of a write: prints statistics that were requested, and writes the metrics if
/// they are due.
fn attend(
    world: &mut dyn World,
    reporter: &Reporter,
    metrics: &mut Option<TextFile>,
    schedule: &mut Schedule,
) {
    if world.takes_report() {
        let now = world.now();
        schedule.count_time(now);
        reporter.statistics(schedule, now);
    }
    write_metrics(world, reporter, metrics, schedule, None);
}

/// Writes the metrics if they are due, or if the run ends with `exit`. A failure does not end the run.
fn write_metrics(
    world: &mut dyn World,
    reporter: &Reporter,
    metrics: &mut Option<TextFile>,
    schedule: &mut Schedule,
    exit: Option<Exit>,
) {
    let Some(metrics) = metrics else { return };
    let now = world.now();
    if exit.is_some() || metrics.write_at <= now {
        schedule.count_time(now);
        if let Err(error) = metrics.write(schedule, now, world.wall(), exit) {
            reporter.notice(&format_args!("{error:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::fs;
    use std::ops::RangeInclusive;

    use super::*;
    use crate::cli;
    use crate::sink::{Ends, RunningJobs};
    use crate::source::{Batch, Capacity, Segment};
    use crate::time::Wall;

    const TERM: Exit = Exit::Signal(Signal::SIGTERM as i32);

    /// Wakes, and the events after them.
    struct Scripted {
        wakes: VecDeque<Wake>,
        events: VecDeque<Event>,
        /// A signal has come and was not reported yet while this number of events is left.
        interrupted: RangeInclusive<usize>,
    }

    impl World for Scripted {
        fn now(&self) -> Time {
            Time(9)
        }

        fn wall(&mut self) -> Wall {
            Wall::EPOCH
        }

        fn wait(&mut self, _: Wait) -> Wake {
            assert!(!self.is_interrupted(), "it waits for more than the signal");
            let wake = self.wakes.pop_front();
            wake.unwrap_or_else(|| Wake::Event(self.happened().expect("something to wait for")))
        }

        fn happened(&mut self) -> Option<Event> {
            self.events.pop_front()
        }

        fn is_interrupted(&self) -> bool {
            self.wakes.is_empty() && self.interrupted.contains(&self.events.len())
        }
    }

    /// Items arrive at once.
    fn input(text: &str, items: u64) -> Wake {
        Wake::Input(Segment::of(text.into(), items, Time(9)))
    }

    /// Commands for an item each, which end one after the other.
    #[derive(Default)]
    struct Commands {
        running: VecDeque<u64>,
        unprinted: Vec<u64>,
        /// They run too long, until they get a signal.
        are_overdue: bool,
        is_signalled: bool,
    }

    impl Sink for Commands {
        fn capacity(&self) -> Capacity {
            let vacancies = 2 - self.running.len() as u64;
            Capacity { vacancies, at_once: 1, ..Capacity::UNLIMITED }
        }

        fn send(&mut self, _: Time, batch: &Batch, _: &mut dyn FnMut()) -> Sent {
            self.running.push_back(batch.first());
            Sent::All
        }

        fn jobs(&mut self) -> Option<&mut dyn RunningJobs> {
            Some(self)
        }
    }

    impl RunningJobs for Commands {
        fn has_started(&mut self, _: Time) {}

        fn reap(&mut self, _: Time) -> Ends {
            if self.are_overdue && !self.is_signalled {
                return Ends::new();
            }
            let ended = self.running.pop_front();
            self.unprinted.extend(ended);
            let end = if self.are_overdue { End::Killed(Signal::SIGTERM as i32) } else { End::Exited(0) };
            ended.map(|first| JobEnd::new(first, end)).into_iter().collect()
        }

        fn captures(&self) -> bool {
            false
        }

        fn outputs(&self) -> Pipes<'_> {
            Pipes::new()
        }

        fn retire(&mut self, _: u64, _: u64) {}

        fn supersede(&mut self, _: u64) {}

        fn flush(&mut self, _: &mut dyn FnMut() -> Time) -> Flushed {
            Flushed { printed: self.unprinted.drain(..).collect(), ..Flushed::default() }
        }

        fn signal(&mut self, _: Signal) {
            self.is_signalled = true;
        }

        fn deadline(&self) -> Option<Time> {
            (self.are_overdue && !self.running.is_empty()).then_some(Time(9))
        }

        fn finish(&mut self, _: Time) {}

        fn enforce(&mut self, _: Time) {}
    }

    /// A scheduler for commands that are run with these options.
    fn schedule(options: &[&str]) -> Schedule {
        let args = [&["throttle"], options, &["--", "cmd"]].concat();
        let config = cli::parse(args.into_iter().map(Into::into)).unwrap();
        let rates = config.limits.given().unwrap();
        let schedule = Schedule::new(&config, rates, Time(9), Wall::EPOCH);
        schedule.with_commands(config.command.as_ref().unwrap(), 7)
    }

    /// A timeout that is due looks for commands that have ended, which asks for signals: not for timeouts again.
    #[test]
    fn a_signal_that_is_reported_late_is_all_that_is_waited_for() {
        let mut schedule = schedule(&["-r1/s", "--timeout=1"]);
        let mut sink = Commands { are_overdue: true, ..Commands::default() };
        let wakes = [input("a\n", 1), Wake::Due].into();
        let events = [Event::Stop(TERM), Event::Exited].into();
        let mut world = Scripted { wakes, events, interrupted: 2..=2 };
        let reporter = Reporter::default();
        assert_eq!(Driver::new(&mut world, &mut sink, &reporter).run(&mut schedule), TERM);
    }

    /// A signal comes from the end of the first one on. The end of the second one is found while it is waited for, and
    /// both outputs are printed then.
    #[test]
    fn commands_that_end_as_a_signal_comes_are_logged() {
        let mut schedule = schedule(&["-r9/s", "-j2"]);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = JobLog::open(&path, None, false).unwrap();
        let events = [Event::Exited, Event::Exited, Event::Stop(TERM)].into();
        let mut world = Scripted { wakes: [input("a\nb\n", 2)].into(), events, interrupted: 1..=2 };
        let (mut sink, reporter) = (Commands::default(), Reporter::default());
        let driver = Driver::new(&mut world, &mut sink, &reporter);
        let mut driver = driver.noting(Some(log), None, None);
        assert_eq!(driver.run(&mut schedule), TERM);
        let log = fs::read_to_string(&path).unwrap();
        assert_eq!(log.lines().filter(|line| !line.starts_with('#')).count(), 3, "a head and two: {log}");
    }
}
