//! The point in time of a read.

use clap::Args;
use registry_core::PointInTime;
use registry_proto::v1;

/// The point in time of a read. Default: now.
#[derive(Debug, Clone, Args)]
pub(crate) struct AsOfArgs {
    /// Read the registry as of a revision, date or time
    ///
    /// 42, 2026-01-31 (its end, UTC) or 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "REVISION|TIME")]
    pub(crate) at: Option<PointInTime>,
}

impl AsOfArgs {
    pub(crate) fn message(&self) -> Option<v1::PointInTime> {
        self.at.map(v1::PointInTime::from)
    }
}
