//! Points in history.

use registry_core::{PointInTime, Revision};

use super::time::{InvalidTime, read_timestamp, timestamp};
use crate::v1;

/// Why a message is not a point in history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAt {
    /// Neither is set.
    #[error("neither revision nor time is set")]
    Unset,
    /// The time.
    #[error(transparent)]
    Time(#[from] InvalidTime),
}

/// Reads a point in history that may be left out.
pub fn at(at: Option<v1::At>) -> Result<Option<PointInTime>, InvalidAt> {
    let Some(v1::At { at }) = at else { return Ok(None) };
    Ok(Some(match at.ok_or(InvalidAt::Unset)? {
        v1::at::At::Revision(revision) => PointInTime::Revision(Revision(revision)),
        v1::at::At::Time(time) => PointInTime::Time(read_timestamp(time)?),
    }))
}

impl From<PointInTime> for v1::At {
    fn from(at: PointInTime) -> Self {
        let at = match at {
            PointInTime::Revision(revision) => v1::at::At::Revision(revision.0),
            PointInTime::Time(time) => v1::at::At::Time(timestamp(time)),
        };
        Self { at: Some(at) }
    }
}
