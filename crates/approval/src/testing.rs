//! Calls, people and policies of tests.

use std::{collections::BTreeSet, num::NonZeroU32, time::Duration};

use registry_core::{
    Digest, Timestamp,
    entity::policy::{Approval, Approver},
};

use crate::{
    Attempt, Binding, Choice, Claim, Current, Decider, Demand, MemoryApprovals, Outcome, Principal,
    Request, RequestId, Review, Settlement, SignIn, Wanted,
};

pub(crate) const ISSUER: &str = "https://id.example";
pub(crate) const GATEWAY: &str = "gateway-1";
pub(crate) const APPROVE: Choice = Choice::Approve { standing: None };

pub(crate) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(seconds).unwrap() * 1_000)
}

pub(crate) fn hours(count: u64) -> Timestamp {
    at(count * 3_600)
}

pub(crate) fn account(subject: &str, person: Option<&str>) -> Principal {
    Principal {
        issuer: ISSUER.to_owned(),
        subject: subject.to_owned(),
        person: person.map(str::to_owned),
    }
}

pub(crate) fn decider(subject: &str) -> Decider {
    Decider {
        principal: account(subject, Some(subject)),
        team: None,
        is_approver: true,
        sign_in: SignIn::Oidc,
        lacks_person: false,
    }
}

pub(crate) fn rule() -> Approval {
    Approval::default()
}

pub(crate) fn quorum(count: u32) -> Approval {
    Approval { quorum: NonZeroU32::new(count).unwrap(), ..rule() }
}

pub(crate) fn confirmation() -> Approval {
    Approval { approvers: vec![Approver::Caller], ..rule() }
}

pub(crate) fn demand(policy: &str, rule: Approval) -> Demand {
    Demand { policy: policy.to_owned(), digest: Digest::compute(policy.as_bytes()), rule }
}

pub(crate) fn binding(arguments: &str, rule: Approval) -> Binding {
    Binding {
        caller: account("caller", Some("ann")),
        agent: Some("clerk".to_owned()),
        resource: "tool/pay".to_owned(),
        version: "1.0.0".to_owned(),
        definition: Digest::compute(b"definition"),
        arguments: Digest::compute(arguments.as_bytes()),
        demands: vec![demand("payments@1.0.0", rule)],
    }
}

pub(crate) fn wanted(id: u128, binding: Binding) -> Wanted {
    Wanted {
        id: RequestId::new(id),
        binding,
        owners: BTreeSet::from(["owners".to_owned()]),
        preview: "{}".to_owned(),
    }
}

pub(crate) fn current() -> Current {
    Current { owners: BTreeSet::new(), is_current: true }
}

/// A store with one request, whose id is 1.
pub(crate) fn store(rule: Approval) -> MemoryApprovals {
    let mut store = MemoryApprovals::new();
    store.open(wanted(1, binding("a", rule)), at(0)).unwrap();
    store
}

/// The only request of a new store.
pub(crate) fn pending(rule: Approval) -> Request {
    store(rule).request(RequestId::new(1)).unwrap().clone()
}

pub(crate) fn approved(rule: Approval) -> Request {
    decide(&pending(rule), &decider("bob"), &APPROVE, at(1)).unwrap()
}

pub(crate) fn decide(
    request: &Request,
    decider: &Decider,
    choice: &Choice,
    now: Timestamp,
) -> Result<Request, crate::DecideError> {
    let review = Review { decider, choice, current: &current(), is_batch: false, grants: 0 };
    request.decide(review, now).map(|changed| changed.request)
}

pub(crate) fn claim(request: &Request, round: u32, attempt: u128) -> Claim {
    Claim {
        request: request.id,
        key: request.key(),
        round,
        attempt: Attempt::new(attempt),
        within: Duration::from_mins(1),
    }
}

pub(crate) fn settlement(request: &Request, attempt: u128, outcome: Outcome) -> Settlement {
    Settlement { request: request.id, attempt: Attempt::new(attempt), outcome }
}
