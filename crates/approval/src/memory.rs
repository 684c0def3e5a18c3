//! The store of a gateway without a registry. It uses requests like a database does: a function of
//! [`Request`] computes the new row, which replaces the old one.

use std::collections::BTreeMap;

use registry_core::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    binding::{Binding, Principal},
    id::RequestId,
    limits::STORED,
    request::{
        CancelError, Canceller, Changed, Claim, ConfirmError, ConsumeError, DecideError, OpenError,
        Recorded, Request, Review, SettleError, Settlement, Situation, StandingGrant, Transition,
        Wanted, open,
    },
};

/// Requests and standing grants in memory. Its owner writes it to disk before it passes on an answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryApprovals {
    requests: BTreeMap<RequestId, Request>,
    /// By the request that created the grant.
    grants: BTreeMap<RequestId, StandingGrant>,
}

impl MemoryApprovals {
    /// Creates a store without requests.
    pub fn new() -> Self {
        Self::default()
    }

    /// Finds or creates the request of a call.
    pub fn open(&mut self, wanted: Wanted, now: Timestamp) -> Result<Recorded<Request>, OpenError> {
        let caller = wanted.binding.caller.clone();
        let of_caller = |binding: &Binding| binding.caller.is_account(&caller);
        let requests: Vec<_> =
            self.requests.values().filter(|request| of_caller(&request.binding)).collect();
        let grants: Vec<_> =
            self.grants.values().filter(|grant| of_caller(&grant.binding)).collect();
        let all: Vec<_> = self.grants.values().collect();
        let kept = self.requests.values().filter(|request| !request.makes_room(&all, now)).count();
        let is_used = self.requests.get(&wanted.id).is_some_and(|used| !of_caller(&used.binding));
        if is_used {
            return Err(OpenError::UsedId);
        }
        let situation = Situation { requests: &requests, grants: &grants, kept };
        let opened = open(wanted, situation, now)?;
        let mut transitions: Vec<_> =
            opened.superseded.into_iter().map(|changed| self.replace(changed)).collect();
        let request = opened.request;
        if let Some(transition) = opened.transition {
            for id in opened.displaced {
                self.requests.remove(&id);
            }
            self.make_room(now);
            self.requests.insert(request.id, request.clone());
            transitions.push(transition);
        }
        Ok(Recorded { value: request, transitions })
    }

    /// Records a decision.
    pub fn decide(
        &mut self,
        id: RequestId,
        review: Review<'_>,
        now: Timestamp,
    ) -> Result<Recorded<Request>, DecideError> {
        let request = self.requests.get(&id).ok_or(DecideError::NotFound)?;
        let caller = &request.binding.caller;
        let is_own = |grant: &&StandingGrant| grant.binding.caller.is_account(caller);
        let grants = self.grants.values().filter(is_own).count();
        let changed = request.decide(Review { grants, ..review }, now)?;
        if let Some(grant) = changed.request.standing_grant() {
            self.grants.insert(grant.origin, grant);
        }
        Ok(self.record(Some(changed), id))
    }

    /// Records that the caller confirmed its call.
    pub fn confirm(
        &mut self,
        id: RequestId,
        caller: &Principal,
        now: Timestamp,
    ) -> Result<Recorded<Request>, ConfirmError> {
        let request = self.requests.get(&id).ok_or(ConfirmError::NotFound)?;
        let changed = request.confirm(caller, now)?;
        Ok(self.record(changed, id))
    }

    /// Cancels an open request.
    pub fn cancel(
        &mut self,
        id: RequestId,
        by: Canceller<'_>,
        now: Timestamp,
    ) -> Result<Recorded<Request>, CancelError> {
        let request = self.requests.get(&id).ok_or(CancelError::NotFound)?;
        let changed = request.cancel(by, now)?;
        Ok(self.record(changed, id))
    }

    /// Consumes a round of an approved request.
    pub fn consume(
        &mut self,
        gateway: &str,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Vec<Transition>, ConsumeError> {
        let request = self.requests.get(&claim.request).ok_or(ConsumeError::NotFound)?;
        let changed = request.consume(gateway, claim, now)?;
        Ok(changed.map(|changed| self.replace(changed)).into_iter().collect())
    }

    /// Records the outcome of a round.
    pub fn settle(
        &mut self,
        gateway: &str,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<Vec<Transition>, SettleError> {
        let request = self.requests.get(&settlement.request).ok_or(SettleError::NotFound)?;
        let changed = request.settle(gateway, settlement, now)?;
        Ok(changed.map(|changed| self.replace(changed)).into_iter().collect())
    }

    /// Ends open requests and standing grants whose definition or policies have changed.
    pub fn invalidate(
        &mut self,
        is_current: impl Fn(&Binding) -> bool,
        now: Timestamp,
    ) -> Vec<Transition> {
        self.grants.retain(|_, grant| is_current(&grant.binding));
        let stale = self.requests.values().filter(|request| !is_current(&request.binding));
        let changed: Vec<_> = stale.filter_map(|request| request.invalidate(now)).collect();
        changed.into_iter().map(|changed| self.replace(changed)).collect()
    }

    /// Records the time limits that are over, erases previews, and deletes old requests and grants.
    pub fn advance(&mut self, now: Timestamp) -> Vec<Transition> {
        self.grants.retain(|_, grant| grant.ends_at > now);
        let changed: Vec<_> =
            self.requests.values().filter_map(|request| request.advance(now)).collect();
        let transitions = changed.into_iter().map(|changed| self.replace(changed)).collect();
        self.requests.retain(|_, request| !request.is_due_for_deletion(now));
        for request in self.requests.values_mut().filter(|request| request.is_preview_due(now)) {
            request.preview = None;
        }
        transitions
    }

    /// Ends a standing grant, and cancels its unused approvals.
    pub fn revoke(
        &mut self,
        origin: RequestId,
        by: &Principal,
        now: Timestamp,
    ) -> Option<Recorded<StandingGrant>> {
        let value = self.grants.remove(&origin)?;
        let requests = self.requests.values();
        let changed = requests.filter_map(|request| request.lose_grant(origin, by, now));
        let changed: Vec<_> = changed.collect();
        let transitions = changed.into_iter().map(|changed| self.replace(changed)).collect();
        Some(Recorded { value, transitions })
    }

    /// A request.
    pub fn request(&self, id: RequestId) -> Option<&Request> {
        self.requests.get(&id)
    }

    /// All requests, in the order of their ids.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.values()
    }

    /// All standing grants.
    pub fn grants(&self) -> impl Iterator<Item = &StandingGrant> {
        self.grants.values()
    }

    fn record(&mut self, changed: Option<Changed>, id: RequestId) -> Recorded<Request> {
        let transitions = changed.map(|changed| self.replace(changed)).into_iter().collect();
        Recorded { value: self.requests[&id].clone(), transitions }
    }

    fn replace(&mut self, changed: Changed) -> Transition {
        self.requests.insert(changed.request.id, changed.request);
        changed.transition
    }

    /// Deletes the oldest ended requests of all callers, so that one more fits.
    fn make_room(&mut self, now: Timestamp) {
        let excess = (self.requests.len() + 1).saturating_sub(STORED);
        let grants: Vec<_> = self.grants.values().collect();
        let ended = self.requests.values().filter(|request| request.makes_room(&grants, now));
        let mut oldest: Vec<_> = ended.map(Request::displacement).collect();
        oldest.sort_unstable();
        for (.., id) in oldest.into_iter().take(excess) {
            self.requests.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests;
