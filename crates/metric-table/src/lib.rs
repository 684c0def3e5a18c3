//! Definitions of metrics: name, type, labels and help text.
//!
//! A program lists its metrics in one table. The table registers the help texts, and the reference of
//! the metrics is generated from it.

use metrics::{
    Counter, Gauge, Histogram, Label, counter, describe_counter, describe_gauge,
    describe_histogram, gauge, histogram,
};

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name, with its unit, and `_total` for counters.
    pub name: &'static str,
    /// Type.
    pub kind: MetricKind,
    /// Labels with their values.
    pub labels: &'static [MetricLabel],
    /// Help text.
    pub help: &'static str,
}

/// A label of a metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricLabel {
    /// Name.
    pub name: &'static str,
    /// Its values, or their definition.
    pub values: &'static str,
}

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// A distribution of values.
    Histogram,
}

impl MetricKind {
    /// Name of the type in Prometheus.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Metric {
    /// A counter without labels.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: MetricKind::Counter, labels: &[], help }
    }

    /// A gauge without labels.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: MetricKind::Gauge, labels: &[], help }
    }

    /// A histogram without labels.
    pub const fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: MetricKind::Histogram, labels: &[], help }
    }

    /// The metric with these labels.
    pub const fn labels(self, labels: &'static [MetricLabel]) -> Self {
        Self { labels, ..self }
    }

    /// The counter with these label values, in the order of [`Metric::labels`].
    pub fn count<const N: usize>(&self, values: [&'static str; N]) -> Counter {
        counter!(self.name, self.values(values))
    }

    /// The gauge with these label values.
    pub fn level<const N: usize>(&self, values: [&'static str; N]) -> Gauge {
        gauge!(self.name, self.values(values))
    }

    /// The histogram with these label values.
    pub fn distribution<const N: usize>(&self, values: [&'static str; N]) -> Histogram {
        histogram!(self.name, self.values(values))
    }

    fn values<const N: usize>(&self, values: [&'static str; N]) -> Vec<Label> {
        debug_assert_eq!(self.labels.len(), N, "{}", self.name);
        let names = self.labels.iter().map(|label| label.name);
        names.zip(values).map(|(name, value)| Label::from_static_parts(name, value)).collect()
    }

    /// Registers the help text with the recorder of the process.
    pub fn describe(&self) {
        match self.kind {
            MetricKind::Counter => describe_counter!(self.name, self.help),
            MetricKind::Gauge => describe_gauge!(self.name, self.help),
            MetricKind::Histogram => describe_histogram!(self.name, self.help),
        }
    }
}

/// A label with its values, or their definition.
pub const fn label(name: &'static str, values: &'static str) -> MetricLabel {
    MetricLabel { name, values }
}
