//! Requests that cannot be read, and the limits on what is in them.

use registry_core::{commit::invalid_message_char, limits};
use registry_proto::convert::{
    InvalidAt, InvalidEntityKey, InvalidKind, InvalidPosition, InvalidSetting, InvalidState,
};

use super::sbom::InvalidSbomFormat;

/// Why a request cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidRequest {
    #[error("{field} has {bytes} bytes, at most {limit} are allowed")]
    TooLong { field: &'static str, bytes: usize, limit: usize },
    #[error("{field} has {count} entries, at most {limit} are allowed")]
    TooMany { field: &'static str, count: usize, limit: usize },
    #[error("{field} has the control character {unfit:?}; leave it out")]
    Control { field: &'static str, unfit: char },
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{field}: {problem}")]
    Field { field: &'static str, problem: String },
    #[error("key: {0}")]
    Key(#[from] InvalidEntityKey),
    #[error("kind: {0}")]
    Kind(#[from] InvalidKind),
    #[error("lifecycle: {0}")]
    State(#[from] InvalidState),
    #[error("at: {0}")]
    At(#[from] InvalidAt),
    #[error("setting: {0}")]
    Setting(#[from] InvalidSetting),
    #[error("position: {0}")]
    Position(#[from] InvalidPosition),
    #[error("format: {0}")]
    Format(#[from] InvalidSbomFormat),
}

/// Longest name of a gateway or of its version, in bytes.
pub(super) const GATEWAY_BYTES: usize = 128;
/// Most findings of a refusal that are kept.
pub(super) const NACK_DIAGNOSTICS: usize = 100;
/// Most bytes of those findings; `ListGateways` tells them all.
pub(super) const NACK_BYTES: usize = 8 * 1024;
/// Longest text of what is wrong with a gateway's disk, in bytes.
pub(super) const CACHE_PROBLEM_BYTES: usize = 1024;
/// Longest name or version in a filter, in bytes.
pub(super) const FILTER_BYTES: usize = 256;

/// Takes a line that is short enough and has no control characters.
pub(super) fn line(
    field: &'static str,
    text: String,
    limit: usize,
) -> Result<String, InvalidRequest> {
    let unfit = text.chars().find(|c| c.is_control());
    checked(field, text, limit, unfit)
}

/// Takes a text that is short enough; it may have several lines.
pub(super) fn text(
    field: &'static str,
    text: String,
    limit: usize,
) -> Result<String, InvalidRequest> {
    let unfit = invalid_message_char(&text);
    checked(field, text, limit, unfit)
}

fn checked(
    field: &'static str,
    text: String,
    limit: usize,
    unfit: Option<char>,
) -> Result<String, InvalidRequest> {
    let bytes = text.len();
    match unfit {
        _ if bytes > limit => Err(InvalidRequest::TooLong { field, bytes, limit }),
        Some(unfit) => Err(InvalidRequest::Control { field, unfit }),
        None => Ok(text),
    }
}

/// Takes a request id; an empty one is none.
pub(super) fn request_id(id: Option<String>) -> Result<Option<String>, InvalidRequest> {
    let id = id.filter(|id| !id.is_empty());
    id.map(|id| line("request_id", id, limits::REQUEST_ID_BYTES)).transpose()
}

/// Something else is wrong with a field.
pub(super) fn field(field: &'static str, problem: &impl ToString) -> InvalidRequest {
    InvalidRequest::Field { field, problem: problem.to_string() }
}

/// Takes a list that is short enough.
pub(super) fn list<T>(
    field: &'static str,
    list: Vec<T>,
    limit: usize,
) -> Result<Vec<T>, InvalidRequest> {
    let count = list.len();
    if count > limit { Err(InvalidRequest::TooMany { field, count, limit }) } else { Ok(list) }
}
