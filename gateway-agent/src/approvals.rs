//! Approvals of calls: the messages of this gateway to the store of the registry, or to its own file.
//!
//! A call opens a request. Its repetition consumes the approval before it is sent, and the outcome is
//! reported in the background. An attempt without a reported outcome becomes `unknown` in the store.

mod local;
mod metric;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use approval::{
    Approvals, ApprovalsError, ArgumentsKey, Attempt, Claim, Outcome, Principal, RequestId,
    RequestStatus, Settlement, StoreFuture, Wanted,
};
use registry_core::Digest;
use retry_backoff::Backoff;
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use self::local::{InvalidDecision, LocalApprovals};
use crate::random::random_bits;

/// Maximum time that the store takes to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Attempts of a message that a call waits for. Each one uses the next server after a failure.
const ATTEMPTS: usize = 2;
/// Delays between the attempts to report an outcome.
const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Maximum time for the last reports of a gateway that stops.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// The approvals of the calls of this gateway.
#[derive(Debug)]
pub struct CallApprovals {
    store: Arc<dyn Approvals>,
    /// The name of the gateway for its own store.
    gateway: Box<str>,
    /// The unreported outcomes. Calls can end outside of the runtime.
    reports: TaskTracker,
    runtime: Handle,
    /// Cancelled when the gateway stops: the reports that failed are lost.
    stop: CancellationToken,
}

/// The call cannot be approved, or its approval cannot be used. Callers read the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoApproval {
    /// The store did not answer. The log has the cause, which can contain addresses and paths.
    #[error("approvals are unavailable at the moment; retry later")]
    Unavailable,
    /// The store refused the message.
    #[error("{0}")]
    Refused(String),
}

impl From<ApprovalsError> for NoApproval {
    fn from(error: ApprovalsError) -> Self {
        match error {
            ApprovalsError::Unavailable(reason) => {
                tracing::warn!("approvals are unavailable: {reason}");
                Self::Unavailable
            }
            refused @ (ApprovalsError::Undecidable(_) | ApprovalsError::Rejected(_)) => {
                Self::Refused(refused.to_string())
            }
        }
    }
}

/// An approved round of a call, before it is consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ApprovedRound {
    pub(crate) request: RequestId,
    /// The key of the call.
    pub(crate) key: Digest,
    pub(crate) round: u32,
    /// The maximum time for the outcome.
    pub(crate) within: Duration,
}

/// A consumed round. Dropping it reports its outcome: `failed` before the call was sent, and `unknown`
/// after it.
#[derive(Debug)]
pub(crate) struct ConsumedRound {
    approvals: Arc<CallApprovals>,
    request: RequestId,
    round: u32,
    attempt: Attempt,
    /// The outcome to report. `None`: it is reported, or nothing was consumed.
    outcome: Option<Outcome>,
}

impl CallApprovals {
    /// Uses a store. `gateway` is the name of the gateway for its own store. Needs a Tokio runtime.
    pub fn new(store: Arc<dyn Approvals>, gateway: &str) -> Arc<Self> {
        Arc::new(Self {
            store,
            gateway: gateway.into(),
            reports: TaskTracker::new(),
            runtime: Handle::current(),
            stop: CancellationToken::new(),
        })
    }

    /// The key of the digests of arguments.
    pub(crate) async fn arguments_key(&self) -> Result<ArgumentsKey, NoApproval> {
        Ok(answered(|| self.store.arguments_key()).await?)
    }

    /// Finds or creates the request of a call.
    pub(crate) async fn open(&self, wanted: &Wanted) -> Result<RequestStatus, NoApproval> {
        let opened = answered(|| self.store.open(&self.gateway, wanted)).await?;
        opened.map_err(|refusal| NoApproval::Refused(refusal.to_string()))
    }

    /// Records that a caller confirmed its call.
    pub(crate) async fn confirm(
        &self,
        request: RequestId,
        caller: &Principal,
    ) -> Result<RequestStatus, NoApproval> {
        let confirmed = answered(|| self.store.confirm(&self.gateway, request, caller)).await?;
        confirmed.map_err(|refusal| NoApproval::Refused(refusal.to_string()))
    }

    /// Cancels a request of a caller.
    pub(crate) async fn cancel(
        &self,
        request: RequestId,
        caller: &Principal,
    ) -> Result<(), NoApproval> {
        let cancelled = answered(|| self.store.cancel(&self.gateway, request, caller)).await?;
        cancelled.map(drop).map_err(|refusal| NoApproval::Refused(refusal.to_string()))
    }

    /// Consumes a round. The call is sent only after the answer.
    pub(crate) async fn consume(
        self: &Arc<Self>,
        approved: ApprovedRound,
    ) -> Result<ConsumedRound, NoApproval> {
        let ApprovedRound { request, key, round, within } = approved;
        let attempt = random_bits().map_err(|e| NoApproval::Refused(e.to_string()))?;
        let attempt = Attempt::new(attempt);
        // Created first: the store may record a claim whose answer is lost.
        let mut consumed = ConsumedRound {
            approvals: Arc::clone(self),
            request,
            round,
            attempt,
            outcome: Some(Outcome::Failed),
        };
        let claim = Claim { request, key, round, attempt, within };
        match answered(|| self.store.consume(&self.gateway, &claim)).await? {
            Ok(()) => Ok(consumed),
            Err(refusal) => {
                consumed.outcome = None;
                Err(NoApproval::Refused(refusal.to_string()))
            }
        }
    }

    /// Waits for the reports of outcomes. All calls must have ended.
    pub async fn shutdown(&self) {
        self.reports.close();
        if timeout(STOP_LIMIT, self.reports.wait()).await.is_err() {
            self.stop.cancel();
            let lost = self.reports.len();
            tracing::error!(
                "the outcomes of {lost} approved calls are lost: the registry did not receive them, \
                 and will show `unknown`"
            );
        }
    }

    /// Reports an outcome until the store answers.
    fn report(self: &Arc<Self>, settlement: Settlement) -> JoinHandle<()> {
        let approvals = Arc::clone(self);
        let reporting = async move { approvals.repeat_report(&settlement).await };
        let reporting = self.stop.clone().run_until_cancelled_owned(reporting);
        let reporting = async move {
            let _: Option<()> = reporting.await;
        };
        self.reports.spawn_on(reporting, &self.runtime)
    }

    async fn repeat_report(&self, settlement: &Settlement) {
        let mut backoff = Backoff::new(FIRST_DELAY, MAX_DELAY);
        loop {
            let settled = timeout(ANSWER_LIMIT, self.store.settle(&self.gateway, settlement)).await;
            let Settlement { request, outcome, .. } = settlement;
            match settled {
                Ok(Ok(Ok(()))) => return,
                // A claim whose answer was lost may not be recorded.
                Ok(Ok(Err(refusal))) => {
                    tracing::debug!(%request, ?outcome, "an outcome is not recorded: {refusal}");
                    return;
                }
                Ok(Err(ApprovalsError::Rejected(reason) | ApprovalsError::Undecidable(reason))) => {
                    tracing::error!(%request, ?outcome, "the outcome of a call is lost: {reason}");
                    return;
                }
                Ok(Err(ApprovalsError::Unavailable(_))) | Err(_) => {
                    sleep(backoff.next_delay()).await;
                }
            }
        }
    }
}

/// The answer of the store to a message that can be repeated.
async fn answered<'a, T>(
    mut send: impl FnMut() -> StoreFuture<'a, T>,
) -> Result<T, ApprovalsError> {
    let mut failure = ApprovalsError::Unavailable("no attempt".to_owned());
    for _ in 0..ATTEMPTS {
        failure = match timeout(ANSWER_LIMIT, send()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(unavailable @ ApprovalsError::Unavailable(_))) => unavailable,
            Ok(Err(refused)) => return Err(refused),
            Err(_) => {
                let reason = format!("no answer within {} s", ANSWER_LIMIT.as_secs());
                ApprovalsError::Unavailable(reason)
            }
        };
    }
    Err(failure)
}

impl ConsumedRound {
    pub(crate) fn request(&self) -> RequestId {
        self.request
    }

    pub(crate) fn round(&self) -> u32 {
        self.round
    }

    /// Records that the upstream may receive the call.
    pub(crate) fn set_sent(&mut self) {
        self.outcome = Some(Outcome::Unknown);
    }

    /// Reports the outcome.
    pub(crate) fn settle(mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// Reports that the server asks for input, and waits until the store knows it: the next round is
    /// accepted only then.
    pub(crate) async fn await_input(mut self) {
        self.outcome = None;
        let reported = self.report(Outcome::AwaitingInput);
        // The report continues after this time.
        let _ = timeout(ANSWER_LIMIT, reported).await;
    }

    fn report(&self, outcome: Outcome) -> JoinHandle<()> {
        let Self { approvals, request, attempt, .. } = self;
        approvals.report(Settlement { request: *request, attempt: *attempt, outcome })
    }
}

impl Drop for ConsumedRound {
    fn drop(&mut self) {
        if let Some(outcome) = self.outcome {
            // The report continues without its handle.
            drop(self.report(outcome));
        }
    }
}
