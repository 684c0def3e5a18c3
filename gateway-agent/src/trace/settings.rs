//! Settings of tracing.

use http::HeaderMap;

/// The `tracing` section.
#[derive(Debug, Clone, PartialEq)]
pub struct TracingConfig {
    /// The traces kept for the admin listener, if there is one.
    pub recent: RecentTraces,
    /// The collector of sampled spans.
    pub otlp: Option<OtlpConfig>,
}

/// Limits of the kept traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentTraces {
    /// Maximum number of traces.
    pub traces: usize,
    /// Maximum number of spans per trace.
    pub spans: usize,
    /// Maximum size of all traces, in bytes.
    pub bytes: usize,
}

impl Default for RecentTraces {
    fn default() -> Self {
        Self { traces: 1000, spans: 64, bytes: 16 * 1024 * 1024 }
    }
}

/// An OTLP collector.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpConfig {
    /// `http(s)://host:port`. The exporter appends `/v1/traces`.
    pub endpoint: String,
    /// Headers of every request; marked as sensitive.
    pub headers: HeaderMap,
    /// The fraction of traces that start here to export, from 0 to 1.
    pub sample_ratio: f64,
}
