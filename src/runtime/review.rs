//! The run of `--audit`: judges each record by the instant at which it says that it was released.

use std::io::{self, IsTerminal};

use anyhow::{Result, ensure};

use super::world::{Event, Wait, Wake, World};
use crate::audit::{Audit, Violation};
use crate::charge::{Charge, Draft};
use crate::config::{self, Arrivals, Rate, Selector};
use crate::exit::Exit;
use crate::output::Target;
use crate::records::{Moment, ReorderBuffer};
use crate::sink::{Cause, Sent, Sink};
use crate::source::{Advice, Batch, Charger, Delimiter, ReleaseCharges, Segment, bad_item};
use crate::time::{Time, Wall};
use crate::ui::audit::AuditReport;

/// Records on their way from an input to an audit.
pub(crate) struct Review {
    /// Records with their charges; none, if it is the charge of every item.
    reorder: ReorderBuffer<Vec<Draft>>,
    charger: Charger,
    /// The charge of every item, if all have the same.
    uniform: Option<Draft>,
    delimiter: Delimiter,
    /// True if some costs are lengths.
    counts_bytes: bool,
    /// If so, the rows with the last item of each log.
    ends: Vec<LogEnd>,
    pub(crate) audit: Audit,
    /// What the wall clock shows at 0, if that was given.
    at: Option<Time>,
    /// The instant of the first record.
    first: Option<Time>,
    /// If items are judged as they arrive, what passes them on.
    passing: Option<Passing>,
    pub(crate) advice: Advice,
    /// The advice that was given on items.
    pub(crate) told: Vec<String>,
}

/// The way of items that are judged as they arrive.
struct Passing {
    sink: Box<dyn Sink>,
    /// The wall clock at the first arrival, which is not set: instants stay as far apart as they are.
    wall: Option<Wall>,
    /// The number of bytes passed on.
    bytes: u64,
}

/// A row with the last item of a log.
struct LogEnd {
    /// The log and the number of the item.
    last: (u64, u64),
    row: (Time, u64),
    /// The charges of the row if that item had no delimiter.
    charges: Vec<Draft>,
}

impl Review {
    /// Judges by `rates`; `arrivals` says where records give their instants. If these do not count from 1970, the wall
    /// clock shows `at` at 0.
    pub(crate) fn new(
        rates: &[Rate],
        arrivals: &Arrivals,
        input: &config::InputOptions,
        at: Option<Time>,
    ) -> Self {
        let charger = Charger::new(rates, input.separator.as_ref()).without_bounds();
        let draft = |Charge { costs, keys }: &Charge| Draft { costs: costs.to_vec(), keys: keys.to_vec() };
        Review {
            reorder: ReorderBuffer::new(arrivals, input),
            uniform: charger.uniform().map(draft),
            charger,
            delimiter: Delimiter::of(input),
            ends: Vec::new(),
            counts_bytes: rates.iter().any(|rate| rate.cost == Some(Selector::Bytes)),
            audit: Audit::by(rates, at.map_or(Wall::EPOCH, |shown| Wall::new(Time::ZERO, shown))),
            at,
            first: None,
            passing: None,
            advice: Advice::new(input, &[], rates),
            told: Vec::new(),
        }
    }

    /// Judges items when they arrive, and passes them on to `sink`.
    pub(crate) fn passing_on(self, sink: impl Sink + 'static) -> Self {
        Review { passing: Some(Passing { sink: Box::new(sink), wall: None, bytes: 0 }), ..self }
    }

    /// The number of bytes passed on.
    pub(crate) fn passed(&self) -> u64 {
        self.passing.as_ref().map_or(0, |passing| passing.bytes)
    }

    /// Judges all records, until the input ends or the run is to stop. Findings are reported whenever the input pauses,
    /// and at once to a terminal.
    ///
    /// # Errors
    /// The input cannot be read or is out of order, a record does not give its instant or cost, or the report cannot be
    /// written.
    pub(crate) fn run(&mut self, world: &mut impl World, report: &mut AuditReport) -> Result<Exit> {
        let (stop, result) = match self.judge_all(world, report) {
            Ok(stop) => (stop, self.finish(report)),
            Err(error) => (None, Err(error)),
        };
        // A stop that has come since events were last looked at takes precedence over the result.
        match stop.or_else(|| world.last_stop()) {
            Some(Exit::READER_GONE) => Err(io::Error::from(io::ErrorKind::BrokenPipe).into()),
            Some(exit) => Ok(exit),
            None => result.map(|()| if self.audit.too_early > 0 { Exit::Refused } else { Exit::Done }),
        }
    }

    /// Judges records until the input ends or the run is to stop.
    fn judge_all(&mut self, world: &mut impl World, report: &mut AuditReport) -> Result<Option<Exit>> {
        let is_watched = Target::Stdout.fd().is_terminal();
        // Findings about items that are passed on are reported at the end.
        let pause = Some(Time::ZERO).filter(|_| self.passing.is_none());
        let mut until = pause;
        loop {
            match world.wait(Wait { until, accepting: true, ..Wait::default() }) {
                Wake::Input(block) => {
                    if let Some(stop) = self.take(block, world, report)? {
                        return Ok(Some(stop));
                    }
                    if is_watched && pause.is_some() {
                        report.flush()?;
                    }
                    until = pause;
                }
                Wake::End(None) => return Ok(None),
                Wake::End(Some(error)) => return Err(error),
                Wake::Event(Event::Stop(exit)) => return Ok(Some(exit)),
                Wake::Event(_) => {}
                Wake::Due | Wake::Soon | Wake::Output | Wake::Stalled => {
                    report.flush()?;
                    until = None;
                }
            }
        }
    }

    /// Judges the records of a block, after it has been passed on. Returns the stop if that ends the run.
    fn take(
        &mut self,
        block: Segment,
        world: &mut impl World,
        report: &mut AuditReport,
    ) -> Result<Option<Exit>> {
        let Some(Passing { sink, wall, bytes }) = &mut self.passing else {
            return self.judge_block(&block, None, report).map(|()| None);
        };
        if let Err(cause) = sink.begin() {
            return stopped(cause, world);
        }
        let at = wall.get_or_insert_with(|| world.wall()).shows(block.arrival());
        let mut batch = Batch::default();
        batch.push(block);
        let (items, cause) = match sink.send(world.now(), &batch, &mut || ()) {
            Sent::Partly(items, cause) => (items, Some(cause)),
            Sent::All | Sent::Busy { .. } | Sent::TooLong => (batch.items(), None),
        };
        let passed = batch.take(items, &self.delimiter);
        *bytes += passed.bytes() as u64;
        for segment in passed.segments() {
            self.judge_block(segment, Some(at), report)?;
        }
        cause.map_or(Ok(None), |cause| stopped(cause, world))
    }

    /// Judges records that arrived at `arrived`, or else by their stamps.
    fn judge_block(
        &mut self,
        block: &Segment,
        arrived: Option<Time>,
        report: &mut AuditReport,
    ) -> Result<()> {
        let delimiter = self.delimiter.clone();
        for whole in delimiter.split_inclusive(block.bytes()) {
            let record = delimiter.trim(whole);
            let Some(moment) = self.reorder.read(record, arrived)? else { continue };
            let first = *self.first.get_or_insert(moment.at);
            ensure!(
                self.at.is_none() || !first.is_dated(),
                "the time stamps give the date and the time: leave out --at"
            );
            let ending = whole.len() - record.len();
            let charges = match (&self.uniform, &moment.items[..]) {
                (Some(_), [_]) => Vec::new(),
                _ => self.charge(&moment, ending)?,
            };
            if let Some(last) = moment.last.filter(|_| self.counts_bytes) {
                self.note_end(last, &moment, ending)?;
            }
            self.reorder.put(moment.at, moment.number, charges)?;
            self.judge(report)?;
            report.is_calendar = moment.is_calendar;
            report.has_batches |= moment.items.len() > 1;
        }
        Ok(())
    }

    /// Advice on dates, if it may explain why limits that go by the calendar were exceeded.
    fn advise_on_date(&self) -> Option<String> {
        let is_undated = self.at.is_none() && self.first.is_some_and(|first| !first.is_dated());
        let mut limits = self.audit.limits.iter().filter(|limit| limit.tally.findings.violations > 0);
        let limit = limits.find(|limit| limit.rate.goes_by_wall()).filter(|_| is_undated)?;
        Some(format!(
            "{} goes by the calendar, and the time stamps begin in 1970: to begin elsewhere, add --at TIME",
            limit.rate
        ))
    }

    /// Notes a row if its last item is the last of its log so far.
    fn note_end(&mut self, last: (u64, u64), moment: &Moment, delimiter: usize) -> Result<()> {
        let known = self.ends.last().map(|end| end.last);
        if known.is_none_or(|known| known <= last) {
            self.ends.retain(|end| end.last.0 < last.0 || end.last == last);
            let charges = charge(&mut self.charger, moment, delimiter, 0, |_, _| ())?;
            self.ends.push(LogEnd { last, row: (moment.at, moment.number), charges });
        }
        Ok(())
    }

    fn finish(&mut self, report: &mut AuditReport) -> Result<()> {
        // A log does not say whether the last item of the input had a delimiter; nothing is called too early for that.
        for LogEnd { row: (at, number), charges, .. } in self.ends.drain(..) {
            self.reorder.replace(at, number, charges);
        }
        self.reorder.end();
        self.judge(report)?;
        self.told.extend(self.advise_on_date());
        Ok(report.summary(&self.audit, &self.advice.keyless)?)
    }

    /// Judges the records whose turn it is.
    fn judge(&mut self, report: &mut AuditReport) -> Result<()> {
        for (at, number, charges) in self.reorder.by_ref() {
            let charges = if charges.is_empty() { self.uniform.as_slice() } else { &charges };
            let mut told = Ok(());
            let tell = |violation: &Violation| {
                if told.is_ok() {
                    told = report.violation(violation);
                }
            };
            let charges = charges.iter().map(|Draft { costs, keys }| (costs.as_slice(), keys.as_slice()));
            self.audit.judge_together(number, at, charges, tell);
            told?;
        }
        Ok(())
    }

    fn charge(&mut self, moment: &Moment, delimiter: usize) -> Result<Vec<Draft>> {
        let Review { charger, advice, told, .. } = self;
        charge(charger, moment, delimiter, delimiter, |charger, item| {
            advice.keyless.count(charger, moment.number);
            told.extend(advice.on_quotes(moment.number, item, || charger.cuts_quotes(item)));
        })
    }
}

/// The stop that ends the run if nothing more can be passed on.
fn stopped(cause: Cause, world: &mut impl World) -> Result<Option<Exit>> {
    match cause {
        Cause::ReaderGone => Ok(Some(Exit::READER_GONE)),
        Cause::Interrupted => Ok(world.last_stop()),
        Cause::Failed(_, error) => Err(error),
    }
}

/// The charges of a row whose items have delimiters of this length, and the last of them one of the length `last`.
/// Calls `look` with each item after it was charged.
fn charge(
    charger: &mut Charger,
    moment: &Moment,
    delimiter: usize,
    last: usize,
    mut look: impl FnMut(&Charger, &[u8]),
) -> Result<Vec<Draft>> {
    let mut release = ReleaseCharges::default();
    for (place, item) in moment.items.iter().enumerate() {
        let mut draft = Draft::default();
        let ending = if place + 1 == moment.items.len() { last } else { delimiter };
        let result = charger.charge_into(item, item.len() + ending, &mut draft);
        result.map_err(|why| bad_item(moment.number, &why))?;
        look(charger, item);
        release.add(charger, draft);
    }
    Ok(release.charges)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::fmt::Write;
    use std::io;
    use std::rc::Rc;

    use super::*;
    use crate::cli;
    use crate::config::{Config, Verb};
    use crate::random::{Told, seeds};
    use crate::source::Capacity;

    /// Blocks of records, with their arrivals.
    #[derive(Default)]
    struct Arriving {
        blocks: VecDeque<(Time, Vec<u8>, u64)>,
        now: Time,
    }

    /// The wall clock is ahead of that of the run.
    const SHOWN: Time = Time(1_700_000_000_000_000_007);

    impl World for Arriving {
        fn now(&self) -> Time {
            self.now
        }

        fn wall(&mut self) -> Wall {
            Wall::new(Time::ZERO, SHOWN)
        }

        fn wait(&mut self, _: Wait) -> Wake {
            let Some((at, bytes, items)) = self.blocks.pop_front() else { return Wake::End(None) };
            self.now = at;
            Wake::Input(Segment::of(bytes, items, at))
        }
    }

    /// Keeps what is sent. After `room` items, its reader is gone.
    struct Kept {
        bytes: Rc<RefCell<Vec<u8>>>,
        room: u64,
    }

    impl Sink for Kept {
        fn capacity(&self) -> Capacity {
            Capacity::UNLIMITED
        }

        fn send(&mut self, _: Time, batch: &Batch, _: &mut dyn FnMut()) -> Sent {
            let items = batch.items().min(self.room);
            self.room -= items;
            for record in batch.records(&Delimiter::new(b"\n")).take(usize::try_from(items).expect("few")) {
                self.bytes.borrow_mut().extend_from_slice(record);
            }
            if items == batch.items() { Sent::All } else { Sent::Partly(items, Cause::ReaderGone) }
        }
    }

    #[derive(Clone, Default)]
    struct Out(Rc<RefCell<Vec<u8>>>);

    impl io::Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn review(config: &Config, world: &mut Arriving, sink: Option<Kept>) -> (String, Option<Exit>, u64) {
        let Verb::Audit { arrivals, .. } = &config.action else { panic!("an audit") };
        let mut review = Review::new(&config.limits.given().unwrap(), arrivals, &config.input, None);
        if let Some(sink) = sink {
            review = review.passing_on(sink);
        }
        let out = Out::default();
        let mut report = AuditReport::new(config.report, out.clone());
        let exit = review.run(world, &mut report).ok();
        report.flush().unwrap();
        let told = String::from_utf8(out.0.borrow().clone()).unwrap();
        (told, exit, review.passed())
    }

    /// Items that are judged as they arrive are judged as an audit of their stamps judges them, and pass unchanged.
    #[test]
    fn what_is_judged_as_it_arrives_is_judged_as_by_its_stamps() {
        for seed in seeds(100) {
            let mut random = fastrand::Rng::with_seed(seed);
            let random = &mut random;
            let mut args: Vec<String> = vec!["throttle".into(), "--audit".into()];
            for _ in 0..random.usize(1..4) {
                let options =
                    ["", ",key=re:k.", ",cost=re:c(.)", ",key=re:k.,cost=re:c(.)", ",algo=interval"];
                let more = ["", ",algo=bucket", ",algo=fixed", ",margin=10ms"];
                let (count, options) = (random.u64(1..5), random.choice(options).unwrap());
                let more = if options.contains("algo") { "" } else { random.choice(more).unwrap() };
                args.push(format!("-r{count}/{}ms{options}{more}", random.u64(1..200)));
            }
            args.extend(["--trim", "--skip-blank"].iter().filter(|_| random.bool()).map(|&it| it.into()));
            let (mut world, mut stamped, mut passed) = (Arriving::default(), String::new(), String::new());
            let (mut at, all) = (Time(random.u64(..1000)), random.u64(..40));
            let room = if random.bool() { u64::MAX } else { random.u64(..=all) };
            let mut number = 0;
            while number < all {
                let mut block = String::new();
                let items = random.u64(1..5).min(all - number);
                for _ in 0..items {
                    number += 1;
                    let key = ["k0", "k1", "k2", "x"][random.usize(..4)];
                    let item = format!("{key} c{} \r", random.u8(..4));
                    let is_blank = random.u8(..5) == 0 && args.iter().any(|arg| arg == "--skip-blank");
                    let item = if is_blank { String::from(" \r") } else { item };
                    let end = if number == all && random.bool() { "" } else { "\n" };
                    write!(block, "{item}{end}").unwrap();
                    if number <= room {
                        let shown = jiff::Timestamp::from_nanosecond((SHOWN.0 + at.0).into()).unwrap();
                        let stamp = if is_blank { String::new() } else { format!("{shown} ") };
                        write!(stamped, "{stamp}{item}{end}").unwrap();
                        write!(passed, "{item}{end}").unwrap();
                    }
                }
                world.blocks.push_back((at, block.into_bytes(), items));
                at = at.saturating_add([0, 1, random.u64(..300_000_000)][random.usize(..3)]);
            }
            let case = format!("{args:?}\n{stamped}");
            let _told = Told { seed, case: move || case.clone() };
            let parse = |args: &[String], more: &[&str]| {
                cli::parse(args.iter().map(String::as_str).chain(more.iter().copied()).map(Into::into))
                    .unwrap()
            };
            let kept = Kept { bytes: Rc::default(), room };
            let bytes = Rc::clone(&kept.bytes);
            let (told, exit, length) = review(&parse(&args, &["--arrivals=now"]), &mut world, Some(kept));
            let records =
                stamped.matches('\n').count() + usize::from(!stamped.is_empty() && !stamped.ends_with('\n'));
            let block = (Time::ZERO, stamped.clone().into_bytes(), records as u64);
            let mut record = Arriving { blocks: [block].into(), now: Time::ZERO };
            let (wanted, judged, _) = review(&parse(&args, &[]), &mut record, None);
            assert_eq!(told, wanted);
            assert_eq!(String::from_utf8_lossy(&bytes.borrow()), passed);
            assert_eq!((exit, length), (judged.filter(|_| room >= all), passed.len() as u64));
        }
    }
}
