//! As of when a read answers.

use clap::Args;
use registry_core::PointInTime;
use registry_proto::v1;

/// As of when a read answers.
#[derive(Debug, Clone, Args)]
pub(crate) struct AtArgs {
    /// As it was after this revision, or at this time: 42, 2026-01-31 (its end) or
    /// 2026-01-31T12:00:00Z
    #[arg(long, value_name = "REVISION|TIME")]
    pub(crate) at: Option<PointInTime>,
}

impl AtArgs {
    pub(crate) fn message(&self) -> Option<v1::At> {
        self.at.map(v1::At::from)
    }
}
