//! When many processes swap the record of a key: one decides for all that wait, and replies to them.

use super::request::{Reply, Request};
use super::swap::{Act, Messages};
use super::{Booking, VaultStore};
use crate::store::StoreError;
use crate::store::vault::{Loaded, Reading, Suspicion, Waiting};

/// Requests, and what was decided on them.
struct Asked<'a> {
    requests: &'a [Request],
    replies: Vec<Option<Reply>>,
}

impl Act for Asked<'_> {
    fn act(&mut self, at: usize, booking: &mut Booking<'_>, waiting: &[Waiting]) -> Messages {
        let request = &self.requests[at];
        let wire = request.encode(booking.changes, &booking.record.limits, booking.reading);
        let others: Vec<_> = waiting.iter().map(|(_, wire)| &wire[..]).collect();
        let (reply, replies) = booking.decide(request, &others);
        self.replies[at] = Some(reply);
        let replies = waiting.iter().map(|(id, _)| id.clone()).zip(replies).collect();
        Messages { request: Some(wire), replies }
    }

    fn take(&mut self, at: usize, reply: Reply) {
        self.replies[at] = Some(reply);
    }
}

impl VaultStore {
    /// Does what is requested, each for a key of its own, or lets other processes do it. Also returns the clock as of
    /// then.
    pub(super) fn request_each(&mut self, requests: &[Request]) -> Result<Vec<(Reply, Reading)>, StoreError> {
        let wanted: Vec<_> = requests.iter().map(|request| (request.key(), Some(request))).collect();
        let mut asked = Asked { requests, replies: requests.iter().map(|_| None).collect() };
        let readings = self.swap_each(&wanted, &mut asked)?;
        let replies = asked.replies.into_iter().map(|reply| reply.expect("each was decided on"));
        Ok(replies.zip(readings).collect())
    }

    /// What another process has replied to the request, if this one would have decided so, too: it may know of a loss
    /// that the other one did not know of.
    pub(super) fn reply_to(
        &mut self,
        request: Option<&Request>,
        key: &[u8],
        wire: &[u8],
        loaded: &Loaded,
    ) -> Result<Option<Reply>, StoreError> {
        let may_be_replied = |reply: &Reply| request.is_some_and(|request| request.may_be_replied(reply));
        match Reply::decode(wire).filter(may_be_replied) {
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
        let mut own = None;
        for (key, value) in [&b""[..], key].into_iter().skip(usize::from(key.is_empty())).zip(values) {
            let entry = self.entry(key, value.clone(), reading, *suspicion, own.as_ref())?;
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
