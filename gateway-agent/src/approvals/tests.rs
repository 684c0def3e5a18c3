//! The approvals of a gateway, with a file and with an unreachable store.

use std::{
    collections::BTreeSet,
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use approval::{
    ApprovalFuture, Approvals, ApprovalsError, ArgumentsKey, Binding, CancelError, Choice, Claim,
    ConfirmError, ConsumeError, Demand, OpenError, Outcome, Principal, RequestId, RequestStatus,
    SettleError, Settlement, State, StoreFuture, Wanted,
};
use registry_core::{
    Digest,
    entity::policy::{Approval, Approver},
};
use tokio::time::{Instant, sleep, timeout};

use super::{ApprovedRound, CallApprovals, LocalApprovals, NoApproval};
use crate::spending::SpendingClock;

const APPROVE: Choice = Choice::Approve { standing: None };

fn wanted(id: u128, arguments: &str) -> Wanted {
    let rule = Approval::default();
    let caller = Principal { issuer: "i".to_owned(), subject: "s".to_owned(), person: None };
    let digest = Digest::compute(b"policy");
    let binding = Binding {
        caller,
        agent: None,
        resource: "tool/pay".to_owned(),
        version: "1.0.0".to_owned(),
        definition: Digest::compute(b"definition"),
        arguments: Digest::compute(arguments.as_bytes()),
        demands: vec![Demand { policy: "p@1.0.0".to_owned(), digest, rule }],
    };
    let (owners, preview) = (BTreeSet::new(), "{}".to_owned());
    Wanted { id: RequestId::new(id), binding, owners, preview }
}

fn round(wanted: &Wanted, round: u32) -> ApprovedRound {
    let (request, key) = (wanted.id, wanted.binding.key());
    ApprovedRound { request, key, round, within: Duration::from_mins(1) }
}

/// A directory with the file of one gateway at a time.
struct Disk {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Disk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data/proposals.json");
        Self { _dir: dir, path }
    }

    fn open(&self) -> Arc<LocalApprovals> {
        let clock = SpendingClock::Paused { start: Instant::now() };
        Arc::new(LocalApprovals::open(&self.path, [7; 32], clock).unwrap())
    }
}

fn gate(store: &Arc<LocalApprovals>) -> Arc<CallApprovals> {
    CallApprovals::new(Arc::clone(store) as Arc<dyn Approvals>, "gateway")
}

async fn states(store: &LocalApprovals) -> Vec<State> {
    store.list().await.into_iter().map(|(_, status)| status.state).collect()
}

#[tokio::test]
async fn file_keeps_requests_and_decisions() {
    let (disk, wanted) = (Disk::new(), wanted(1, "a"));
    let store = disk.open();
    assert!(!disk.path.exists(), "nothing is written before the first request");
    assert_eq!(gate(&store).open(&wanted).await.unwrap().state, State::Pending);
    drop(store);
    let store = disk.open();
    store.decide(wanted.id, &APPROVE).await.unwrap();
    drop(store);
    let store = disk.open();
    assert_eq!(gate(&store).open(&wanted).await.unwrap().state, State::Approved);
}

#[tokio::test]
async fn crash_after_consumption_leaves_unknown_outcome() {
    let (disk, wanted) = (Disk::new(), wanted(1, "a"));
    let store = disk.open();
    let calls = gate(&store);
    calls.open(&wanted).await.unwrap();
    store.decide(wanted.id, &APPROVE).await.unwrap();
    // A crash reports nothing.
    std::mem::forget(calls.consume(round(&wanted, 0)).await.unwrap());
    let crashed = fs::read(&disk.path).unwrap();
    let other = Disk::new();
    fs::create_dir_all(other.path.parent().unwrap()).unwrap();
    fs::write(&other.path, crashed).unwrap();
    let store = other.open();
    assert_eq!(states(&store).await, [State::Unknown]);
    let again = self::wanted(2, "a");
    let status = gate(&store).open(&again).await.unwrap();
    assert_eq!((status.state, status.uncertain), (State::Pending, Some(wanted.id)));
    assert!(gate(&store).consume(round(&wanted, 0)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn arguments_are_erased_after_the_end_without_calls() {
    let disk = Disk::new();
    let wanted = Wanted { preview: r#"{"to":"secret"}"#.to_owned(), ..wanted(1, "a") };
    let store = disk.open();
    gate(&store).open(&wanted).await.unwrap();
    store.decide(wanted.id, &Choice::Deny { reason: "no".to_owned() }).await.unwrap();
    assert!(fs::read_to_string(&disk.path).unwrap().contains("secret"));
    timeout(Duration::from_hours(25), store.sweep()).await.unwrap_err();
    assert_eq!(store.list().await[0].0.preview, None);
    assert!(!fs::read_to_string(&disk.path).unwrap().contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn sweep_creates_no_file() {
    let disk = Disk::new();
    timeout(Duration::from_hours(1), disk.open().sweep()).await.unwrap_err();
    assert!(!disk.path.parent().unwrap().exists());
}

#[tokio::test]
async fn damaged_file_is_named_and_kept() {
    let disk = Disk::new();
    fs::create_dir_all(disk.path.parent().unwrap()).unwrap();
    fs::write(&disk.path, "{").unwrap();
    let clock = SpendingClock::System;
    assert!(LocalApprovals::open(&disk.path, [7; 32], clock).is_err());
    assert_eq!(fs::read(&disk.path).unwrap(), b"{");
}

#[tokio::test]
async fn call_that_operator_cannot_approve_is_rejected() {
    let store = Disk::new().open();
    let mut wanted = wanted(1, "a");
    wanted.binding.demands[0].rule.approvers = vec![Approver::Team("finance".into())];
    let refused = gate(&store).open(&wanted).await.unwrap_err();
    insta::assert_snapshot!(refused, @"approvals are unavailable: policy/p@1.0.0 demands approvers that a gateway without a registry does not have: `team:NAME`, a quorum above one and `fourEyes` need a registry");
    assert!(states(&store).await.is_empty(), "nothing waits");
}

#[tokio::test]
async fn second_gateway_cannot_use_the_file() {
    let disk = Disk::new();
    let (first, second) = (disk.open(), disk.open());
    gate(&first).open(&wanted(1, "a")).await.unwrap();
    let refused = gate(&second).open(&wanted(2, "b")).await;
    assert_eq!(refused, Err(NoApproval::Unavailable));
}

#[tokio::test]
async fn store_without_people_opens_confirmations_only() {
    let confirmation = || {
        let mut wanted = wanted(1, "a");
        wanted.binding.demands[0].rule.approvers = vec![Approver::Caller];
        wanted
    };
    let store = Arc::new(LocalApprovals::of_confirmations([7; 32], SpendingClock::System));
    let calls = gate(&store);
    let mut mixed = confirmation();
    let policy = "q@1.0.0".to_owned();
    mixed.binding.demands.push(Demand { policy, ..wanted(1, "a").binding.demands[0].clone() });
    for refused in [wanted(1, "a"), mixed] {
        let refused = calls.open(&refused).await;
        assert!(matches!(refused, Err(NoApproval::Refused(_))));
    }
    assert!(states(&store).await.is_empty(), "nothing waits for people");
    let wanted = confirmation();
    calls.open(&wanted).await.unwrap();
    let confirmed = calls.confirm(wanted.id, &wanted.binding.caller).await.unwrap();
    assert_eq!(confirmed.state, State::Approved);
    calls.consume(round(&wanted, 0)).await.unwrap().settle(Outcome::Succeeded);
    calls.shutdown().await;
    assert_eq!(states(&store).await, [State::Succeeded]);
}

#[tokio::test]
async fn dropped_round_reports_by_its_progress() {
    let disk = Disk::new();
    let store = disk.open();
    let calls = gate(&store);
    let endings: [fn(super::ConsumedRound); 4] = [
        drop,
        |mut sent| {
            sent.set_sent();
            drop(sent);
        },
        |mut sent| {
            sent.set_sent();
            sent.settle(Outcome::Succeeded);
        },
        |unsent| unsent.settle(Outcome::Failed),
    ];
    for (number, end) in (1..).zip(endings) {
        let wanted = wanted(number, &number.to_string());
        calls.open(&wanted).await.unwrap();
        store.decide(wanted.id, &APPROVE).await.unwrap();
        end(calls.consume(round(&wanted, 0)).await.unwrap());
    }
    calls.shutdown().await;
    let expected = [State::Failed, State::Unknown, State::Succeeded, State::Failed];
    assert_eq!(states(&store).await, expected);
}

#[tokio::test]
async fn next_round_is_accepted_once() {
    let (disk, wanted) = (Disk::new(), wanted(1, "a"));
    let store = disk.open();
    let calls = gate(&store);
    calls.open(&wanted).await.unwrap();
    store.decide(wanted.id, &APPROVE).await.unwrap();
    calls.consume(round(&wanted, 0)).await.unwrap().await_input().await;
    assert!(calls.consume(round(&wanted, 0)).await.is_err());
    assert!(calls.consume(round(&wanted, 2)).await.is_err());
    let second = calls.consume(round(&wanted, 1)).await.unwrap();
    assert!(calls.consume(round(&wanted, 1)).await.is_err());
    second.settle(Outcome::Succeeded);
    calls.shutdown().await;
    assert_eq!(states(&store).await, [State::Succeeded]);
}

/// A store that can be unreachable.
#[derive(Debug, Default)]
struct Unreachable {
    is_reachable: AtomicBool,
    settled: Mutex<Vec<Outcome>>,
}

impl Unreachable {
    fn answer<T, E>(&self, answer: T) -> Result<Result<T, E>, ApprovalsError> {
        if self.is_reachable.load(Ordering::Relaxed) {
            Ok(Ok(answer))
        } else {
            Err(ApprovalsError::Unavailable("down".to_owned()))
        }
    }
}

impl Approvals for Unreachable {
    fn arguments_key(&self) -> StoreFuture<'_, ArgumentsKey> {
        Box::pin(async { Err(ApprovalsError::Unavailable("down".to_owned())) })
    }

    fn open<'a>(
        &'a self,
        _gateway: &'a str,
        _wanted: &'a Wanted,
    ) -> ApprovalFuture<'a, RequestStatus, OpenError> {
        // It never answers.
        Box::pin(std::future::pending())
    }

    fn confirm<'a>(
        &'a self,
        _gateway: &'a str,
        _request: RequestId,
        _caller: &'a Principal,
    ) -> ApprovalFuture<'a, RequestStatus, ConfirmError> {
        Box::pin(async { Ok(Err(ConfirmError::NotFound)) })
    }

    fn cancel<'a>(
        &'a self,
        _gateway: &'a str,
        _request: RequestId,
        _caller: &'a Principal,
    ) -> ApprovalFuture<'a, RequestStatus, CancelError> {
        Box::pin(async { Ok(Err(CancelError::NotFound)) })
    }

    fn consume<'a>(
        &'a self,
        _gateway: &'a str,
        _claim: &'a Claim,
    ) -> ApprovalFuture<'a, (), ConsumeError> {
        Box::pin(async { self.answer(()) })
    }

    fn settle<'a>(
        &'a self,
        _gateway: &'a str,
        settlement: &'a Settlement,
    ) -> ApprovalFuture<'a, (), SettleError> {
        Box::pin(async {
            let answer = self.answer(());
            if answer.is_ok() {
                self.settled.lock().unwrap().push(settlement.outcome);
            }
            answer
        })
    }
}

#[tokio::test(start_paused = true)]
async fn unreachable_store_approves_nothing_in_bounded_time() {
    let calls = CallApprovals::new(Arc::new(Unreachable::default()), "gateway");
    let start = Instant::now();
    let refused = calls.open(&wanted(1, "a")).await.unwrap_err();
    insta::assert_snapshot!(refused, @"approvals are unavailable at the moment; retry later");
    assert!(start.elapsed() <= Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn lost_claim_is_reported_as_failed_later() {
    let store = Arc::new(Unreachable::default());
    let calls = CallApprovals::new(Arc::clone(&store) as Arc<dyn Approvals>, "gateway");
    assert!(calls.consume(round(&wanted(1, "a"), 0)).await.is_err());
    sleep(Duration::from_mins(10)).await;
    assert!(store.settled.lock().unwrap().is_empty());
    store.is_reachable.store(true, Ordering::Relaxed);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(*store.settled.lock().unwrap(), [Outcome::Failed]);
}
