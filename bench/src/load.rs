//! Closed-loop load: each client has one request at a time.
//!
//! Open-loop arrival is not supported: the budgets describe closed-loop latency.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Load {
    /// Answered requests per second.
    pub(crate) per_second: f64,
    /// Answered requests.
    pub(crate) count: u64,
    elapsed: Duration,
    latencies: Histogram<u64>,
}

impl Load {
    #[expect(clippy::cast_precision_loss, reason = "counts of requests fit a double")]
    fn new(elapsed: Duration, latencies: Histogram<u64>) -> Self {
        let count = latencies.len();
        Self { per_second: count as f64 / elapsed.as_secs_f64(), count, elapsed, latencies }
    }

    /// Both loads as one.
    pub(crate) fn and(self, mut later: Self) -> Self {
        later.latencies.add(self.latencies).expect("equal bounds");
        Self::new(self.elapsed + later.elapsed, later.latencies)
    }

    /// A latency quantile in milliseconds.
    pub(crate) fn quantile_ms(&self, quantile: f64) -> f64 {
        quantile_ms(&self.latencies, quantile)
    }

    /// Rate and latencies as one text.
    pub(crate) fn text(&self) -> String {
        format!("{:.0}/s, {}", self.per_second, quantiles(&self.latencies))
    }
}

/// A quantile of a histogram of microseconds, in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "microseconds fit a double")]
pub(crate) fn quantile_ms(latencies: &Histogram<u64>, quantile: f64) -> f64 {
    latencies.value_at_quantile(quantile) as f64 / 1000.0
}

/// The median and the 99th percentile of a histogram of microseconds, as one text.
pub(crate) fn quantiles(latencies: &Histogram<u64>) -> String {
    let (p50, p99) = (quantile_ms(latencies, 0.5), quantile_ms(latencies, 0.99));
    format!("p50 {p50:.2} ms, p99 {p99:.2} ms")
}

/// A histogram of microseconds up to a minute.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("sound bounds")
}

/// Runs one request loop per client for this time. `request` makes one request; its numbers are the
/// client and the request, unique in this load.
pub(crate) async fn run<C, F>(
    clients: Vec<C>,
    seconds: u64,
    request: impl Fn(C, u64) -> F + Clone + Send + 'static,
) -> Load
where
    C: Clone + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let begin = Instant::now();
    let end = begin + Duration::from_secs(seconds);
    let mut loops = Vec::new();
    for (number, client) in clients.into_iter().enumerate() {
        let request = request.clone();
        loops.push(tokio::spawn(async move {
            let mut latencies = histogram();
            let mut id = (number as u64) << 32;
            while Instant::now() < end {
                let sent = Instant::now();
                request(client.clone(), id).await;
                record(&mut latencies, sent.elapsed());
                id += 1;
            }
            latencies
        }));
    }
    let mut latencies = histogram();
    for one in loops {
        latencies.add(one.await.expect("a client ends")).expect("equal bounds");
    }
    Load::new(begin.elapsed(), latencies)
}

/// Records one latency.
pub(crate) fn record(latencies: &mut Histogram<u64>, elapsed: Duration) {
    latencies.saturating_record(u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX));
}
