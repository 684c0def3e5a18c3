//! Points in history.

use registry_core::{PointInTime, Revision};

use super::time::{InvalidTime, read_timestamp, timestamp};
use crate::v1;

/// An invalid point in history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPointInTime {
    /// The message is empty.
    #[error("neither revision nor time is set")]
    Unset,
    /// An invalid time.
    #[error(transparent)]
    Time(#[from] InvalidTime),
}

/// Reads an optional point in history.
pub fn point_in_time(
    at: Option<v1::PointInTime>,
) -> Result<Option<PointInTime>, InvalidPointInTime> {
    let Some(v1::PointInTime { at }) = at else { return Ok(None) };
    Ok(Some(match at.ok_or(InvalidPointInTime::Unset)? {
        v1::point_in_time::At::Revision(revision) => PointInTime::Revision(Revision(revision)),
        v1::point_in_time::At::Time(time) => PointInTime::Time(read_timestamp(time)?),
    }))
}

impl From<PointInTime> for v1::PointInTime {
    fn from(at: PointInTime) -> Self {
        let at = match at {
            PointInTime::Revision(revision) => v1::point_in_time::At::Revision(revision.0),
            PointInTime::Time(time) => v1::point_in_time::At::Time(timestamp(time)),
        };
        Self { at: Some(at) }
    }
}
