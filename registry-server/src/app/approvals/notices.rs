//! Messages about requests and decisions to the webhook of budget alerts.
//!
//! They have neither arguments nor reasons. A message is lost if the server stops or the webhook rejects it repeatedly:
//! `ListApprovals` has all requests.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use approval::{Actor, Request, State, Transition};
use registry_core::{Digest, RegistryId};
use retry_backoff::Backoff;
use serde_json::json;
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{app::ledger::Ledger, metrics};

/// Maximum number of waiting messages.
const QUEUE: usize = 1_000;
/// Maximum number of waiting messages about the calls of one account.
const QUEUE_PER_CALLER: usize = 100;
/// Maximum number of attempts to send a message.
const ATTEMPTS: usize = 5;
/// Delay before the second attempt. It doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay between attempts.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// A message.
struct Notice {
    /// It is the same in each attempt.
    id: String,
    body: String,
    _share: Share,
}

/// The messages that wait for the webhook.
pub(super) struct Notices {
    /// `None`: there is no webhook.
    queue: Option<mpsc::Sender<Notice>>,
    shares: Shares,
}

/// The number of waiting messages of each caller.
#[derive(Debug, Clone, Default)]
struct Shares(Arc<Mutex<HashMap<Digest, usize>>>);

/// The share of one message. Its drop ends it.
struct Share {
    of: Shares,
    caller: Digest,
}

impl Shares {
    /// `None`: too many messages of the caller wait.
    fn take(&self, caller: Digest) -> Option<Share> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = waiting.entry(caller).or_default();
        if *count >= QUEUE_PER_CALLER {
            return None;
        }
        *count += 1;
        Some(Share { of: self.clone(), caller })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut waiting = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = waiting.get_mut(&self.caller) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.caller);
            }
        }
    }
}

impl Notices {
    /// Sends messages until the server drains.
    pub(super) fn start(ledger: &Arc<Ledger>, draining: &CancellationToken) -> Self {
        if !ledger.has_webhook() {
            return Self { queue: None, shares: Shares::default() };
        }
        let (queue, waiting) = mpsc::channel(QUEUE);
        let delivering = deliver(ledger.clone(), waiting);
        tokio::spawn(draining.clone().run_until_cancelled_owned(delivering));
        Self { queue: Some(queue), shares: Shares::default() }
    }

    /// Queues the message about a step, if it has one.
    pub(super) fn send(&self, registry: &RegistryId, request: &Request, step: &Transition) {
        let (Some(queue), Some(kind)) = (&self.queue, kind(step)) else { return };
        if !request.needs_people() {
            return;
        }
        let share = self.shares.take(request.binding.caller.key());
        let queued =
            share.map(|share| queue.try_send(notice(registry, request, step, kind, share)));
        if !matches!(queued, Some(Ok(()))) {
            metrics::approval_message("dropped");
            tracing::warn!(request = %request.id, "too many messages wait for the webhook, dropping one");
        }
    }
}

async fn deliver(ledger: Arc<Ledger>, mut waiting: mpsc::Receiver<Notice>) {
    while let Some(Notice { id, body, _share }) = waiting.recv().await {
        let mut backoff = Backoff::new(FIRST_DELAY, MAX_DELAY);
        for attempt in 1..=ATTEMPTS {
            let Err(reason) = ledger.send_to_webhook(&id, body.clone()).await else {
                metrics::approval_message("delivered");
                break;
            };
            if attempt == ATTEMPTS {
                metrics::approval_message("failed");
                tracing::warn!(id, reason, "cannot deliver the message about an approval");
            } else {
                sleep(backoff.next_delay()).await;
            }
        }
    }
}

/// The kind of message about a step. `None`: there is none.
fn kind(step: &Transition) -> Option<&'static str> {
    match (step.from, step.to, &step.by) {
        (None, State::Pending, _) => Some("approval.pending"),
        (Some(State::Pending), State::Approved | State::Denied, Actor::Decider { .. }) => {
            Some("approval.decided")
        }
        _ => None,
    }
}

/// A message in the form of Standard Webhooks.
fn notice(
    registry: &RegistryId,
    request: &Request,
    step: &Transition,
    kind: &'static str,
    share: Share,
) -> Notice {
    let call = &request.binding;
    let policies: Vec<_> = call.demands.iter().map(|demand| &*demand.policy).collect();
    let body = json!({
        "type": kind,
        "timestamp": step.at,
        "data": {
            "registry": registry.as_str(),
            "id": request.id,
            "state": step.to,
            "resource": call.resource,
            "version": call.version,
            "agent": call.agent,
            "policies": policies,
            "expiresAt": request.deadline,
        },
    });
    Notice { id: format!("{}.{}", request.id, step.to), body: body.to_string(), _share: share }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caller_has_a_share_of_the_queue() {
        let (shares, [flood, other]) =
            (Shares::default(), ["a", "b"].map(|of| Digest::compute(of.as_bytes())));
        let mut taken: Vec<_> = (0..QUEUE_PER_CALLER).filter_map(|_| shares.take(flood)).collect();
        assert_eq!(taken.len(), QUEUE_PER_CALLER);
        assert!(shares.take(flood).is_none());
        assert!(shares.take(other).is_some(), "another caller");
        taken.pop();
        assert!(shares.take(flood).is_some(), "a message was delivered");
        taken.clear();
        assert!(shares.0.lock().unwrap().is_empty());
    }
}
