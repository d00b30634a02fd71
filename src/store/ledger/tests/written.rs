//! Which records are written to the log.

use super::*;

#[derive(Default)]
struct Written(Vec<String>);

impl UnitLog for Written {
    fn used_at(&mut self, _: usize, _: u128) -> Result<Time> {
        Ok(Time::ZERO)
    }

    fn record(&mut self, limit: usize, units: Range<u128>, at: Time) -> Result<()> {
        self.0.push(format!("record {limit} {units:?} {}", at.0));
        Ok(())
    }

    fn forget(&mut self, limit: usize, unit: u128) -> Result<()> {
        self.0.push(format!("forget {limit} {unit}"));
        Ok(())
    }
}

#[test]
fn after_a_restart_only_logs_are_written_anew_that_have_something_in_them() {
    let quotas = [quota(Algorithm::Sliding, 4, 100), quota(Algorithm::Bucket, 4, 100)];
    let rules = BookingRules::new(policy(&quotas));
    let mut ledger = rules.begin(Time(5));
    ledger.accounts[1].used = 3;
    let mut written = Written::default();
    rules.restart(&ledger, &mut written).expect("written");
    assert!(written.0.is_empty(), "{:?}", written.0);
    ledger.accounts[0].used = 2;
    rules.restart(&ledger, &mut written).expect("written");
    assert_eq!(written.0, ["forget 0 2", "record 0 0..2 0"]);
}

#[test]
fn a_slot_that_is_due_is_not_given_to_another() {
    let rules = BookingRules::new(policy(&[quota(Algorithm::Sliding, 4, 100)]));
    let mut ledger = rules.begin(Time(5));
    rules.give_back(&mut ledger, Time(10), &[1], [9, 10, 11].map(|at| (Wall::EPOCH, Time(at))).to_vec());
    assert_eq!(ledger.owned.of(NOBODY, &[1]), [Time(11)]);
}
