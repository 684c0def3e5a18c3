//! The ledger at a relay: reports and recalls are forwarded between gateways and the upstream registry.
//!
//! The relay has authenticated the gateways. It forwards their principals with its own credentials.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ledger::{Answer, GatewayAccount, LedgerError, Report, usage::UsageReport};
use registry_follow::{Follower, LedgerClient, TraceClient, UsageClient};
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Error,
    recall_streams::{RecallStreams, Watcher},
};

/// Maximum time that the upstream takes to answer. Gateways wait for the same time.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Delay before a lost subscription to recalls is repeated.
const RETRY: Duration = Duration::from_secs(1);

/// The ledger of the upstream registry.
pub struct UpstreamLedger {
    client: LedgerClient,
    usage: UsageClient,
    traces: TraceClient,
    /// Addresses of the upstream, for display.
    upstream: String,
    streams: RecallStreams,
    /// Wakes the task that forwards recalls. A relay without gateways that spend needs no subscription.
    is_wanted: Notify,
    /// Whether the subscription to recalls is active.
    is_subscribed: watch::Sender<bool>,
    /// Whether the upstream answered the last report.
    is_available: AtomicBool,
}

impl UpstreamLedger {
    /// Creates a ledger. It connects when a gateway uses it.
    pub fn new(follower: Follower) -> Self {
        Self {
            upstream: follower.addresses.join(","),
            usage: UsageClient::new(follower.clone()),
            traces: TraceClient::new(follower.clone()),
            client: LedgerClient::new(follower),
            streams: RecallStreams::default(),
            is_wanted: Notify::new(),
            is_subscribed: watch::Sender::new(false),
            is_available: AtomicBool::new(true),
        }
    }

    /// Addresses of the upstream, for display.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// The client of execution graphs.
    pub fn traces(&self) -> &TraceClient {
        &self.traces
    }

    /// Forwards recalls until the server drains.
    pub fn start(self: &Arc<Self>, draining: CancellationToken) {
        let ledger = self.clone();
        let forwarding =
            async move { draining.run_until_cancelled(ledger.forward_recalls()).await };
        tokio::spawn(forwarding);
    }

    /// Forwards the report of an authenticated gateway.
    pub(super) async fn report(&self, gateway: &str, report: &Report) -> Result<Answer, Error> {
        self.forward(self.client.forward(gateway, report)).await
    }

    /// Forwards the usage that an authenticated gateway reports.
    pub(super) async fn report_usage(
        &self,
        gateway: &str,
        report: &UsageReport,
    ) -> Result<(), Error> {
        self.forward(self.usage.forward(gateway, report)).await
    }

    /// Waits for the answer of the upstream.
    pub async fn forward<T>(
        &self,
        forwarding: impl Future<Output = Result<T, LedgerError>>,
    ) -> Result<T, Error> {
        let failure = match timeout(ANSWER_LIMIT, forwarding).await {
            Ok(Err(LedgerError::Rejected(reason))) => return Err(Error::Rejected(reason)),
            Ok(Err(LedgerError::Unavailable(reason))) => reason,
            Err(_) => format!("no answer within {} s", ANSWER_LIMIT.as_secs()),
            Ok(Ok(answer)) => {
                if !self.is_available.swap(true, Ordering::AcqRel) {
                    tracing::info!("the upstream registry answers reports of gateways again");
                }
                return Ok(answer);
            }
        };
        let error = self.unavailable(failure);
        if self.is_available.swap(false, Ordering::AcqRel) {
            tracing::warn!(%error, "cannot forward the reports of gateways, which spend only granted rights and the allowances of `onUnavailable`");
        }
        Err(error)
    }

    /// Opens a stream of recalls. It ends when the upstream is lost.
    pub(super) async fn watch_recalls(
        &self,
        watcher: &Watcher,
    ) -> Result<mpsc::Receiver<Vec<GatewayAccount>>, Error> {
        self.is_wanted.notify_one();
        let mut subscribed = self.is_subscribed.subscribe();
        let active = async { subscribed.wait_for(|is_subscribed| *is_subscribed).await.is_ok() };
        if !timeout(ANSWER_LIMIT, active).await.unwrap_or(false) {
            return Err(self.lost());
        }
        Ok(self.streams.watch(watcher)?)
    }

    /// The error of a stream that the loss of the upstream ends.
    pub(super) fn lost(&self) -> Error {
        self.unavailable("no subscription to recalls".to_owned())
    }

    fn unavailable(&self, reason: String) -> Error {
        Error::Upstream { upstream: self.upstream.clone(), reason }
    }

    async fn forward_recalls(self: Arc<Self>) {
        self.is_wanted.notified().await;
        loop {
            let Err(error) = self.forward_until_lost().await;
            tracing::debug!("no recalls from the upstream registry, retrying: {error}");
            self.is_subscribed.send_replace(false);
            self.streams.close();
            sleep(RETRY).await;
        }
    }

    async fn forward_until_lost(&self) -> Result<Infallible, LedgerError> {
        let mut recalls = self.client.watch_gateways().await?;
        self.is_subscribed.send_replace(true);
        loop {
            self.streams.send(recalls.next().await?);
        }
    }
}
