//! Exports sampled spans to a collector (OTLP/HTTP), in batches, from a bounded queue. A slow or
//! unreachable collector causes dropped spans, which are counted, but never delays a call. Requests
//! contain the configured headers, which can be credentials: redirects are not followed and proxies
//! are not used.
//!
//! Exports are not retried: spans that the collector rejects are dropped.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use gateway_upstream::redact_url;
use http::StatusCode;
use registry_follow::reason_of;
use reqwest::redirect::Policy;
use tokio::{
    sync::mpsc::{self, Receiver, Sender},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{SpanRecord, otlp};
use crate::trace::settings::OtlpConfig;

/// Maximum queued spans.
const QUEUE_SPANS: usize = 4096;
/// Maximum spans per request.
const BATCH_SPANS: usize = 512;
/// Maximum delay of an incomplete batch.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// Timeout of a request.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for the last batch at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

const DROPPED: &str = "gateway_trace_spans_dropped_total";
const SENT: &str = "gateway_trace_spans_exported_total";

/// The exporter's queue.
#[derive(Debug)]
pub(super) struct Export {
    queue: Sender<Arc<SpanRecord>>,
    /// The highest trace number that is sampled.
    sampling_threshold: Option<u64>,
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Export {
    pub(super) fn start(config: &OtlpConfig, gateway: &str) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE_SPANS);
        let stop = CancellationToken::new();
        let exporter = Exporter {
            client: client(),
            url: format!("{}/v1/traces", config.endpoint.trim_end_matches('/')),
            headers: config.headers.clone(),
            gateway: gateway.to_owned(),
            is_healthy: true,
        };
        let task = tokio::spawn(exporter.run(waiting, stop.clone()));
        let sampling_threshold = threshold(config.sample_ratio);
        Self { queue, sampling_threshold, stop, task: Mutex::new(Some(task)) }
    }

    /// Whether a new trace with this random number is sampled.
    pub(super) fn samples(&self, number: u64) -> bool {
        self.sampling_threshold.is_some_and(|up_to| number <= up_to)
    }

    /// Queues a span if possible.
    pub(super) fn offer(&self, record: Arc<SpanRecord>) {
        if self.queue.try_send(record).is_err() {
            metrics::counter!(DROPPED, "reason" => "queue-full").increment(1);
        }
    }

    pub(super) async fn shutdown(&self) {
        self.stop.cancel();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = timeout(SHUTDOWN_TIMEOUT, task).await;
        }
    }
}

/// A client without redirects and proxies.
fn client() -> reqwest::Client {
    let builder = reqwest::Client::builder().redirect(Policy::none()).no_proxy();
    builder.build().expect("the TLS library works")
}

/// The highest sampled number for a ratio.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a ratio from 0 to 1 of all numbers; casts of floating-point numbers saturate"
)]
fn threshold(ratio: f64) -> Option<u64> {
    (ratio > 0.0).then_some((ratio * u64::MAX as f64) as u64)
}

struct Exporter {
    client: reqwest::Client,
    url: String,
    headers: http::HeaderMap,
    gateway: String,
    is_healthy: bool,
}

impl Exporter {
    async fn run(mut self, mut waiting: Receiver<Arc<SpanRecord>>, stop: CancellationToken) {
        let mut batch = Vec::with_capacity(BATCH_SPANS);
        loop {
            tokio::select! {
                _ = waiting.recv_many(&mut batch, BATCH_SPANS) => {}
                () = stop.cancelled() => break,
            }
            if batch.is_empty() {
                return;
            }
            if batch.len() < BATCH_SPANS {
                let _ = stop.run_until_cancelled(sleep(BATCH_DELAY)).await;
            }
            fill(&mut batch, &mut waiting);
            self.send(&mut batch).await;
        }
        loop {
            fill(&mut batch, &mut waiting);
            if batch.is_empty() {
                return;
            }
            self.send(&mut batch).await;
        }
    }

    async fn send(&mut self, batch: &mut Vec<Arc<SpanRecord>>) {
        let body = otlp::request(&self.gateway, batch).to_string();
        let request = self
            .client
            .post(&self.url)
            .headers(self.headers.clone())
            .header("content-type", "application/json")
            .timeout(SEND_TIMEOUT)
            .body(body);
        let sent = request.send().await.map(|response| response.status());
        let count = batch.len() as u64;
        batch.clear();
        let is_taken = sent.as_ref().is_ok_and(StatusCode::is_success);
        if is_taken {
            metrics::counter!(SENT).increment(count);
            if !self.is_healthy {
                tracing::info!("exporting spans works again");
            }
        } else {
            metrics::counter!(DROPPED, "reason" => "collector").increment(count);
            if self.is_healthy {
                let reason = match sent {
                    Ok(status) => format!("HTTP status {status}"),
                    Err(error) => reason_of(&error.without_url()),
                };
                let endpoint = redact_url(&self.url);
                tracing::warn!(
                    endpoint,
                    reason,
                    "cannot export spans to tracing.otlp.endpoint, they are dropped"
                );
            }
        }
        self.is_healthy = is_taken;
    }
}

/// Takes queued spans without waiting.
fn fill(batch: &mut Vec<Arc<SpanRecord>>, waiting: &mut Receiver<Arc<SpanRecord>>) {
    while batch.len() < BATCH_SPANS {
        let Ok(record) = waiting.try_recv() else { return };
        batch.push(record);
    }
}
