//! Tests of the store in memory.

use std::time::Duration;

use registry_core::entity::policy::Approval;

use super::*;
use crate::{
    Choice, GrantScope, Outcome, StandingWish, State,
    limits::{COOL_DOWN, OPEN_PER_CALLER, STORED_PER_CALLER},
    request::after,
    testing::{
        APPROVE, GATEWAY, account, at, binding, claim, current, decider, hours, rule, settlement,
        store, wanted,
    },
};

mod interleavings;

fn first() -> RequestId {
    RequestId::new(1)
}

fn decide(store: &mut MemoryApprovals, id: RequestId, choice: &Choice, now: Timestamp) -> Request {
    let (bob, current) = (decider("bob"), current());
    let review = Review { decider: &bob, choice, current: &current, is_batch: false, grants: 0 };
    store.decide(id, review, now).unwrap().value
}

fn reopen(store: &mut MemoryApprovals, id: u128, call: Binding, now: Timestamp) -> Request {
    store.open(wanted(id, call), now).unwrap().value
}

#[test]
fn repeated_call_finds_its_request() {
    let mut store = store(rule());
    let again = store.open(wanted(2, binding("a", rule())), at(1)).unwrap();
    assert_eq!((again.value.id, again.transitions.len()), (first(), 0));
    decide(&mut store, first(), &APPROVE, at(2));
    let approved = reopen(&mut store, 3, binding("a", rule()), at(3));
    assert_eq!((approved.id, approved.state), (first(), State::Approved));
    assert_eq!(reopen(&mut store, 4, binding("b", rule()), at(3)).id, RequestId::new(4));
}

#[test]
fn used_approval_is_not_found_again() {
    let mut store = store(rule());
    let request = decide(&mut store, first(), &APPROVE, at(1));
    store.consume(GATEWAY, &claim(&request, 0, 1), at(2)).unwrap();
    let next = reopen(&mut store, 2, binding("a", rule()), at(3));
    assert_eq!((next.id, next.state), (RequestId::new(2), State::Pending));
}

#[test]
fn denied_call_rests_for_a_day() {
    let mut store = store(rule());
    decide(&mut store, first(), &Choice::Deny { reason: "no".into() }, at(0));
    let resting = reopen(&mut store, 2, binding("a", rule()), hours(23));
    assert_eq!((resting.id, resting.state), (first(), State::Denied));
    let next = reopen(&mut store, 2, binding("a", rule()), after(at(0), COOL_DOWN));
    assert_eq!(next.state, State::Pending);
}

#[test]
fn newer_definition_supersedes_open_request() {
    let mut store = store(rule());
    decide(&mut store, first(), &APPROVE, at(1));
    let newer = Binding { version: "2.0.0".into(), ..binding("a", rule()) };
    let opened = store.open(wanted(2, newer), at(2)).unwrap();
    assert_eq!(opened.transitions.len(), 2);
    let old = store.request(first()).unwrap();
    assert_eq!((old.state, opened.value.state), (State::Superseded, State::Pending));
    let refused = store.consume(GATEWAY, &claim(&old.clone(), 0, 1), at(3));
    assert_eq!(refused, Err(ConsumeError::NotApproved(State::Superseded)));
}

#[test]
fn caller_has_at_most_twenty_open_requests() {
    let mut store = MemoryApprovals::new();
    for number in 0..20 {
        reopen(&mut store, number, binding(&number.to_string(), rule()), at(0));
    }
    let extra = wanted(20, binding("20", rule()));
    assert_eq!(store.open(extra.clone(), at(0)), Err(OpenError::TooManyOpen));
    assert_eq!(reopen(&mut store, 21, binding("7", rule()), at(0)).id, RequestId::new(7));
    let mut other = extra.clone();
    other.binding.caller.subject = "other".into();
    other.id = RequestId::new(99);
    assert!(store.open(other, at(0)).is_ok());
    let own = extra.binding.caller.clone();
    store.cancel(RequestId::new(3), Canceller::Caller(&own), at(1)).unwrap();
    assert!(store.open(extra, at(1)).is_ok());
}

#[test]
fn flood_of_cancelled_requests_keeps_size() {
    let mut store = MemoryApprovals::new();
    for number in 0..1_000 {
        let call = binding(&number.to_string(), rule());
        let (id, caller) = (RequestId::new(number), call.caller.clone());
        reopen(&mut store, number, call, at(0));
        store.cancel(id, Canceller::Caller(&caller), at(0)).unwrap();
    }
    assert_eq!(store.requests().count(), STORED_PER_CALLER);
}

#[test]
fn flood_of_callers_is_rejected_when_full() {
    let mut store = MemoryApprovals::new();
    let call = |number: usize| {
        let mut call = binding(&number.to_string(), rule());
        call.caller.subject = (number / OPEN_PER_CALLER).to_string();
        call
    };
    // Rows of a full store, without the scans of 10,000 calls.
    let template = super::super::testing::pending(rule());
    for number in 0..STORED {
        let id = RequestId::new(number as u128);
        store.requests.insert(id, Request { id, binding: call(number), ..template.clone() });
    }
    let next = wanted(STORED as u128, call(STORED));
    assert_eq!(store.open(next.clone(), at(0)), Err(OpenError::Full));
    let first = call(0).caller;
    store.cancel(RequestId::new(0), Canceller::Caller(&first), at(1)).unwrap();
    assert!(store.open(next, at(1)).is_ok());
    assert_eq!(store.requests().count(), STORED);
    assert!(store.request(RequestId::new(0)).is_none());
}

#[test]
fn oversized_requests_are_rejected() {
    let mut store = MemoryApprovals::new();
    let call = wanted(1, binding("a", rule()));
    let mut long = call.clone();
    long.preview = "x".repeat(crate::limits::PREVIEW_BYTES + 1);
    assert_eq!(store.open(long, at(0)), Err(OpenError::TooLarge));
    let mut long = call.clone();
    long.binding.caller.subject = "x".repeat(crate::limits::TEXT_BYTES);
    assert_eq!(store.open(long, at(0)), Err(OpenError::TooLarge));
    let mut without = call.clone();
    without.binding.demands.clear();
    assert_eq!(store.open(without, at(0)), Err(OpenError::Demands));
    let mut twice = call;
    twice.binding.demands.push(twice.binding.demands[0].clone());
    assert_eq!(store.open(twice, at(0)), Err(OpenError::Demands));
}

fn standing() -> Approval {
    Approval { standing_for: Some(Duration::from_hours(24)), ..rule() }
}

fn granted() -> MemoryApprovals {
    let mut store = store(standing());
    let wish = StandingWish { scope: GrantScope::Tool, until: hours(20) };
    decide(&mut store, first(), &Choice::Approve { standing: Some(wish) }, at(0));
    store
}

#[test]
fn standing_grant_approves_later_calls() {
    let mut store = granted();
    let next = reopen(&mut store, 2, binding("b", standing()), hours(19));
    assert_eq!((next.state, next.granted_by), (State::Approved, Some(first())));
    assert_eq!(next.deadline, Some(hours(20)));
    assert_eq!(next.standing_grant(), None, "a grant creates no other");
    store.consume(GATEWAY, &claim(&next, 0, 1), hours(19)).unwrap();
    assert_eq!(reopen(&mut store, 3, binding("c", standing()), hours(20)).state, State::Pending);
}

#[test]
fn revoked_grant_approves_nothing() {
    let mut store = granted();
    let unused = reopen(&mut store, 2, binding("b", standing()), at(1));
    assert_eq!(unused.state, State::Approved);
    let by = unused.binding.caller.clone();
    let revoked = store.revoke(first(), &by, at(2)).unwrap();
    assert_eq!(revoked.transitions.len(), 1);
    assert!(store.revoke(first(), &by, at(2)).is_none());
    assert!(store.consume(GATEWAY, &claim(&unused, 0, 1), at(3)).is_err());
    assert_eq!(store.request(unused.id).unwrap().state, State::Cancelled);
    assert_eq!(reopen(&mut store, 3, binding("b", standing()), at(3)).state, State::Pending);
}

#[test]
fn uncertain_outcome_is_not_repeated_by_grant() {
    let mut store = granted();
    let next = reopen(&mut store, 2, binding("b", standing()), at(1));
    store.consume(GATEWAY, &claim(&next, 0, 1), at(2)).unwrap();
    let mut running = store.clone();
    let again = reopen(&mut running, 3, binding("b", standing()), at(3));
    assert_eq!((again.state, again.uncertain), (State::Pending, Some(next.id)));
    store.settle(GATEWAY, &settlement(&next, 1, Outcome::Unknown), at(3)).unwrap();
    let again = reopen(&mut store, 3, binding("b", standing()), at(4));
    assert_eq!((again.state, again.uncertain), (State::Pending, Some(next.id)));
    running.settle(GATEWAY, &settlement(&next, 1, Outcome::Succeeded), at(3)).unwrap();
    let other = reopen(&mut running, 4, binding("c", standing()), at(4));
    assert_eq!((other.state, other.uncertain), (State::Approved, None));
}

/// Consumes an approved call, and reports its outcome.
fn run(store: &mut MemoryApprovals, request: &Request, outcome: Outcome, now: Timestamp) {
    store.consume(GATEWAY, &claim(request, 0, 1), now).unwrap();
    store.settle(GATEWAY, &settlement(request, 1, outcome), now).unwrap();
}

#[test]
fn unknown_outcome_outlives_later_calls() {
    let mut store = granted();
    let lost = reopen(&mut store, 2, binding("b", standing()), at(1));
    run(&mut store, &lost, Outcome::Unknown, at(1));
    for number in 3..303 {
        let next = reopen(&mut store, number, binding(&number.to_string(), standing()), at(2));
        run(&mut store, &next, Outcome::Succeeded, at(2));
    }
    assert_eq!(store.requests().count(), STORED_PER_CALLER);
    let again = reopen(&mut store, 303, binding("b", standing()), at(3));
    assert_eq!((again.state, again.uncertain), (State::Pending, Some(lost.id)));
}

#[test]
fn unknown_outcomes_stay_while_grant_could_repeat_them() {
    let mut store = granted();
    let count = STORED_PER_CALLER as u128;
    for number in 2..=count {
        let next = reopen(&mut store, number, binding(&number.to_string(), standing()), at(1));
        run(&mut store, &next, Outcome::Unknown, at(1));
    }
    let next = wanted(count + 1, binding("next", standing()));
    let by = next.binding.caller.clone();
    store.cancel(first(), Canceller::Operator(&by), at(1)).unwrap();
    let last = reopen(&mut store, count + 2, binding("last", standing()), at(1));
    run(&mut store, &last, Outcome::Unknown, at(1));
    assert_eq!(store.open(next.clone(), at(2)), Err(OpenError::TooManyStored));
    let mut revoked = store.clone();
    revoked.revoke(first(), &by, at(2)).unwrap();
    assert!(revoked.open(next.clone(), at(2)).is_ok());
    store.advance(hours(20));
    assert!(store.open(next, hours(20)).is_ok());
    assert_eq!(store.requests().count(), STORED_PER_CALLER);
}

/// Requests and uses the approval of a call without a standing grant.
fn run_approved(store: &mut MemoryApprovals, id: u128, call: Binding, outcome: Outcome) {
    let request = reopen(store, id, call, at(1));
    let request = decide(store, request.id, &APPROVE, at(1));
    run(store, &request, outcome, at(1));
}

#[test]
fn unknown_outcomes_without_grant_make_room_last() {
    let mut store = MemoryApprovals::new();
    let outcome = |id| if id == 150 { Outcome::Succeeded } else { Outcome::Unknown };
    let count = STORED_PER_CALLER as u128;
    for id in 1..=count {
        run_approved(&mut store, id, binding(&id.to_string(), standing()), outcome(id));
    }
    reopen(&mut store, 201, binding("201", standing()), at(2));
    let is_stored = |store: &MemoryApprovals, id| store.request(RequestId::new(id)).is_some();
    assert!(is_stored(&store, 1) && !is_stored(&store, 150));
    reopen(&mut store, 202, binding("202", standing()), at(2));
    assert!(!is_stored(&store, 1) && is_stored(&store, 2));
    assert_eq!(store.requests().count(), STORED_PER_CALLER);
}

#[test]
fn grant_of_other_resource_keeps_no_unknown_outcome() {
    let mut store = granted();
    let other = |id: u128| {
        let call = binding(&id.to_string(), standing());
        Binding { resource: "tool/other".into(), ..call }
    };
    for id in 2..=300 {
        run_approved(&mut store, id, other(id), Outcome::Unknown);
    }
    assert_eq!(store.requests().count(), STORED_PER_CALLER);
}

#[test]
fn later_grant_keeps_unknown_outcomes() {
    let mut store = MemoryApprovals::new();
    let count = STORED_PER_CALLER as u128;
    for id in 2..=count {
        run_approved(&mut store, id, binding(&id.to_string(), standing()), Outcome::Unknown);
    }
    let origin = reopen(&mut store, 1, binding("a", standing()), at(2));
    let wish = StandingWish { scope: GrantScope::Tool, until: hours(20) };
    decide(&mut store, origin.id, &Choice::Approve { standing: Some(wish) }, at(2));
    let next = wanted(count + 1, binding("next", standing()));
    assert_eq!(store.open(next, at(3)), Err(OpenError::TooManyStored));
}

#[test]
fn unknown_outcomes_do_not_fill_store() {
    let mut store = granted();
    let lost = reopen(&mut store, 2, binding("b", standing()), at(1));
    run(&mut store, &lost, Outcome::Unknown, at(1));
    let template = store.requests.remove(&lost.id).unwrap();
    let caller = |number: usize| account(&(number / STORED_PER_CALLER).to_string(), None);
    let call = |number| Binding { caller: caller(number), ..template.binding.clone() };
    // The first request, which is approved, counts too.
    for number in 1..STORED {
        let id = RequestId::new(number as u128 + 1);
        store.requests.insert(id, Request { id, binding: call(number), ..template.clone() });
    }
    let next = wanted(0, binding("next", rule()));
    let mut held = store.clone();
    let grant = store.grants[&first()].clone();
    for number in (0..STORED).step_by(STORED_PER_CALLER) {
        let origin = RequestId::new(number as u128);
        held.grants.insert(origin, StandingGrant { binding: call(number), ..grant.clone() });
    }
    assert!(store.open(next.clone(), at(2)).is_ok());
    assert_eq!(store.requests().count(), STORED);
    assert_eq!(held.open(next, at(2)), Err(OpenError::Full));
}

#[test]
fn changed_policies_end_requests_and_grants() {
    let mut store = granted();
    reopen(&mut store, 2, binding("b", standing()), at(1));
    assert_eq!(store.invalidate(|_| false, at(2)).len(), 2);
    assert_eq!(store.grants().count(), 0);
    assert!(store.requests().all(|request| request.state == State::Invalid));
}

#[test]
fn time_erases_previews_and_old_requests() {
    let mut store = store(Approval { expires_after: Some(Duration::from_hours(1)), ..rule() });
    assert_eq!(store.advance(hours(1)).len(), 1);
    assert_eq!(store.request(first()).map(|request| request.state), Some(State::Expired));
    assert!(store.advance(hours(24)).is_empty());
    assert!(store.request(first()).unwrap().preview.is_some());
    store.advance(hours(25));
    assert_eq!(store.request(first()).unwrap().preview, None);
    store.advance(hours(721));
    assert_eq!(store, MemoryApprovals::new());
}

#[test]
fn store_round_trips_through_json() {
    let store = granted();
    let text = serde_json::to_string(&store).unwrap();
    assert_eq!(serde_json::from_str::<MemoryApprovals>(&text).unwrap(), store);
}
