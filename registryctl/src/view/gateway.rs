//! Gateways in the output of commands.

use std::{fmt, time::Duration};

use registry_proto::{convert::read_duration, v1};
use serde::Serialize;

use super::time_text;
use crate::report::Finding;

/// A connected or former follower of the registry.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GatewayView {
    pub(crate) gateway: String,
    pub(crate) gateway_version: String,
    pub(crate) principal: String,
    pub(crate) address: String,
    pub(crate) scope: String,
    pub(crate) server: String,
    /// `connected` or `gone`.
    pub(crate) state: &'static str,
    pub(crate) connected_at: Option<String>,
    pub(crate) last_seen_at: Option<String>,
    pub(crate) sent_revision: u64,
    pub(crate) applied_revision: u64,
    pub(crate) persisted_revision: u64,
    pub(crate) lag: u64,
    pub(crate) lag_seconds: Option<f64>,
    /// `ok`, `failing`, `none` or `unknown`.
    pub(crate) cache_state: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cache_problem: String,
    pub(crate) rejection: Option<RejectionView>,
}

/// The last rejection of a revision by a follower.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RejectionView {
    pub(crate) revision: u64,
    pub(crate) message: String,
    pub(crate) diagnostics: Vec<Finding>,
}

impl fmt::Display for RejectionView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}: {}", self.revision, self.message)
    }
}

impl From<v1::Nack> for RejectionView {
    fn from(v1::Nack { revision, message, diagnostics }: v1::Nack) -> Self {
        let diagnostics = diagnostics.iter().map(Finding::from).collect();
        Self { revision, message, diagnostics }
    }
}

impl GatewayView {
    /// The name, which may be missing.
    pub(crate) fn name(&self) -> &str {
        if self.gateway.is_empty() { "(no name)" } else { &self.gateway }
    }
}

impl From<v1::GatewayStatus> for GatewayView {
    fn from(status: v1::GatewayStatus) -> Self {
        let (state, cache_state) = (state(&status), cache_state(&status));
        let v1::GatewayStatus {
            gateway,
            gateway_version,
            address,
            connect_time,
            sent_revision,
            applied_revision,
            persisted_revision,
            lag_revisions,
            last_nack,
            principal,
            state: _,
            last_seen_time,
            server,
            scope,
            lag_duration,
            cache_state: _,
            cache_problem,
        } = status;
        Self {
            gateway,
            gateway_version,
            principal,
            address,
            scope,
            server,
            state,
            connected_at: time_text(connect_time),
            last_seen_at: time_text(last_seen_time),
            sent_revision,
            applied_revision,
            persisted_revision,
            lag: lag_revisions,
            lag_seconds: lag_duration.map(|lag| read_duration(lag).as_secs_f64()),
            cache_state,
            cache_problem,
            rejection: last_nack.map(RejectionView::from),
        }
    }
}

/// An older registry lists connected gateways only, without their state.
fn state(status: &v1::GatewayStatus) -> &'static str {
    if status.state() == v1::GatewayState::Disconnected { "gone" } else { "connected" }
}

fn cache_state(status: &v1::GatewayStatus) -> &'static str {
    match status.cache_state() {
        v1::CacheState::Ok => "ok",
        v1::CacheState::Failing => "failing",
        v1::CacheState::None => "none",
        v1::CacheState::Unspecified => "unknown",
    }
}

/// A duration in a suitable unit: `4.2s`, `90s`, `15m`, `30h`, `12d`.
pub(crate) fn span(seconds: f64) -> String {
    let whole = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs();
    match whole {
        0..10 => format!("{seconds:.1}s"),
        10..120 => format!("{whole}s"),
        120..7_200 => format!("{}m", whole / 60),
        7_200..172_800 => format!("{}h", whole / 3_600),
        _ => format!("{}d", whole / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_suitable_units() {
        let texts = [0.0, 4.24, 90.0, 900.0, 108_000.0, 1_100_000.0].map(span);
        assert_eq!(texts, ["0.0s", "4.2s", "90s", "15m", "30h", "12d"]);
    }
}
