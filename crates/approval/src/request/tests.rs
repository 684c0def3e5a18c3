//! Tests of cancellation, erasure and deletion.

use super::*;
use crate::testing::{
    APPROVE, GATEWAY, account, approved, at, claim, decide, decider, hours, pending, quorum, rule,
};

#[test]
fn caller_and_governor_cancel_open_requests() {
    let (own, other) = (account("caller", None), account("bob", None));
    for request in [pending(rule()), approved(rule())] {
        let refused = request.cancel(Canceller::Caller(&other), at(2));
        assert_eq!(refused, Err(CancelError::OtherCaller));
        for by in [Canceller::Caller(&own), Canceller::Operator(&other)] {
            let cancelled = request.cancel(by, at(2)).unwrap().unwrap().request;
            assert_eq!(cancelled.state, State::Cancelled);
            assert_eq!(cancelled.cancel(by, at(3)), Ok(None), "a repeated message");
        }
    }
    let request = approved(rule());
    let used = request.consume(GATEWAY, &claim(&request, 0, 1), at(2)).unwrap().unwrap().request;
    let late = used.cancel(Canceller::Caller(&own), at(3));
    assert_eq!(late, Err(CancelError::NotOpen(State::Consumed)));
    assert_eq!(used.invalidate(at(3)), None);
}

#[test]
fn status_has_policies_of_approvals() {
    let request = decide(&pending(quorum(2)), &decider("bob"), &APPROVE, at(1)).unwrap();
    let status = request.status_at(at(2));
    assert_eq!(status.state, State::Pending);
    assert_eq!(status.approvals, ["payments@1.0.0"]);
}

#[test]
fn preview_is_erased_a_day_after_the_end() {
    let request = approved(rule());
    assert!(!request.is_preview_due(hours(1_000)), "it has not ended");
    let ended = request.invalidate(at(0)).unwrap().request;
    assert!(!ended.is_preview_due(at(24 * 3_600 - 1)) && ended.is_preview_due(hours(24)));
    assert!(!ended.is_due_for_deletion(hours(719)) && ended.is_due_for_deletion(hours(720)));
    assert!(!request.is_due_for_deletion(hours(10_000)));
}

#[test]
fn due_time_is_that_of_the_next_limit() {
    let request = approved(rule());
    assert_eq!((pending(rule()).due_at(), request.due_at()), (None, request.deadline));
    let used = request.consume(GATEWAY, &claim(&request, 0, 1), at(2)).unwrap().unwrap().request;
    assert_eq!(used.due_at(), Some(at(62)));
    let ended = used.advance(at(62)).unwrap().request;
    assert_eq!((ended.due_at(), ended.ended_at()), (None, Some(at(62))));
}

#[test]
fn lost_transactions_end_every_request() {
    let request = approved(rule());
    let used = request.consume(GATEWAY, &claim(&request, 0, 1), at(2)).unwrap().unwrap().request;
    let recovered = |request: &Request| request.recover(at(3)).map(|changed| changed.request.state);
    assert_eq!(recovered(&pending(rule())), Some(State::Invalid));
    assert_eq!(recovered(&request), Some(State::Invalid));
    assert_eq!(recovered(&used), Some(State::Unknown));
    assert_eq!(recovered(&used.recover(at(3)).unwrap().request), None);
}

#[test]
fn every_step_raises_the_revision() {
    let request = pending(rule());
    let confirmed = approved(rule());
    assert_eq!((request.revision, confirmed.revision), (1, 2));
}

#[test]
fn rows_round_trip_through_json() {
    let request = approved(rule());
    let used = request.consume(GATEWAY, &claim(&request, 0, 1), at(2)).unwrap().unwrap().request;
    for row in [pending(rule()), request, used] {
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), row);
    }
}
