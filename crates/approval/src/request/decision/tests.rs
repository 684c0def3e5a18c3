//! Tests of decisions.

use registry_core::entity::policy::Approval;

use super::*;
use crate::{
    RequestId,
    limits::{COOL_DOWN, USABLE_FOR},
    testing::{
        APPROVE, ISSUER, account, approved, at, binding, confirmation, current, decide, decider,
        demand, hours, pending, quorum, rule, store, wanted,
    },
};

fn four_eyes() -> Approval {
    Approval { four_eyes: true, ..rule() }
}

fn deny(reason: &str) -> Choice {
    Choice::Deny { reason: reason.to_owned() }
}

/// Why the person may not decide.
fn refusal(rule: Approval, decider: &Decider) -> Option<Ineligible> {
    match decide(&pending(rule), decider, &APPROVE, at(1)) {
        Ok(_) => None,
        Err(DecideError::Ineligible(reason)) => Some(reason),
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn approver_approves_pending_request() {
    let request = approved(rule());
    assert_eq!(request.state, State::Approved);
    assert_eq!(request.deadline, Some(after(at(1), USABLE_FOR)));
    let again = decide(&request, &decider("eve"), &APPROVE, at(2));
    assert_eq!(again, Err(DecideError::NotPending(State::Approved)));
}

#[test]
fn decision_needs_role_and_listed_team() {
    let reader = Decider { is_approver: false, ..decider("bob") };
    assert_eq!(refusal(rule(), &reader), Some(Ineligible::NotApprover));
    let finance = || Approval { approvers: vec![Approver::Team("finance".into())], ..rule() };
    assert_eq!(refusal(finance(), &decider("bob")), Some(Ineligible::NotSelected));
    let member = Decider { team: Some("finance".into()), ..decider("bob") };
    assert_eq!(refusal(finance(), &member), None);
    assert_eq!(refusal(finance(), &Decider { is_approver: false, ..member }), {
        Some(Ineligible::NotApprover)
    });
}

#[test]
fn four_eyes_reject_the_caller_in_every_form() {
    let as_account = |principal| Decider { principal, ..decider("bob") };
    let own = as_account(account("caller", Some("ann")));
    let second = as_account(account("caller-2", Some("ann")));
    let unnamed = as_account(account("caller-2", None));
    let elsewhere =
        as_account(Principal { issuer: "https://other.example".into(), ..account("bob", None) });
    for (decider, reason) in [
        (own, Indistinct::Account),
        (second, Indistinct::Person),
        (unnamed, Indistinct::UnknownPerson),
        (elsewhere, Indistinct::Issuer),
    ] {
        assert_eq!(refusal(four_eyes(), &decider), Some(Ineligible::Caller(reason)));
        assert_eq!(refusal(rule(), &decider), None, "without four eyes");
    }
    assert_eq!(refusal(four_eyes(), &decider("bob")), None);
}

#[test]
fn four_eyes_reject_tokens_and_owners() {
    let token = Decider { sign_in: SignIn::Token, ..decider("bob") };
    assert_eq!(refusal(four_eyes(), &token), Some(Ineligible::Token));
    assert_eq!(refusal(rule(), &token), None);
    let owner = Decider { team: Some("owners".into()), ..decider("bob") };
    assert_eq!(refusal(four_eyes(), &owner), Some(Ineligible::Owner));
    let moved = Decider { team: Some("later".into()), ..decider("bob") };
    let current = Current { owners: ["later".to_owned()].into(), is_current: true };
    let review =
        Review { decider: &moved, choice: &APPROVE, current: &current, is_batch: false, grants: 0 };
    let refused = pending(four_eyes()).decide(review, at(1));
    assert_eq!(refused, Err(DecideError::Ineligible(Ineligible::Owner)), "the owner has changed");
}

#[test]
fn four_eyes_exclude_owners_of_a_calling_agent_instead_of_a_person() {
    let mut call = binding("a", four_eyes());
    let subject = "clerk".to_owned();
    call.caller = Principal { issuer: Principal::AGENTS.into(), subject, person: None };
    let approved = |owners: &[&str], decider: &Decider| {
        let owners = owners.iter().map(ToString::to_string).collect();
        let call = crate::Wanted { owners, ..wanted(1, call.clone()) };
        let request = crate::MemoryApprovals::new().open(call, at(0)).unwrap().value;
        decide(&request, decider, &APPROVE, at(1)).map(|request| request.state)
    };
    let certified = |subject: &str| Decider {
        principal: Principal { issuer: "certificate".into(), ..account(subject, None) },
        sign_in: SignIn::Certificate,
        ..decider(subject)
    };
    for person in [decider("bob"), certified("bob")] {
        assert_eq!(approved(&["owners"], &person), Ok(State::Approved));
        let unowned = Ineligible::Caller(Indistinct::Issuer);
        assert_eq!(approved(&[], &person), Err(DecideError::Ineligible(unowned)));
        let owner = Decider { team: Some("owners".into()), ..person };
        let refused = approved(&["owners"], &owner);
        assert_eq!(refused, Err(DecideError::Ineligible(Ineligible::Owner)));
    }
    let namesake = approved(&["owners"], &certified("clerk"));
    let refused = Ineligible::Caller(Indistinct::Account);
    assert_eq!(namesake, Err(DecideError::Ineligible(refused)), "one certificate for both");
}

#[test]
fn four_eyes_need_a_caller_that_approvers_differ_from() {
    let provider = crate::SignIns { issuer: Some(ISSUER.to_owned()), has_certificates: false };
    let certificates = crate::SignIns { issuer: None, has_certificates: true };
    let tokens = crate::SignIns::default();
    let is_decidable = |issuer: &str, subject: &str, rule| {
        let mut call = wanted(1, binding("a", rule));
        call.binding.caller.issuer = issuer.to_owned();
        call.binding.caller.subject = subject.to_owned();
        [&provider, &certificates, &tokens].map(|sign_ins| call.is_decidable(sign_ins))
    };
    assert_eq!(is_decidable(ISSUER, "ann", four_eyes()), [true, false, false]);
    assert_eq!(is_decidable(Principal::AGENTS, "clerk", four_eyes()), [true, true, false]);
    assert_eq!(is_decidable(Principal::AGENTS, "other", four_eyes()), [false; 3]);
    assert_eq!(is_decidable("gateway-certificate", "ann", four_eyes()), [false; 3]);
    assert_eq!(is_decidable("gateway-certificate", "ann", rule()), [true; 3]);
}

#[test]
fn account_without_its_person_approves_only_where_accounts_count() {
    let unnamed = Decider { lacks_person: true, principal: account("bob", None), ..decider("bob") };
    assert_eq!(refusal(four_eyes(), &unnamed), Some(Ineligible::Unnamed));
    assert_eq!(refusal(quorum(2), &unnamed), Some(Ineligible::Unnamed));
    assert_eq!(refusal(rule(), &unnamed), None);
}

#[test]
fn quorum_counts_people_once() {
    let first = approved(quorum(2));
    assert_eq!(first.state, State::Pending);
    let again = |decider: &Decider| decide(&first, decider, &APPROVE, at(2));
    assert_eq!(again(&decider("bob")), Err(DecideError::Repeated));
    let with = |principal| Decider { principal, ..decider("bob") };
    for (principal, reason) in [
        (account("bob-2", Some("bob")), Indistinct::Person),
        (account("bob-2", None), Indistinct::UnknownPerson),
        (Principal { issuer: "x".into(), ..account("eve", Some("eve")) }, Indistinct::Issuer),
    ] {
        let refused = Err(DecideError::Ineligible(Ineligible::Earlier(reason)));
        assert_eq!(again(&with(principal)), refused);
    }
    let token = Decider { sign_in: SignIn::Token, ..decider("eve") };
    assert_eq!(again(&token), Err(DecideError::Ineligible(Ineligible::Token)));
    assert_eq!(again(&decider("eve")).map(|request| request.state), Ok(State::Approved));
}

#[test]
fn request_of_several_policies_needs_all() {
    let finance = Approval { approvers: vec![Approver::Team("finance".into())], ..rule() };
    let mut call = binding("a", rule());
    call.demands.push(demand("treasury@1.0.0", finance));
    call.demands.push(demand("zone@1.0.0", confirmation()));
    let mut store = crate::MemoryApprovals::new();
    let request = store.open(wanted(1, call), at(0)).unwrap().value;
    let first = decide(&request, &decider("bob"), &APPROVE, at(1)).unwrap();
    assert_eq!(first.decisions[0].policies, ["payments@1.0.0"]);
    assert_eq!(
        decide(&first, &decider("dan"), &APPROVE, at(2)),
        Err(DecideError::Ineligible(Ineligible::NotSelected))
    );
    let member = Decider { team: Some("finance".into()), ..decider("eve") };
    let second = decide(&first, &member, &APPROVE, at(2)).unwrap();
    assert_eq!(second.state, State::Pending, "the confirmation is missing");
    let more = Decider { team: Some("finance".into()), ..decider("dan") };
    assert_eq!(decide(&second, &more, &APPROVE, at(2)), Err(DecideError::Met));
    let caller = account("caller", None);
    let third = second.confirm(&caller, at(3)).unwrap().unwrap().request;
    assert_eq!(third.state, State::Approved);
}

#[test]
fn ineligible_person_gets_the_reason_despite_met_demands() {
    let mut call = binding("a", four_eyes());
    call.demands.push(demand("zone@1.0.0", rule()));
    let request = crate::MemoryApprovals::new().open(wanted(1, call), at(0)).unwrap().value;
    let own = |subject| Decider { principal: account(subject, Some("ann")), ..decider("bob") };
    let first = decide(&request, &own("caller-2"), &APPROVE, at(1)).unwrap();
    assert_eq!(first.decisions[0].policies, ["zone@1.0.0"]);
    let refused = DecideError::Ineligible(Ineligible::Caller(Indistinct::Person));
    assert_eq!(decide(&first, &own("caller-3"), &APPROVE, at(2)), Err(refused));
}

#[test]
fn confirmation_accepts_only_the_caller() {
    let request = pending(confirmation());
    let refused = decide(&request, &decider("bob"), &APPROVE, at(1));
    assert_eq!(refused, Err(DecideError::ConfirmationOnly));
    let other = request.confirm(&account("bob", None), at(1));
    assert_eq!(other, Err(crate::ConfirmError::OtherCaller));
    let confirmed = request.confirm(&request.binding.caller, at(1)).unwrap().unwrap().request;
    assert_eq!(confirmed.state, State::Approved);
    assert_eq!(confirmed.confirm(&request.binding.caller, at(2)), Ok(None), "a repeated message");
    let undemanded = pending(rule()).confirm(&request.binding.caller, at(1));
    assert_eq!(undemanded, Err(crate::ConfirmError::NotDemanded));
}

#[test]
fn denial_needs_reason_and_starts_cool_down() {
    let request = pending(four_eyes());
    let owner = Decider { team: Some("owners".into()), ..decider("bob") };
    for unfit in [" ", "no\u{1b}[31m red"] {
        assert_eq!(decide(&request, &owner, &deny(unfit), at(1)), Err(DecideError::Reason));
    }
    let denied = decide(&request, &owner, &deny("wrong account"), at(1)).unwrap();
    assert_eq!(denied.state, State::Denied);
    assert!(denied.is_cooling_down(at(2)));
    assert!(!denied.is_cooling_down(after(at(1), COOL_DOWN)));
    assert_eq!(denied.cool_down_end(), after(at(1), COOL_DOWN));
}

#[test]
fn changed_definition_invalidates_at_decision() {
    let stale = Current { is_current: false, ..current() };
    let bob = decider("bob");
    let review =
        Review { decider: &bob, choice: &APPROVE, current: &stale, is_batch: false, grants: 0 };
    let changed = pending(rule()).decide(review, at(1)).unwrap();
    assert_eq!(changed.request.state, State::Invalid);
    assert!(changed.request.decisions.is_empty());
}

#[test]
fn expired_request_accepts_no_decision() {
    let short = Approval { expires_after: Some(std::time::Duration::from_mins(1)), ..rule() };
    let request = pending(short.clone());
    let late = decide(&request, &decider("bob"), &APPROVE, at(60));
    assert_eq!(late, Err(DecideError::NotPending(State::Expired)));
    let approved = decide(&request, &decider("bob"), &APPROVE, at(59)).unwrap();
    assert_eq!(approved.deadline, Some(at(119)), "the limit applies to the call too");
    assert_eq!(pending(rule()).state_at(hours(24 * 365)), State::Pending);
}

#[test]
fn batch_skips_requests_that_need_people() {
    let bob = decider("bob");
    let current = current();
    let denial = deny("no");
    let batch =
        |choice| Review { decider: &bob, choice, current: &current, is_batch: true, grants: 0 };
    for sensitive in [four_eyes(), quorum(2)] {
        let refused = pending(sensitive.clone()).decide(batch(&APPROVE), at(1));
        assert_eq!(refused, Err(DecideError::Sensitive));
        assert!(pending(sensitive).decide(batch(&denial), at(1)).is_ok());
    }
    assert!(pending(rule()).decide(batch(&APPROVE), at(1)).is_ok());
}

#[test]
fn request_is_visible_to_caller_and_approvers() {
    let finance = Approval { approvers: vec![Approver::Team("finance".into())], ..rule() };
    let request = pending(finance);
    let reader = Decider { is_approver: false, ..decider("bob") };
    let caller = Decider { principal: request.binding.caller.clone(), ..reader.clone() };
    let member = Decider { team: Some("finance".into()), ..decider("eve") };
    assert!(request.is_visible_to(&caller) && request.is_visible_to(&member));
    assert!(!request.is_visible_to(&reader) && !request.is_visible_to(&decider("bob")));
}

#[test]
fn standing_grant_needs_permission_and_end() {
    let wish =
        |until| Choice::Approve { standing: Some(StandingWish { scope: GrantScope::Tool, until }) };
    let bob = decider("bob");
    let refused = decide(&pending(rule()), &bob, &wish(hours(1)), at(1));
    assert_eq!(refused, Err(DecideError::NoStanding));
    let day = std::time::Duration::from_hours(24);
    let standing = || Approval { standing_for: Some(day), ..rule() };
    for until in [at(1), hours(25)] {
        let refused = decide(&pending(standing()), &bob, &wish(until), at(1));
        assert_eq!(refused, Err(DecideError::StandingEnd(after(at(1), day))));
    }
    let granted = decide(&pending(standing()), &bob, &wish(hours(20)), at(1)).unwrap();
    let grant = granted.standing_grant().unwrap();
    assert_eq!((grant.origin, grant.ends_at), (RequestId::new(1), hours(20)));
    assert!(grant.covers(&binding("b", standing()), hours(1)));
    assert!(!grant.covers(&binding("b", standing()), hours(20)));
    let newer = crate::Binding { version: "1.0.1".into(), ..binding("b", standing()) };
    assert!(!grant.covers(&newer, hours(1)));
}

#[test]
fn standing_grant_needs_all_approvers() {
    let day = std::time::Duration::from_hours(24);
    let standing = Approval { standing_for: Some(day), ..quorum(2) };
    let wish = |scope, until| Choice::Approve { standing: Some(StandingWish { scope, until }) };
    let first = pending(standing.clone());
    let first = decide(&first, &decider("bob"), &wish(GrantScope::Tool, hours(9)), at(1)).unwrap();
    assert_eq!(first.standing_grant(), None);
    let without = decide(&first, &decider("eve"), &APPROVE, at(2)).unwrap();
    assert_eq!((without.state, without.standing_grant()), (State::Approved, None));
    let narrow = wish(GrantScope::Arguments, hours(20));
    let grant = decide(&first, &decider("eve"), &narrow, at(2)).unwrap().standing_grant().unwrap();
    assert_eq!((grant.scope, grant.ends_at), (GrantScope::Arguments, hours(9)));
    assert!(grant.covers(&binding("a", standing.clone()), hours(1)));
    assert!(!grant.covers(&binding("b", standing), hours(1)));
}

#[test]
fn decision_in_store_is_audited() {
    let mut store = store(quorum(2));
    let (bob, current) = (decider("bob"), current());
    let review =
        Review { decider: &bob, choice: &APPROVE, current: &current, is_batch: false, grants: 0 };
    let recorded = store.decide(RequestId::new(1), review, at(1)).unwrap();
    let [step] = &recorded.transitions[..] else { panic!("{recorded:?}") };
    assert_eq!((step.from, step.to), (Some(State::Pending), State::Pending));
    assert!(matches!(&step.by, Actor::Decider { principal, .. } if *principal == bob.principal));
    assert_eq!(store.decide(RequestId::new(2), review, at(1)), Err(DecideError::NotFound));
}
