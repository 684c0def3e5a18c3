//! The approvals of a gateway without a registry: in memory, and in a file.

use std::{
    collections::BTreeSet,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use approval::{
    ApprovalFuture, Approvals, ApprovalsError, ArgumentsKey, CancelError, Canceller, Choice, Claim,
    ConfirmError, ConsumeError, Current, DecideError, Decider, MemoryApprovals, OpenError, Outcome,
    Principal, Recorded, Request, RequestId, RequestStatus, Review, SettleError, Settlement,
    SignIn, StoreFuture, Transition, Wanted,
};
use atomic_file::{Access, parent_directory, with_suffix};
use registry_core::Timestamp;
use tokio::{sync::Mutex, task::spawn_blocking, time::sleep};

use super::metric;
use crate::spending::SpendingClock;

/// The issuer of the people that use the admin listener.
const ADMIN: &str = "gateway-admin";

/// Time between two checks of the time limits.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// Why a call that people must approve is rejected, and the remedy.
const NO_OPERATOR: &str = "people must decide about this call, and this gateway has no admin address \
                           (`admin`), as every gateway over stdio; start a gateway with one as a \
                           service, and connect with `stdio --gateway URL`";

/// The approvals of this gateway alone.
#[derive(Debug)]
pub struct LocalApprovals {
    /// `None`: only confirmations by callers, in memory. They are used within their calls.
    path: Option<PathBuf>,
    key: ArgumentsKey,
    clock: SpendingClock,
    /// `None`: the file was not needed yet. A write keeps the mutex to its end, also if the call that
    /// needs it has ended.
    stored: Arc<Mutex<Option<StoredApprovals>>>,
}

/// The approvals, and the lock of their file. Another gateway that wrote it could lose consumptions.
#[derive(Debug, Default)]
struct StoredApprovals {
    approvals: MemoryApprovals,
    /// `None`: they are in memory only.
    _lock: Option<File>,
}

/// A decision of the operator is rejected.
#[derive(Debug, thiserror::Error)]
pub enum InvalidDecision {
    /// The decision is not permitted.
    #[error(transparent)]
    Rejected(#[from] DecideError),
    /// The file cannot be written.
    #[error(transparent)]
    Store(#[from] ApprovalsError),
}

impl LocalApprovals {
    /// Uses a file. One that cannot be read is an error: without it, used approvals are unknown. `key`
    /// is the key of the digests of arguments.
    pub fn open(path: &Path, key: [u8; 32], clock: SpendingClock) -> io::Result<Self> {
        let path = path.to_owned();
        let stored =
            if path.try_exists()? { Some(StoredApprovals::open(&path, clock)?) } else { None };
        let (key, stored) = (ArgumentsKey::new(&key), Arc::new(Mutex::new(stored)));
        Ok(Self { path: Some(path), key, clock, stored })
    }

    /// Approves what callers confirm, and rejects calls that people must decide about.
    pub fn of_confirmations(key: [u8; 32], clock: SpendingClock) -> Self {
        let stored = Arc::new(Mutex::new(Some(StoredApprovals::default())));
        Self { path: None, key: ArgumentsKey::new(&key), clock, stored }
    }

    /// All requests with their states now, in the order of their ids.
    pub async fn list(&self) -> Vec<(Request, RequestStatus)> {
        let (stored, now) = (self.stored.lock().await, self.clock.wall());
        let of_request = |request: &Request| (request.clone(), request.status_at(now));
        stored.iter().flat_map(|stored| stored.approvals.requests()).map(of_request).collect()
    }

    /// Records time limits that are over, erases old previews, and deletes old requests, until it is
    /// dropped.
    pub(crate) async fn sweep(&self) {
        loop {
            // A file that no request needed is not created.
            let is_open = self.stored.lock().await.is_some();
            if is_open && let Err(error) = self.change(|_, _| ((), Vec::new())).await {
                tracing::warn!(%error, "cannot end approvals whose time is over, retrying");
            }
            sleep(SWEEP_INTERVAL).await;
        }
    }

    /// Records the decision of the operator.
    pub async fn decide(
        &self,
        id: RequestId,
        choice: &Choice,
    ) -> Result<RequestStatus, InvalidDecision> {
        // A repeated call whose tool or policy has changed has another key, so that a decision about
        // an outdated one is harmless.
        let current = Current { owners: BTreeSet::new(), is_current: true };
        let subject = "operator".to_owned();
        let decider = Decider {
            principal: Principal { issuer: ADMIN.to_owned(), subject, person: None },
            team: None,
            is_approver: true,
            sign_in: SignIn::Token,
            lacks_person: false,
        };
        let review =
            Review { decider: &decider, choice, current: &current, is_batch: false, grants: 0 };
        let status =
            self.change(|approvals, now| status_of(approvals.decide(id, review, now), now));
        Ok(status.await??)
    }

    /// Changes the requests, and writes the file before the answer.
    async fn change<T>(
        &self,
        change: impl FnOnce(&mut MemoryApprovals, Timestamp) -> (T, Vec<Transition>),
    ) -> Result<T, ApprovalsError> {
        let unavailable = |e: io::Error| {
            let path = self.path.as_deref().unwrap_or(Path::new("the approvals")).display();
            ApprovalsError::Unavailable(format!("cannot open or write {path}: {e}"))
        };
        let mut stored = Arc::clone(&self.stored).lock_owned().await;
        let opened = match (stored.take(), &self.path) {
            (Some(opened), _) => opened,
            (None, Some(path)) => StoredApprovals::open(path, self.clock).map_err(unavailable)?,
            (None, None) => StoredApprovals::default(),
        };
        let current = stored.insert(opened);
        let now = self.clock.wall();
        // A failed write changes nothing.
        let mut changed = current.approvals.clone();
        let mut transitions = changed.advance(now);
        let (answer, made) = change(&mut changed, now);
        transitions.extend(made);
        if changed == current.approvals {
            return Ok(answer);
        }
        let path = self.path.clone();
        let write = move || -> io::Result<()> {
            if let Some(path) = &path {
                save(path, &changed)?;
            }
            transitions.iter().for_each(metric::audit);
            if let Some(stored) = &mut *stored {
                stored.approvals = changed;
            }
            Ok(())
        };
        let written = spawn_blocking(write).await.map_err(io::Error::other).flatten();
        written.map(|()| answer).map_err(unavailable)
    }
}

fn save(path: &Path, approvals: &MemoryApprovals) -> io::Result<()> {
    let bytes = serde_json::to_vec(approvals).map_err(io::Error::other)?;
    atomic_file::replace(path, &bytes, Access::OwnerOnly)
}

impl StoredApprovals {
    fn open(path: &Path, clock: SpendingClock) -> io::Result<Self> {
        fs::create_dir_all(parent_directory(path))?;
        let lock = with_suffix(path, ".lock");
        let lock = File::options().create(true).truncate(false).write(true).open(lock)?;
        lock.try_lock().map_err(|e| match e {
            TryLockError::WouldBlock => {
                io::Error::other("another gateway uses the file; use another directory")
            }
            TryLockError::Error(e) => e,
        })?;
        let mut approvals = match fs::read(path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| damaged(&e))?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => MemoryApprovals::new(),
            Err(e) => return Err(e),
        };
        if end_interrupted(&mut approvals, clock.wall()) {
            save(path, &approvals)?;
        }
        Ok(Self { approvals, _lock: Some(lock) })
    }
}

/// Ends the calls that a crash interrupted. Returns whether there are any.
fn end_interrupted(approvals: &mut MemoryApprovals, now: Timestamp) -> bool {
    let interrupted = |request: &Request| {
        let last = request.uses.last().filter(|last| last.outcome.is_none())?;
        let (request, outcome) = (request.id, Outcome::Unknown);
        Some((last.gateway.clone(), Settlement { request, attempt: last.attempt, outcome }))
    };
    let interrupted: Vec<_> = approvals.requests().filter_map(interrupted).collect();
    let ended = interrupted.into_iter().flat_map(|(gateway, settlement)| {
        // A call whose time for the outcome is over has ended already.
        approvals.settle(&gateway, &settlement, now).unwrap_or_default()
    });
    let ended: Vec<_> = ended.collect();
    ended.iter().for_each(metric::audit);
    !ended.is_empty()
}

fn damaged(error: &serde_json::Error) -> io::Error {
    let reason = format!(
        "the file is damaged: {error}; restore it, or move it away, after which approved calls must be \
         requested again and used approvals are unknown"
    );
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

/// Rejects a call without possible approvers, which would wait until it expires.
fn decidable(wanted: &Wanted, has_operator: bool) -> Result<(), ApprovalsError> {
    let demands = &wanted.binding.demands;
    if !has_operator && demands.iter().any(|demand| !demand.rule.is_confirmation()) {
        return Err(ApprovalsError::Undecidable(NO_OPERATOR.to_owned()));
    }
    let Some(demand) = demands.iter().find(|demand| !demand.rule.is_decidable_by_operator()) else {
        return Ok(());
    };
    Err(ApprovalsError::Undecidable(format!(
        "policy/{} demands approvers that a gateway without a registry does not have: `team:NAME`, a \
         quorum above one and `fourEyes` need a registry",
        demand.policy
    )))
}

/// The answer with the steps.
type Answer<T, E> = (Result<T, E>, Vec<Transition>);

fn status_of<E>(
    recorded: Result<Recorded<Request>, E>,
    now: Timestamp,
) -> Answer<RequestStatus, E> {
    match recorded {
        Ok(Recorded { value, transitions }) => (Ok(value.status_at(now)), transitions),
        Err(error) => (Err(error), Vec::new()),
    }
}

fn done<E>(recorded: Result<Vec<Transition>, E>) -> Answer<(), E> {
    match recorded {
        Ok(transitions) => (Ok(()), transitions),
        Err(error) => (Err(error), Vec::new()),
    }
}

impl Approvals for LocalApprovals {
    fn arguments_key(&self) -> StoreFuture<'_, ArgumentsKey> {
        Box::pin(async { Ok(self.key.clone()) })
    }

    fn open<'a>(
        &'a self,
        _gateway: &'a str,
        wanted: &'a Wanted,
    ) -> ApprovalFuture<'a, RequestStatus, OpenError> {
        if let Err(refused) = decidable(wanted, self.path.is_some()) {
            return Box::pin(async move { Err(refused) });
        }
        Box::pin(self.change(|approvals, now| status_of(approvals.open(wanted.clone(), now), now)))
    }

    fn confirm<'a>(
        &'a self,
        _gateway: &'a str,
        request: RequestId,
        caller: &'a Principal,
    ) -> ApprovalFuture<'a, RequestStatus, ConfirmError> {
        Box::pin(
            self.change(move |approvals, now| {
                status_of(approvals.confirm(request, caller, now), now)
            }),
        )
    }

    fn cancel<'a>(
        &'a self,
        _gateway: &'a str,
        request: RequestId,
        caller: &'a Principal,
    ) -> ApprovalFuture<'a, RequestStatus, CancelError> {
        Box::pin(self.change(move |approvals, now| {
            status_of(approvals.cancel(request, Canceller::Caller(caller), now), now)
        }))
    }

    fn consume<'a>(
        &'a self,
        gateway: &'a str,
        claim: &'a Claim,
    ) -> ApprovalFuture<'a, (), ConsumeError> {
        Box::pin(self.change(|approvals, now| done(approvals.consume(gateway, claim, now))))
    }

    fn settle<'a>(
        &'a self,
        gateway: &'a str,
        settlement: &'a Settlement,
    ) -> ApprovalFuture<'a, (), SettleError> {
        Box::pin(self.change(|approvals, now| done(approvals.settle(gateway, settlement, now))))
    }
}
