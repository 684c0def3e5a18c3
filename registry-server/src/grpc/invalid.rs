//! Invalid requests and the limits of their fields.

use registry_core::{Kind, Name, Version, commit::invalid_message_char, limits};
use registry_proto::{
    convert::{
        self, InvalidEntityKey, InvalidKind, InvalidLedgerMessage, InvalidPointInTime,
        InvalidPosition, InvalidState,
    },
    v1,
};

use super::sbom::InvalidSbomFormat;

/// An invalid request.
#[derive(Debug, thiserror::Error)]
pub(super) enum InvalidRequest {
    #[error("{field} has {bytes} bytes, at most {limit} are allowed")]
    TooLong { field: &'static str, bytes: usize, limit: usize },
    #[error("{field} has {count} entries, at most {limit} are allowed")]
    TooMany { field: &'static str, count: usize, limit: usize },
    #[error("{field} has the control character {unfit:?}; remove it")]
    Control { field: &'static str, unfit: char },
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{field}: {problem}")]
    Field { field: &'static str, problem: String },
    #[error("key: {0}")]
    Key(#[from] InvalidEntityKey),
    #[error("kind: {0}")]
    Kind(#[from] InvalidKind),
    #[error("lifecycle_states: {0}")]
    State(#[from] InvalidState),
    #[error("at: {0}")]
    At(#[from] InvalidPointInTime),
    #[error("position: {0}")]
    Position(#[from] InvalidPosition),
    #[error("format: {0}")]
    Format(#[from] InvalidSbomFormat),
    #[error(transparent)]
    Ledger(#[from] InvalidLedgerMessage),
}

impl InvalidRequest {
    /// The invalid field of the request.
    pub(super) fn field(&self) -> &str {
        match self {
            Self::TooLong { field, .. }
            | Self::TooMany { field, .. }
            | Self::Control { field, .. }
            | Self::Missing(field)
            | Self::Field { field, .. } => field,
            Self::Key(_) => "key",
            Self::Kind(_) => "kind",
            Self::State(_) => "lifecycle_states",
            Self::At(_) => "at",
            Self::Position(_) => "position",
            Self::Format(_) => "format",
            Self::Ledger(invalid) => &invalid.path,
        }
    }
}

/// The maximum length of the name or version of a gateway, in bytes.
pub(super) const GATEWAY_BYTES: usize = 128;
/// The maximum number of stored findings of a Nack.
pub(super) const NACK_DIAGNOSTICS: usize = 100;
/// The maximum size of those findings; `ListGateways` returns them all.
pub(super) const NACK_BYTES: usize = 8 * 1024;
/// The maximum length of a cache problem, in bytes.
pub(super) const CACHE_PROBLEM_BYTES: usize = 1024;
/// The maximum length of a name or version in a filter, in bytes.
pub(super) const FILTER_BYTES: usize = 256;

/// Accepts one line without control characters.
pub(super) fn line(
    field: &'static str,
    text: String,
    limit: usize,
) -> Result<String, InvalidRequest> {
    let unfit = text.chars().find(|c| c.is_control());
    checked(field, text, limit, unfit)
}

/// Accepts text of several lines.
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

/// Accepts a request id; an empty one is none.
pub(super) fn request_id(id: String) -> Result<Option<String>, InvalidRequest> {
    let id = Some(id).filter(|id| !id.is_empty());
    id.map(|id| line("request_id", id, limits::REQUEST_ID_BYTES)).transpose()
}

/// Another problem of a field.
pub(super) fn field(field: &'static str, problem: &impl ToString) -> InvalidRequest {
    InvalidRequest::Field { field, problem: problem.to_string() }
}

/// One version of a name, or all of them.
pub(super) struct Selected {
    pub(super) kind: Kind,
    pub(super) name: Name,
    pub(super) version: Option<Version>,
}

/// Reads a selector that must have a name.
pub(super) fn named_selector(
    name: &'static str,
    selector: v1::EntitySelector,
) -> Result<Selected, InvalidRequest> {
    let v1::EntitySelector { kind, name: text, version } = selector;
    let kind = convert::kind(kind).map_err(|e| field(name, &e))?;
    Ok(Selected {
        kind,
        name: Name::parse(kind, &text).map_err(|e| field(name, &e))?,
        version: read_version(name, &version)?,
    })
}

/// Reads a version that can be empty.
pub(super) fn read_version(
    name: &'static str,
    text: &str,
) -> Result<Option<Version>, InvalidRequest> {
    let text = Some(text).filter(|text| !text.is_empty());
    text.map(Version::parse).transpose().map_err(|e| field(name, &e))
}

/// Accepts a list within its limit.
pub(super) fn list<T>(
    field: &'static str,
    list: Vec<T>,
    limit: usize,
) -> Result<Vec<T>, InvalidRequest> {
    let count = list.len();
    if count > limit { Err(InvalidRequest::TooMany { field, count, limit }) } else { Ok(list) }
}
