//! Messages about requests and decisions to the webhook of budget alerts.
//!
//! They have neither arguments nor reasons. A message is lost if the server stops or the webhook rejects it repeatedly:
//! `ListApprovals` has all requests.

use std::{sync::Arc, time::Duration};

use approval::{Actor, Request, State, Transition};
use registry_core::RegistryId;
use retry_backoff::Backoff;
use serde_json::json;
use tokio::{sync::mpsc, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{app::ledger::Ledger, metrics};

/// Maximum number of waiting messages.
const QUEUE: usize = 1_000;
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
}

/// The messages that wait for the webhook.
pub(super) struct Notices {
    /// `None`: there is no webhook.
    queue: Option<mpsc::Sender<Notice>>,
}

impl Notices {
    /// Sends messages until the server drains.
    pub(super) fn start(ledger: &Arc<Ledger>, draining: &CancellationToken) -> Self {
        if !ledger.has_webhook() {
            return Self { queue: None };
        }
        let (queue, waiting) = mpsc::channel(QUEUE);
        let delivering = deliver(ledger.clone(), waiting);
        tokio::spawn(draining.clone().run_until_cancelled_owned(delivering));
        Self { queue: Some(queue) }
    }

    /// Queues the message about a step, if it has one.
    pub(super) fn send(&self, registry: &RegistryId, request: &Request, step: &Transition) {
        let (Some(queue), Some(kind)) = (&self.queue, kind(step)) else { return };
        if !request.needs_people() {
            return;
        }
        if queue.try_send(notice(registry, request, step, kind)).is_err() {
            metrics::approval_message("dropped");
            tracing::warn!(request = %request.id, "too many messages wait for the webhook, dropping one");
        }
    }
}

async fn deliver(ledger: Arc<Ledger>, mut waiting: mpsc::Receiver<Notice>) {
    while let Some(Notice { id, body }) = waiting.recv().await {
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
    Notice { id: format!("{}.{}", request.id, step.to), body: body.to_string() }
}
