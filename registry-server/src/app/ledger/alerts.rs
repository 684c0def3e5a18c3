//! Alerts about the spending of budgets, and their delivery to a webhook.
//!
//! A delivery is repeated until the webhook accepts it, for at most a day. A server that stops during a delivery has no
//! result, so that the alert is delivered again with the same id.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use registry_core::{Amount, Timestamp, entity::policy::Fraction};
use retry_backoff::jittered;
use serde::Serialize;
use tokio::{sync::Notify, time::timeout};

use super::{
    Error, Ledger, LedgerConfig, later,
    webhook::{InvalidWebhook, TIMEOUT, Webhook},
};
use crate::{
    metrics,
    store::{AlertAttempt, BookKey, ClaimedAlert, Crossing},
};

/// Maximum number of deliveries at once.
const BATCH: usize = 8;
/// How long other servers leave a claimed alert alone. A delivery takes at most [`TIMEOUT`].
const CLAIM: Duration = TIMEOUT.saturating_mul(3);
/// Maximum time between searches for alerts of other servers.
const POLL_INTERVAL: Duration = Duration::from_secs(15);
/// Delay after another server has claimed the alerts that were due, or after a failure of the database.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Delay before the second attempt. It doubles with each further one.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay between attempts.
const MAX_DELAY: Duration = Duration::from_hours(1);
/// How long a delivery is repeated.
const GIVE_UP_AFTER: Duration = Duration::from_hours(24);

/// The receiver of alerts.
pub(super) struct Alerts {
    webhook: Option<Webhook>,
    /// Wakes the delivery.
    wake: Notify,
}

impl Alerts {
    pub(super) fn open(config: &LedgerConfig) -> Result<Self, InvalidWebhook> {
        Ok(Self { webhook: Webhook::open(config)?, wake: Notify::new() })
    }

    pub(super) fn has_webhook(&self) -> bool {
        self.webhook.is_some()
    }
}

impl Ledger {
    /// Whether messages are sent to a webhook.
    pub(in crate::app) fn has_webhook(&self) -> bool {
        self.alerts.has_webhook()
    }

    /// Sends a message to the webhook, if there is one. An error is the reason for the log.
    pub(in crate::app) async fn send_to_webhook(
        &self,
        id: &str,
        body: String,
    ) -> Result<(), String> {
        match &self.alerts.webhook {
            Some(webhook) => webhook.send(id, body, self.clock.now()).await,
            None => Ok(()),
        }
    }

    /// Logs thresholds that the spending has reached, and starts the delivery of their alerts.
    pub(super) fn note_crossings(&self, book: &BookKey, crossings: &[Crossing]) {
        if crossings.is_empty() {
            return;
        }
        metrics::budget_alerts("crossed", crossings.len());
        let BookKey { budget, window } = book;
        for Crossing { threshold, settled, limit, .. } in crossings {
            let threshold = f64::from(*threshold);
            tracing::warn!(
                %budget, %window, threshold, %settled, %limit,
                "the spending has reached a threshold of its budget"
            );
        }
        self.alerts.wake.notify_one();
    }

    /// Delivers alerts. Without a webhook there is nothing to do.
    pub(super) async fn deliver_alerts(self: Arc<Self>) {
        let Some(webhook) = &self.alerts.webhook else { return };
        loop {
            let wait = self.deliver_due(webhook).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot read the alerts of budgets, retrying");
                RETRY_DELAY
            });
            // A new alert, or the end of the wait.
            let _ = timeout(wait, self.alerts.wake.notified()).await;
        }
    }

    /// Delivers the alerts that are due. Returns the time until the next search.
    async fn deliver_due(&self, webhook: &Webhook) -> Result<Duration, Error> {
        loop {
            let Some(next) = self.store.next_alert_attempt().await? else {
                return Ok(POLL_INTERVAL);
            };
            let now = self.clock.now();
            let wait = next.since(now);
            if !wait.is_zero() {
                return Ok(wait.min(POLL_INTERVAL));
            }
            let claimed = self.store.claim_alerts(now, later(now, CLAIM), BATCH).await?;
            if claimed.is_empty() {
                return Ok(RETRY_DELAY);
            }
            join_all(claimed.iter().map(|alert| self.deliver(webhook, alert))).await;
        }
    }

    async fn deliver(&self, webhook: &Webhook, alert: &ClaimedAlert) {
        let body = self.message(alert);
        let sent = webhook.send(&alert.id, body, self.clock.now()).await;
        let now = self.clock.now();
        let (result, event) = match sent {
            Ok(()) => (AlertAttempt::Delivered(now), "delivered"),
            Err(reason) => {
                let next = next_attempt(alert, now);
                let BookKey { budget, window } = &alert.book;
                let next_at = next.map_or_else(|| "never".to_owned(), |at| at.to_string());
                tracing::warn!(
                    %budget, %window, attempts = alert.attempts, next_at, reason,
                    "cannot deliver the alert of a budget"
                );
                next.map_or((AlertAttempt::GivenUp, "failed"), |at| {
                    (AlertAttempt::Retry(at), "retried")
                })
            }
        };
        metrics::budget_alerts(event, 1);
        if let Err(error) = self.store.record_alert_attempt(&alert.id, result).await {
            tracing::warn!(%error, "cannot record the delivery of an alert, it may be repeated");
        }
    }

    /// The body of a request. It is the same in each attempt.
    fn message(&self, alert: &ClaimedAlert) -> String {
        let ClaimedAlert { book: BookKey { budget, window }, end, crossing, .. } = alert;
        let Crossing { threshold, at, settled, limit } = *crossing;
        let message = Message {
            kind: "budget.alert",
            timestamp: at,
            data: Data {
                registry: self.store.registry().as_str(),
                policy: &budget.policy,
                budget: &budget.budget,
                subject: &budget.subject,
                window: window.as_str(),
                window_ends_at: *end,
                threshold,
                settled,
                limit,
                currency: self.currency(),
            },
        };
        // Texts and numbers always have a JSON form.
        serde_json::to_string(&message).unwrap_or_default()
    }
}

/// The time of the next attempt. `None`: there is none.
fn next_attempt(alert: &ClaimedAlert, now: Timestamp) -> Option<Timestamp> {
    let doublings = alert.attempts.saturating_sub(1).min(16);
    let delay = FIRST_DELAY.saturating_mul(1 << doublings).min(MAX_DELAY);
    let next = later(now, jittered(delay));
    (next.since(alert.crossing.at) < GIVE_UP_AFTER).then_some(next)
}

/// A message in the form of Standard Webhooks.
#[derive(Serialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: Timestamp,
    data: Data<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    registry: &'a str,
    policy: &'a str,
    budget: &'a str,
    subject: &'a str,
    window: &'a str,
    window_ends_at: Option<Timestamp>,
    threshold: Fraction,
    settled: Amount,
    limit: Amount,
    currency: &'a str,
}

#[cfg(test)]
mod tests {
    use ledger::{BudgetKey, WindowId};

    use super::*;

    fn alert(attempts: u32) -> ClaimedAlert {
        let budget = BudgetKey { policy: "p".into(), budget: "b".into(), subject: "a".into() };
        ClaimedAlert {
            id: "1".to_owned(),
            book: BookKey { budget, window: WindowId::new("total") },
            end: None,
            crossing: Crossing {
                threshold: Fraction::ONE,
                at: Timestamp::EPOCH,
                settled: Amount::ZERO,
                limit: Amount::ZERO,
            },
            attempts,
        }
    }

    #[test]
    fn delays_of_deliveries_double_up_to_hour() {
        for (attempts, seconds) in
            [(1, 1), (2, 2), (3, 4), (12, 2_048), (13, 3_600), (u32::MAX, 3_600)]
        {
            let next = next_attempt(&alert(attempts), Timestamp::EPOCH).unwrap();
            let delay = next.since(Timestamp::EPOCH).as_millis();
            assert!((seconds * 800..=seconds * 1_200).contains(&delay), "{attempts}: {delay}");
        }
    }

    #[test]
    fn delivery_ends_after_a_day() {
        let at = |hours: i64| Timestamp::from_millis(hours * 3_600_000);
        assert!(next_attempt(&alert(20), at(22)).is_some());
        assert_eq!(next_attempt(&alert(20), at(24)), None);
    }
}
