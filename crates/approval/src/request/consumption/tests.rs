//! Tests of consumption and outcomes.

use registry_core::entity::policy::Approval;

use super::*;
use crate::{
    limits::INPUT_WITHIN,
    testing::{GATEWAY, approved, at, binding, claim, hours, pending, rule, settlement},
};

fn consume(request: &Request, round: u32, attempt: u128, now: Timestamp) -> Request {
    let changed = request.consume(GATEWAY, &claim(request, round, attempt), now);
    changed.unwrap().unwrap().request
}

fn settle(request: &Request, attempt: u128, outcome: Outcome, now: Timestamp) -> Request {
    let changed = request.settle(GATEWAY, &settlement(request, attempt, outcome), now);
    changed.unwrap().unwrap().request
}

fn refusal(request: &Request, claim: &Claim, now: Timestamp) -> ConsumeError {
    request.consume(GATEWAY, claim, now).unwrap_err()
}

#[test]
fn approval_is_consumed_once() {
    let used = consume(&approved(rule()), 0, 1, at(2));
    assert_eq!(used.state, State::Consumed);
    assert_eq!(refusal(&used, &claim(&used, 0, 2), at(3)), ConsumeError::Used);
    assert_eq!(used.consume("gateway-2", &claim(&used, 0, 1), at(3)), Err(ConsumeError::Used));
    let done = settle(&used, 1, Outcome::Succeeded, at(3));
    assert_eq!(done.state, State::Succeeded);
    for attempt in [1, 2] {
        assert_eq!(refusal(&done, &claim(&done, 0, attempt), at(4)), ConsumeError::Used);
    }
}

#[test]
fn repeated_claim_of_same_attempt_succeeds() {
    let used = consume(&approved(rule()), 0, 1, at(2));
    assert_eq!(used.consume(GATEWAY, &claim(&used, 0, 1), at(3)), Ok(None));
}

#[test]
fn claim_of_another_call_consumes_nothing() {
    let request = approved(rule());
    let other_key = binding("b", rule()).key();
    let other = Claim { key: other_key, ..claim(&request, 0, 1) };
    assert_eq!(refusal(&request, &other, at(2)), ConsumeError::OtherCall);
    assert_eq!(consume(&request, 0, 1, at(3)).state, State::Consumed, "it is still usable");
}

#[test]
fn unapproved_request_is_not_consumed() {
    let request = pending(rule());
    let refused = refusal(&request, &claim(&request, 0, 1), at(1));
    assert_eq!(refused, ConsumeError::NotApproved(State::Pending));
    let request = approved(Approval { expires_after: Some(Duration::from_mins(1)), ..rule() });
    let refused = refusal(&request, &claim(&request, 0, 1), at(61));
    assert_eq!(refused, ConsumeError::NotApproved(State::Expired));
    let cancelled = request.invalidate(at(2)).unwrap().request;
    let refused = refusal(&cancelled, &claim(&cancelled, 0, 1), at(3));
    assert_eq!(refused, ConsumeError::NotApproved(State::Invalid));
}

#[test]
fn rounds_are_used_in_order_and_once() {
    let request = approved(rule());
    let early = refusal(&request, &claim(&request, 1, 1), at(2));
    assert_eq!(early, ConsumeError::Replayed { round: 1 });
    let used = consume(&request, 0, 1, at(2));
    let running = refusal(&used, &claim(&used, 1, 2), at(2));
    assert_eq!(running, ConsumeError::Replayed { round: 1 }, "the round has no outcome");
    let asked = settle(&used, 1, Outcome::AwaitingInput, at(3));
    assert_eq!(asked.state, State::Consumed);
    assert_eq!(refusal(&asked, &claim(&asked, 2, 2), at(4)), ConsumeError::Replayed { round: 2 });
    assert_eq!(refusal(&asked, &claim(&asked, 0, 2), at(4)), ConsumeError::Used);
    let second = consume(&asked, 1, 2, at(4));
    assert_eq!(refusal(&second, &claim(&second, 1, 3), at(5)), ConsumeError::Replayed { round: 1 });
    let asked = settle(&second, 2, Outcome::AwaitingInput, at(5));
    assert_eq!(refusal(&asked, &claim(&asked, 1, 3), at(6)), ConsumeError::Replayed { round: 1 });
    let done = settle(&consume(&asked, 2, 3, at(6)), 3, Outcome::Failed, at(7));
    assert_eq!(done.state, State::Failed);
}

#[test]
fn rounds_of_a_call_are_limited() {
    let mut request = approved(rule());
    for round in 0..ROUNDS {
        request = consume(&request, round, u128::from(round), at(2));
        request = settle(&request, u128::from(round), Outcome::AwaitingInput, at(2));
    }
    let refused = refusal(&request, &claim(&request, ROUNDS, 99), at(2));
    assert_eq!(refused, ConsumeError::TooManyRounds);
}

#[test]
fn late_round_is_rejected() {
    let asked = settle(&consume(&approved(rule()), 0, 1, at(2)), 1, Outcome::AwaitingInput, at(3));
    let end = after(at(3), INPUT_WITHIN);
    assert_eq!(refusal(&asked, &claim(&asked, 1, 2), end), ConsumeError::Used);
    assert_eq!(asked.advance(end).unwrap().request.state, State::Failed);
}

#[test]
fn silence_after_consumption_becomes_unknown() {
    let used = consume(&approved(rule()), 0, 1, at(2));
    assert_eq!(used.advance(at(61)), None);
    let lost = used.advance(at(62)).unwrap().request;
    assert_eq!(lost.state, State::Unknown);
    assert_eq!(refusal(&lost, &claim(&lost, 0, 1), at(63)), ConsumeError::Used);
    let late = lost.settle(GATEWAY, &settlement(&lost, 1, Outcome::Succeeded), at(63));
    assert_eq!(late, Err(SettleError::Ended(State::Unknown)));
}

#[test]
fn outcome_has_a_latest_time() {
    let request = approved(rule());
    let endless = Claim { within: Duration::MAX, ..claim(&request, 0, 1) };
    let used = request.consume(GATEWAY, &endless, at(2)).unwrap().unwrap().request;
    assert_eq!(used.state_at(hours(25)), State::Unknown);
}

#[test]
fn outcome_comes_from_the_consuming_call() {
    let used = consume(&approved(rule()), 0, 1, at(2));
    let done = settlement(&used, 1, Outcome::Succeeded);
    assert_eq!(used.settle("gateway-2", &done, at(3)), Err(SettleError::OtherAttempt));
    let other = settlement(&used, 2, Outcome::Succeeded);
    assert_eq!(used.settle(GATEWAY, &other, at(3)), Err(SettleError::OtherAttempt));
    let ended = settle(&used, 1, Outcome::Succeeded, at(3));
    assert_eq!(ended.settle(GATEWAY, &done, at(4)), Ok(None), "a repeated message");
    let changed = ended.settle(GATEWAY, &settlement(&used, 1, Outcome::Failed), at(4));
    assert_eq!(changed, Err(SettleError::Ended(State::Succeeded)));
}
