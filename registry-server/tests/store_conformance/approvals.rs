//! Requests for approvals of calls.

use std::{collections::BTreeSet, time::Duration};

use approval::{
    Attempt, Binding, Changed, Choice, Claim, ConsumeError, Current, DecideError, Decider, Demand,
    GrantScope, OpenError, Outcome, Principal, Request, RequestId, Review, Settlement, SignIn,
    StandingWish, State, Wanted,
    limits::{OPEN_PER_CALLER, STORED, STORED_PER_CALLER},
};
use futures_util::future::join_all;
use registry_core::{Digest, Timestamp, entity::policy::Approval};
use registry_server::store::{
    ApprovalContext, ApprovalQuery, DecisionEvent, GenerationCause, GrantQuery, LedgerFailure,
    SeenState, Store,
};

use crate::{Fixture, tokens::event};

const APPROVE: Choice = Choice::Approve { standing: None };

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

/// The conditions of a server that has just started.
pub(crate) fn context(now: Timestamp) -> ApprovalContext {
    ApprovalContext { seen: SeenState { generation: 0, counter: 0 }, now }
}

fn account(subject: &str) -> Principal {
    Principal { issuer: "registry".into(), subject: subject.into(), person: None }
}

pub(crate) fn wanted(id: u128, arguments: &str) -> Wanted {
    let rule = Approval {
        expires_after: Some(Duration::from_hours(1)),
        standing_for: Some(Duration::from_hours(1)),
        ..Approval::default()
    };
    let digest = Digest::compute(b"payments");
    Wanted {
        id: RequestId::new(id),
        binding: Binding {
            caller: account("caller"),
            agent: Some("clerk".into()),
            resource: "tool/pay".into(),
            version: "1.0.0".into(),
            definition: Digest::compute(b"pay"),
            arguments: Digest::compute(arguments.as_bytes()),
            demands: vec![Demand { policy: "payments@1.0.0".into(), digest, rule }],
        },
        owners: BTreeSet::new(),
        preview: "{}".into(),
    }
}

async fn open(store: &Store, id: u128, arguments: &str, now: Timestamp) -> Request {
    store.open_approval(&wanted(id, arguments), context(now)).await.unwrap().unwrap().value
}

async fn decide(store: &Store, id: RequestId, choice: &Choice, now: Timestamp) -> Request {
    let decider = Decider {
        principal: account("bob"),
        team: None,
        is_approver: true,
        sign_in: SignIn::Token,
        lacks_person: false,
    };
    let current = Current { owners: BTreeSet::new(), is_current: true };
    let change = |request: &Request, grants| {
        let review =
            Review { decider: &decider, choice, current: &current, is_batch: false, grants };
        Ok::<_, DecideError>(Some(request.decide(review, now)?))
    };
    let what = event(0);
    let event = Some(DecisionEvent { kind: "approval-approved", what: &what });
    store.change_approval(id, context(now), event, change).await.unwrap().unwrap().unwrap().value
}

/// Consumes a round. Returns the refusal.
async fn consume(
    store: &Store,
    request: &Request,
    attempt: u128,
    now: Timestamp,
) -> Option<ConsumeError> {
    let claim = Claim {
        request: request.id,
        key: request.key(),
        round: 0,
        attempt: Attempt::new(attempt),
        within: Duration::from_mins(1),
    };
    let change = |request: &Request, _| request.consume("gateway", &claim, now);
    store.change_approval(request.id, context(now), None, change).await.unwrap().unwrap().err()
}

async fn approved(store: &Store) -> Request {
    let request = open(store, 1, "a", at(0)).await;
    decide(store, request.id, &APPROVE, at(1)).await
}

/// Many gateways consume one approval at the same time.
pub(crate) async fn approval_is_consumed_once(fixture: &Fixture) {
    let store = fixture.open().await;
    let request = approved(&store).await;
    let attempts = (0..16).map(|attempt| consume(&store, &request, attempt, at(2)));
    let refusals: Vec<_> = join_all(attempts).await.into_iter().flatten().collect();
    assert_eq!(refusals, [ConsumeError::Used; 15]);
    assert_eq!(fixture.number("SELECT count(*) FROM approval_rounds").await, 1);
    let steps = store.approval_steps(request.id).await.unwrap();
    let states: Vec<_> = steps.iter().map(|step| step.to).collect();
    assert_eq!(states, [State::Pending, State::Approved, State::Consumed]);
}

/// A wait for the locked head would fail.
pub(crate) async fn refused_decision_does_not_wait_for_commit(fixture: &Fixture) {
    let store = fixture.open().await;
    let request = open(&store, 1, "a", at(0)).await;
    let committing = store.lock_head().await.unwrap();
    let refuse = |_: &Request, _| Err::<Option<Changed>, _>("not eligible");
    let what = event(0);
    let event = Some(DecisionEvent { kind: "approval-denied", what: &what });
    let refused = store.change_approval(request.id, context(at(1)), event, refuse).await;
    assert_eq!(refused.unwrap().unwrap().err(), Some("not eligible"));
    drop(committing);
}

/// Many clients of one caller repeat one call at the same time.
pub(crate) async fn concurrent_calls_share_one_request(fixture: &Fixture) {
    let store = fixture.open().await;
    let calls = (1..=16).map(|id| open(&store, id, "a", at(0)));
    let ids: BTreeSet<_> = join_all(calls).await.into_iter().map(|request| request.id).collect();
    assert_eq!(ids.len(), 1);
    let query = ApprovalQuery { state: Some(State::Pending), caller: None, after: None, limit: 9 };
    let listed = store.approvals(query).await.unwrap();
    assert_eq!(listed.iter().map(|request| request.id).collect::<BTreeSet<_>>(), ids);
}

pub(crate) async fn flood_of_one_caller_is_bounded(fixture: &Fixture) {
    let store = fixture.open().await;
    let calls: Vec<_> = (0..40).map(|id| wanted(id, &id.to_string())).collect();
    let opened = join_all(calls.iter().map(|call| store.open_approval(call, context(at(0))))).await;
    let refused = opened.into_iter().filter_map(|opened| opened.unwrap().err());
    let refused: Vec<_> = refused.collect();
    assert_eq!(refused, [OpenError::TooManyOpen; 20]);
    let stored = fixture.number("SELECT count(*) FROM approval_requests").await;
    assert_eq!(usize::try_from(stored), Ok(OPEN_PER_CALLER));
}

pub(crate) async fn standing_grant_approves_until_its_end(fixture: &Fixture) {
    let store = fixture.open().await;
    let first = open(&store, 1, "a", at(0)).await;
    let wish = StandingWish { scope: GrantScope::Tool, until: at(600) };
    decide(&store, first.id, &Choice::Approve { standing: Some(wish) }, at(0)).await;
    assert_eq!(store.standing_grants(&account("caller")).await.unwrap().len(), 1);
    let listed = async |after, now| {
        let query = GrantQuery { after, now, limit: 9 };
        store.all_grants(query).await.unwrap().len()
    };
    assert_eq!(listed(None, at(1)).await, 1);
    assert_eq!((listed(Some(first.id), at(1)).await, listed(None, at(600)).await), (0, 0));
    let granted = open(&store, 2, "b", at(1)).await;
    assert_eq!((granted.state, granted.granted_by), (State::Approved, Some(first.id)));
    assert_eq!(open(&store, 3, "c", at(600)).await.state, State::Pending);
    let grant = store.standing_grant(first.id).await.unwrap().unwrap();
    let (unused, bob) = (open(&store, 5, "e", at(2)).await, account("bob"));
    assert_eq!(unused.state, State::Approved);
    let revoke =
        async || store.revoke_grant(&grant, &bob, &event(2), context(at(2))).await.unwrap();
    let steps = revoke().await.unwrap();
    assert_eq!(revoke().await, None, "only the first revocation is recorded");
    assert_eq!(steps.iter().map(|step| step.request).collect::<Vec<_>>(), [unused.id]);
    let refusal = consume(&store, &unused, 1, at(2)).await;
    assert!(refusal.is_some(), "the unused approval is cancelled");
    let trail = store.access_events(0, 9).await.unwrap();
    let id = first.id.to_string();
    let recorded: Vec<_> = trail.iter().map(|event| (&*event.event, &event.subject)).collect();
    assert_eq!(recorded, [("approval-approved", &id), ("approval-grant-revoked", &id)]);
    assert_eq!(store.standing_grant(first.id).await.unwrap(), None);
    assert_eq!(open(&store, 4, "d", at(2)).await.state, State::Pending);
}

/// With another key of arguments, a grant would not find calls with an unknown outcome.
pub(crate) async fn replaced_key_ends_grants(fixture: &Fixture) {
    let store = fixture.open().await;
    let first = open(&store, 1, "a", at(0)).await;
    grant_until(&store, 1, at(0), at(600)).await;
    store.replace_checkpoint_key("another key", &event(1)).await.unwrap();
    assert_eq!(store.standing_grant(first.id).await.unwrap(), None);
    assert_eq!(open(&store, 2, "b", at(1)).await.state, State::Pending);
}

pub(crate) async fn time_ends_and_erases_requests(fixture: &Fixture) {
    let store = fixture.open().await;
    let request = approved(&store).await;
    let waiting = open(&store, 2, "b", at(0)).await;
    assert_eq!(consume(&store, &request, 1, at(2)).await, None);
    let hour = at(3_600);
    let ended = store.advance_approvals(context(hour)).await.unwrap();
    let states: BTreeSet<_> = ended.iter().map(|step| step.to).collect();
    assert_eq!(states, BTreeSet::from([State::Unknown, State::Expired]));
    let late =
        Settlement { request: request.id, attempt: Attempt::new(1), outcome: Outcome::Succeeded };
    let change = |request: &Request, _| request.settle("gateway", &late, hour);
    assert!(
        store
            .change_approval(request.id, context(hour), None, change)
            .await
            .unwrap()
            .unwrap()
            .is_err()
    );
    let stored = store.approval(waiting.id).await.unwrap().unwrap();
    assert_eq!((stored.state, stored.preview.as_deref()), (State::Expired, Some("{}")));
    store.advance_approvals(context(at(3_600 + 86_400))).await.unwrap();
    assert_eq!(store.approval(waiting.id).await.unwrap().unwrap().preview, None);
    store.advance_approvals(context(at(3_600 + 31 * 86_400))).await.unwrap();
    assert_eq!(fixture.number("SELECT count(*) FROM approval_steps").await, 0);
    assert_eq!(store.approval(request.id).await.unwrap(), None);
}

/// Leaves a call with an unknown outcome, and an hour later an expired request.
pub(crate) async fn left_unknown(store: &Store) -> Request {
    let request = approved(store).await;
    open(store, 2, "b", at(0)).await;
    assert_eq!(consume(store, &request, 1, at(2)).await, None);
    store.advance_approvals(context(at(3_600))).await.unwrap();
    request
}

/// SQL that copies a request. `caller` is the expression of the callers.
fn copies(source: u128, numbers: std::ops::Range<u32>, caller: &str) -> String {
    let (start, end, source) = (numbers.start, numbers.end, RequestId::new(source));
    format!(
        "WITH RECURSIVE flood (number) AS
             (SELECT {start} UNION ALL SELECT number + 1 FROM flood WHERE number + 1 < {end})
         INSERT INTO approval_requests
             (id, caller, call_key, state, revision, generation, due_at, ended_at, room_at, document,
              preview)
         SELECT copy, {caller}, call_key, state, revision, generation, due_at, ended_at, room_at,
                replace(document, id, copy), preview
         FROM (SELECT approval_requests.*, number,
                      '00000000000000000000000000' || CAST(number AS text) AS copy
               FROM approval_requests, flood WHERE id = '{source}') AS copies"
    )
}

async fn refusal(store: &Store, id: u128, now: Timestamp) -> Option<OpenError> {
    let call = wanted(id, &id.to_string());
    store.open_approval(&call, context(now)).await.unwrap().err()
}

async fn grant_until(store: &Store, origin: u128, now: Timestamp, until: Timestamp) {
    let wish = StandingWish { scope: GrantScope::Tool, until };
    let choice = Choice::Approve { standing: Some(wish) };
    decide(store, RequestId::new(origin), &choice, now).await;
}

pub(crate) async fn unknown_outcomes_stay_while_grant_could_repeat_them(fixture: &Fixture) {
    let store = fixture.open().await;
    let lost = left_unknown(&store).await;
    fixture.execute(&copies(1, 100_000..100_198, "caller")).await;
    let now = at(3_601);
    assert_eq!((refusal(&store, 3, now).await, refusal(&store, 4, now).await), (None, None));
    assert_eq!(store.approval(lost.id).await.unwrap(), None);
    let stored = fixture.number("SELECT count(*) FROM approval_requests").await;
    assert_eq!(usize::try_from(stored), Ok(STORED_PER_CALLER));
    grant_until(&store, 3, now, at(7_000)).await;
    assert_eq!(refusal(&store, 5, now).await, Some(OpenError::TooManyStored));
    let grant = store.standing_grant(RequestId::new(3)).await.unwrap().unwrap();
    store.revoke_grant(&grant, &account("bob"), &event(0), context(now)).await.unwrap();
    assert_eq!(refusal(&store, 5, now).await, None);
}

pub(crate) async fn unknown_outcomes_do_not_fill_store(fixture: &Fixture) {
    let store = fixture.open().await;
    left_unknown(&store).await;
    fixture.execute(&copies(1, 100_000..109_998, "CAST(number / 200 AS text)")).await;
    let now = at(3_601);
    assert_eq!((refusal(&store, 3, now).await, refusal(&store, 4, now).await), (None, None));
    let stored = fixture.number("SELECT count(*) FROM approval_requests").await;
    assert_eq!(usize::try_from(stored), Ok(STORED));
    grant_until(&store, 3, now, at(7_000)).await;
    let grants = "INSERT INTO approval_grants (origin, caller, generation, ends_at, document)
                  SELECT lost.id, lost.caller, held.generation, held.ends_at, held.document
                  FROM approval_requests AS lost, approval_grants AS held
                  WHERE lost.state = 'unknown'";
    fixture.execute(grants).await;
    assert_eq!(refusal(&store, 5, now).await, Some(OpenError::Full));
}

/// Later requests displace ended ones, but not a call that may have been executed.
pub(crate) async fn unknown_outcome_outlives_later_requests(fixture: &Fixture) {
    let store = fixture.open().await;
    let request = left_unknown(&store).await;
    fixture.execute(&copies(2, 100_000..100_300, "caller")).await;
    open(&store, 3, "c", at(3_601)).await;
    let stored = fixture.number("SELECT count(*) FROM approval_requests").await;
    assert_eq!(usize::try_from(stored), Ok(STORED_PER_CALLER));
    let again = open(&store, 4, "a", at(3_602)).await;
    assert_eq!((again.state, again.uncertain), (State::Pending, Some(request.id)));
}

/// A call whose time limit is over can be requested before the sweep.
pub(crate) async fn expired_request_makes_way(fixture: &Fixture) {
    let store = fixture.open().await;
    open(&store, 1, "a", at(0)).await;
    let next = open(&store, 2, "a", at(3_600)).await;
    assert_eq!((next.id, next.state), (RequestId::new(2), State::Pending));
}

/// A restored backup may lack the consumption of an approval.
pub(crate) async fn restored_database_ends_requests_and_grants(fixture: &Fixture) {
    let store = fixture.open().await;
    let wish = StandingWish { scope: GrantScope::Tool, until: at(600) };
    let granted = open(&store, 9, "granted", at(0)).await;
    decide(&store, granted.id, &Choice::Approve { standing: Some(wish) }, at(0)).await;
    let request = open(&store, 1, "a", at(0)).await;
    assert_eq!(request.state, State::Approved);
    let restored =
        store.start_generation(GenerationCause::Restored(&event(1)), at(1)).await.unwrap();
    let refused = consume(&store, &request, 1, at(2)).await;
    assert_eq!(refused, Some(ConsumeError::NotApproved(State::Invalid)));
    let swept = store.advance_approvals(context(at(2))).await.unwrap();
    assert_eq!(swept.iter().map(|step| step.request).collect::<Vec<_>>(), [granted.id]);
    assert_eq!(open(&store, 2, "a", at(2)).await.state, State::Pending, "the grant has ended");
    let newer = SeenState { generation: restored.generation + 1, ..restored };
    let context = ApprovalContext { seen: newer, now: at(3) };
    let lost = store.open_approval(&wanted(3, "b"), context).await;
    assert!(matches!(lost, Err(LedgerFailure::Lost)), "{lost:?}");
}
