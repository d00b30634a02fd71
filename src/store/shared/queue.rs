//! Whether to believe another process that has decided on a request of this one, as it does for all that wait.

use super::VaultStore;
use super::request::Reply;
use super::swap::Work;
use crate::store::StoreError;
use crate::store::vault::{Loaded, Suspicion};

impl VaultStore {
    /// What another process has replied to the request, if this one would have decided so, too: it may know of a loss
    /// that the other one did not know of.
    pub(super) fn reply_to(
        &mut self,
        work: &Work<'_>,
        key: &[u8],
        wire: &[u8],
        loaded: &Loaded,
    ) -> Result<Option<Reply>, StoreError> {
        let may_be = |reply: &Reply| matches!(work, Work::Request(parts) if reply.may_answer(parts));
        match Reply::decode(wire).filter(may_be) {
            Some(reply) if self.trusts(key, loaded, &reply)? => Ok(Some(reply)),
            _ => Ok(None),
        }
    }

    fn trusts(&mut self, key: &[u8], loaded: &Loaded, reply: &Reply) -> Result<bool, StoreError> {
        let Loaded { values, reading, suspicion, .. } = loaded;
        let is_doubted = |suspicion: &Suspicion| suspicion.good_from.is_none_or(|from| reply.decided < from);
        if reply.decided > reading.shown || suspicion.as_ref().is_some_and(is_doubted) {
            return Ok(false);
        }
        let value = values.last().cloned().flatten();
        let of_own = (!key.is_empty()).then(|| (&b""[..], self.own.clone()));
        let mut own = None;
        for (key, value) in of_own.into_iter().chain([(key, value)]) {
            let entry = self.entry(key, value, reading, *suspicion, own.as_ref())?;
            if entry.is_changed() || own.as_ref().is_some_and(|own| entry.is_ahead_of(own)) {
                return Ok(false);
            }
            self.remember(key, &entry.record, reading.shown);
            own = Some(entry.record);
        }
        let slots = reply.answers.iter().flat_map(|answer| &answer.slots);
        let last = slots.map(|slot| slot.at).max().unwrap_or(reply.decided);
        Ok(own.is_some_and(|record| {
            (record.epoch(), record.revision, record.wall) == reply.booked_in
                && !self.is_ahead(last, &record, reply.decided)
        }))
    }
}
