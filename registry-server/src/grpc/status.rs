//! The only place where an error becomes a gRPC status.
//!
//! Every status carries `google.rpc.ErrorInfo` with the domain `registry` and a reason that
//! programs can rely on; refused batches also carry their findings. What a caller may not see
//! (addresses and paths of the database) goes to the log instead. Deliberately absent: any
//! decision about what is an error.

use std::{collections::HashMap, time::Duration};

use prost::Message as _;
use prost_types::Any;
use registry_core::Diagnostic;
use registry_proto::convert::validation_failure;
use tonic::{Code, Status};
use tonic_types::pb;

use super::invalid::InvalidRequest;
use crate::{
    app::{history, page::InvalidPage},
    feed, metrics, registrar, store,
};

/// A status in the making.
struct Refusal {
    code: Code,
    reason: &'static str,
    message: String,
    metadata: Vec<(&'static str, String)>,
    details: Vec<Any>,
}

impl Refusal {
    fn new(code: Code, reason: &'static str, message: impl ToString) -> Self {
        let message = message.to_string();
        Self { code, reason, message, metadata: Vec::new(), details: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.metadata.push((name, value.to_string()));
        self
    }

    /// The same call may be made again after this time.
    fn retry_after(mut self, delay: Duration) -> Self {
        let delay = prost_types::Duration::try_from(delay).unwrap_or_default();
        let retry = pb::RetryInfo { retry_delay: Some(delay) };
        self.details.push(any("google.rpc.RetryInfo", &retry));
        self
    }
}

impl From<Refusal> for Status {
    fn from(Refusal { code, reason, message, metadata, details }: Refusal) -> Self {
        metrics::failed(reason);
        let metadata = metadata.into_iter().map(|(name, value)| (name.to_owned(), value));
        let info = pb::ErrorInfo {
            reason: reason.to_owned(),
            domain: "registry".to_owned(),
            metadata: HashMap::from_iter(metadata),
        };
        let mut all = vec![any("google.rpc.ErrorInfo", &info)];
        all.extend(details);
        let whole = pb::Status { code: code.into(), message: message.clone(), details: all };
        Status::with_details(code, message, whole.encode_to_vec().into())
    }
}

fn any(name: &str, message: &impl prost::Message) -> Any {
    Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() }
}

/// A batch with errors. Findings that would not fit beside the other headers are left out, errors
/// last; the message says how many there are.
pub(super) fn refused(found: &[Diagnostic]) -> Status {
    /// Details travel as a header, base64-encoded; common peers take 8 KiB of headers, ours take
    /// 16 KiB and more.
    const ROOM: usize = 5 * 1024;
    let errors = found.iter().filter(|found| found.is_error()).count();
    let mut failure = validation_failure(found);
    let all = failure.diagnostics.len();
    let mut bytes = 0;
    failure.diagnostics.retain(|diagnostic| {
        bytes += diagnostic.encoded_len() + 4;
        bytes <= ROOM
    });
    let message = format!("the batch was refused with {errors} errors; nothing was changed");
    let mut refusal = Refusal::new(Code::InvalidArgument, "VALIDATION_FAILED", message)
        .with("errors", errors)
        .with("diagnostics", all)
        .with("diagnostics_shown", failure.diagnostics.len());
    refusal.details.push(any("registry.v1.ValidationFailure", &failure));
    refusal.into()
}

/// The caller's deadline has passed.
pub(super) fn deadline_exceeded(allowed: Duration) -> Status {
    let message = format!("no answer within {allowed:?}; a write may still be stored");
    Refusal::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message).into()
}

/// There is no such entity.
pub(super) fn not_found(key: &registry_core::Key) -> Status {
    Refusal::new(Code::NotFound, "NOT_FOUND", format!("{key} is not registered"))
        .with("key", key)
        .into()
}

/// There is no such method.
pub fn unimplemented() -> Status {
    Refusal::new(Code::Unimplemented, "UNIMPLEMENTED", "there is no such method").into()
}

impl From<InvalidRequest> for Status {
    fn from(error: InvalidRequest) -> Self {
        let reason = match &error {
            InvalidRequest::TooLong { .. } | InvalidRequest::TooMany { .. } => "LIMIT_EXCEEDED",
            InvalidRequest::Missing(_)
            | InvalidRequest::Field { .. }
            | InvalidRequest::Key(_)
            | InvalidRequest::Kind(_)
            | InvalidRequest::State(_)
            | InvalidRequest::Position(_) => "INVALID_REQUEST",
        };
        Refusal::new(Code::InvalidArgument, reason, error).into()
    }
}

impl From<InvalidPage> for Status {
    fn from(error: InvalidPage) -> Self {
        let reason = match &error {
            InvalidPage::Size(_) => "LIMIT_EXCEEDED",
            InvalidPage::Token | InvalidPage::OtherQuery => "PAGE_TOKEN_INVALID",
        };
        Refusal::new(Code::InvalidArgument, reason, error).into()
    }
}

impl From<registrar::Error> for Status {
    fn from(error: registrar::Error) -> Self {
        use registrar::Error;
        let say = |code, reason| Refusal::new(code, reason, &error);
        let refusal = match &error {
            Error::Refused(found) => return refused(found),
            Error::BaseRevision { current, .. } => {
                say(Code::Aborted, "BASE_REVISION_MISMATCH").with("current_revision", current)
            }
            Error::RequestIdReused { revision, .. } => {
                say(Code::AlreadyExists, "REQUEST_ID_REUSED").with("revision", revision)
            }
            Error::QueueFull => say(Code::ResourceExhausted, "WRITE_QUEUE_FULL")
                .retry_after(Duration::from_millis(500)),
            Error::Contended { .. } => {
                say(Code::Aborted, "CONTENTION").retry_after(Duration::from_millis(500))
            }
            Error::Database(error) => store_refusal(error),
            Error::OutcomeUnknown => {
                tracing::error!(%error, "a write's outcome is unknown");
                let message = format!("{error}; ask again with the same request_id to find out");
                Refusal::new(Code::Unavailable, "OUTCOME_UNKNOWN", message)
                    .retry_after(Duration::from_secs(2))
            }
            Error::Draining => say(Code::Unavailable, "DRAINING"),
            Error::Internal(_) => {
                tracing::error!(%error, "a write failed for a reason of our own");
                say(Code::Internal, "INTERNAL")
            }
        };
        refusal.into()
    }
}

impl From<history::Error> for Status {
    fn from(error: history::Error) -> Self {
        match error {
            history::Error::Page(error) => error.into(),
            history::Error::NoCommit { head, .. } => {
                let refusal = Refusal::new(Code::NotFound, "NOT_FOUND", &error);
                refusal.with("current_revision", head).into()
            }
            history::Error::Store(error) => store_refusal(&error).into(),
        }
    }
}

impl From<feed::Error> for Status {
    fn from(error: feed::Error) -> Self {
        use feed::Error;
        let say = |code, reason| Refusal::new(code, reason, &error);
        let refusal = match &error {
            Error::OtherRegistry { ours, .. } => {
                say(Code::FailedPrecondition, "REGISTRY_MISMATCH").with("registry_id", ours)
            }
            Error::OtherHistory { revision } => {
                say(Code::FailedPrecondition, "CHAIN_MISMATCH").with("revision", revision)
            }
            Error::Ahead { ours, .. } => {
                say(Code::FailedPrecondition, "AHEAD").with("current_revision", ours)
            }
            Error::NotSent { .. } => say(Code::InvalidArgument, "ACK_NOT_SENT"),
            Error::Unreadable(_) => say(Code::InvalidArgument, "INVALID_REQUEST"),
            Error::TooManyStreams { .. } => {
                say(Code::ResourceExhausted, "TOO_MANY_STREAMS").retry_after(Duration::from_secs(5))
            }
            Error::SlowReader { .. } => say(Code::ResourceExhausted, "SLOW_READER"),
            Error::Deadline => say(Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
            Error::Draining => say(Code::Unavailable, "DRAINING"),
            Error::Store(error) => store_refusal(error),
            Error::Gone => say(Code::Cancelled, "CANCELLED"),
        };
        refusal.into()
    }
}

/// What a caller hears of the database: the kind of trouble. The log hears the rest.
fn store_refusal(error: &store::Error) -> Refusal {
    use store::Error;
    let (code, reason, message) = match error {
        Error::Unavailable { .. } => (
            Code::Unavailable,
            "DATABASE_UNAVAILABLE",
            "the database does not answer; reads and streams go on, writes and history must wait",
        ),
        Error::ReadOnly { .. } => {
            (Code::Unavailable, "READ_ONLY", "the database takes no writes at the moment")
        }
        Error::Full { .. } => (Code::Unavailable, "DATABASE_FULL", "the database has no room left"),
        Error::Corrupt { .. } => (
            Code::DataLoss,
            "DATABASE_CORRUPT",
            "what the database holds is not what was stored; its operator must look at it",
        ),
        Error::SchemaVersion { .. }
        | Error::NotOurs { .. }
        | Error::Config { .. }
        | Error::Refused { .. } => {
            (Code::Internal, "INTERNAL", "the database refused what it should have taken")
        }
    };
    tracing::warn!(%error, reason, "a request failed at the database");
    Refusal::new(code, reason, message).retry_after(Duration::from_secs(2))
}
