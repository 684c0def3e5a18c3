//! The only place where an error becomes a gRPC status.
//!
//! Every status carries `google.rpc.ErrorInfo` with the domain `registry` and a stable reason. A rejected
//! batch also carries its findings. Addresses and paths of the database are only in the log.

mod reads;

use std::time::Duration;

use registry_core::Diagnostic;
use registry_proto::convert::validation_failure;
use tonic::{Code, Status};

use super::{findings, invalid::InvalidRequest, refusal::Refusal};
use crate::{
    access::Denied,
    app::{page::InvalidPage, tokens},
    feed, registrar, store,
};

/// Room for findings in a status, in bytes: details travel as a header, base64-encoded, and common
/// peers take 8 KiB of headers.
const FINDINGS_BYTES: usize = 5 * 1024;

/// A batch with errors. Findings that do not fit are left out, errors last; a dry run has more of
/// them.
pub(super) fn refused(found: &[Diagnostic]) -> Status {
    let errors = found.iter().filter(|found| found.is_error()).count();
    let mut failure = validation_failure(found);
    let help = "mend these, or see more of them by a dry run";
    failure.diagnostics = findings::fitting(failure.diagnostics, FINDINGS_BYTES, help);
    let message = format!("the batch was refused with {errors} errors; nothing was changed");
    Refusal::new(Code::InvalidArgument, "VALIDATION_FAILED", message)
        .with("errors", &errors)
        .with("findings", &found.len())
        .detail("registry.v1.ValidationFailure", &failure)
        .into()
}

/// The caller's deadline has passed; nothing is stored.
pub(super) fn deadline_exceeded(allowed: Duration) -> Status {
    let message = format!("no answer within {allowed:?}");
    Refusal::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message).into()
}

/// The caller's deadline has passed while something was being written.
pub(super) fn write_deadline_exceeded(allowed: Duration) -> Status {
    let message = format!("no answer within {allowed:?}; the write may still be stored");
    Refusal::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message).into()
}

/// Too many bytes of requests are arriving.
pub(super) fn intake_full() -> Status {
    let message = "the requests that are arriving hold all the memory that they may; try again";
    Refusal::new(Code::ResourceExhausted, "INTAKE_FULL", message)
        .retry_after(Duration::from_secs(1))
        .into()
}

/// A request is beyond the limit on messages, which is this for most methods.
pub(super) fn too_large(limit: usize) -> Status {
    let message = format!(
        "the request is larger than the server accepts; --max-message-bytes is {limit}, and requests about \
         tokens are limited to {} bytes",
        super::ACCESS_REQUEST_BYTES
    );
    Refusal::new(Code::OutOfRange, "MESSAGE_TOO_LARGE", message)
        .with("max_message_bytes", &limit)
        .into()
}

/// A handler panicked.
pub fn panicked() -> Status {
    let message = "internal error of the registry server; its log has the details";
    Refusal::new(Code::Internal, "INTERNAL", message).into()
}

/// There is no such entity.
pub(super) fn not_found(key: &registry_core::Key) -> Status {
    Refusal::new(Code::NotFound, "NOT_FOUND", format!("{key} is not registered"))
        .with("key", key)
        .into()
}

/// The gate does not let a call in.
pub fn denied(denied: &Denied) -> Status {
    let say = |code, reason| Refusal::new(code, reason, denied.to_string());
    let refusal = match denied {
        Denied::Missing => say(Code::Unauthenticated, "CREDENTIALS_MISSING"),
        Denied::Invalid(_) => say(Code::Unauthenticated, "CREDENTIALS_INVALID"),
        Denied::TokensUnavailable => say(Code::Unavailable, "DATABASE_UNAVAILABLE"),
        Denied::Forbidden { needs, .. } => {
            say(Code::PermissionDenied, "PERMISSION_DENIED").with("needs_one_of", needs)
        }
        Denied::UnknownRoute => return unimplemented(),
        Denied::RateLimited(wait) | Denied::TooManyFailures(wait) => {
            say(Code::ResourceExhausted, "RATE_LIMITED").retry_after(*wait)
        }
    };
    refusal.into()
}

/// A call came past the gate without a principal.
pub(super) fn nobody() -> Status {
    tracing::error!("a call came past the gate without a principal");
    Refusal::new(Code::Internal, "INTERNAL", "the server does not know who is calling").into()
}

impl From<tokens::Error> for Status {
    fn from(error: tokens::Error) -> Self {
        use tokens::Error;
        let say = |code, reason| Refusal::new(code, reason, error.to_string());
        let refusal = match &error {
            Error::Invalid(_) => say(Code::InvalidArgument, "INVALID_REQUEST"),
            Error::Beyond { .. } => say(Code::PermissionDenied, "PERMISSION_DENIED"),
            Error::TooMany => say(Code::ResourceExhausted, "TOO_MANY_TOKENS"),
            Error::Unknown(_) => say(Code::NotFound, "NOT_FOUND"),
            Error::Random => say(Code::Internal, "INTERNAL"),
            Error::Page(error) => return error.clone().into(),
            Error::Store(error) => store_refusal(error),
        };
        refusal.into()
    }
}

/// There is no such method.
pub fn unimplemented() -> Status {
    Refusal::new(Code::Unimplemented, "UNIMPLEMENTED", "there is no such method").into()
}

impl From<InvalidRequest> for Status {
    fn from(error: InvalidRequest) -> Self {
        let reason = match &error {
            InvalidRequest::TooLong { .. } | InvalidRequest::TooMany { .. } => "LIMIT_EXCEEDED",
            InvalidRequest::Control { .. }
            | InvalidRequest::Missing(_)
            | InvalidRequest::Field { .. }
            | InvalidRequest::Key(_)
            | InvalidRequest::Kind(_)
            | InvalidRequest::State(_)
            | InvalidRequest::At(_)
            | InvalidRequest::Setting(_)
            | InvalidRequest::Position(_)
            | InvalidRequest::Format(_) => "INVALID_REQUEST",
        };
        Refusal::new(Code::InvalidArgument, reason, error.to_string()).into()
    }
}

impl From<InvalidPage> for Status {
    fn from(error: InvalidPage) -> Self {
        let reason = match &error {
            InvalidPage::Size { .. } => "LIMIT_EXCEEDED",
            InvalidPage::Token | InvalidPage::OtherQuery => "PAGE_TOKEN_INVALID",
        };
        Refusal::new(Code::InvalidArgument, reason, error.to_string()).into()
    }
}

/// A verification of the log runs already.
pub(super) fn verification_running() -> Status {
    let message = "the log is being verified for somebody else; ask again when that is done";
    Refusal::new(Code::ResourceExhausted, "VERIFICATION_RUNNING", message.to_owned())
        .retry_after(Duration::from_secs(5))
        .into()
}

/// What a caller hears of the database.
pub(super) fn of_store(error: &store::Error) -> Status {
    store_refusal(error).into()
}

impl From<registrar::Error> for Status {
    fn from(error: registrar::Error) -> Self {
        use registrar::Error;
        let say = |code, reason| Refusal::new(code, reason, error.to_string());
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
            Error::Relay { upstream } => {
                say(Code::FailedPrecondition, "RELAY").with("upstream", upstream)
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

impl From<feed::Error> for Status {
    fn from(error: feed::Error) -> Self {
        use feed::Error;
        let say = |code, reason| Refusal::new(code, reason, error.to_string());
        let refusal = match &error {
            Error::RegistryMismatch { server, .. } => {
                say(Code::FailedPrecondition, "REGISTRY_MISMATCH").with("registry_id", server)
            }
            Error::HistoryMismatch { revision } => {
                say(Code::FailedPrecondition, "CHAIN_MISMATCH").with("revision", revision)
            }
            Error::FollowerAhead { server, .. } => {
                say(Code::FailedPrecondition, "AHEAD").with("current_revision", server)
            }
            Error::InvalidAck { .. } | Error::InvalidNack { .. } => {
                say(Code::InvalidArgument, "ACK_NOT_SENT")
            }
            Error::InvalidMessage(_) => say(Code::InvalidArgument, "INVALID_REQUEST"),
            Error::TooManyStreams { .. } => {
                say(Code::ResourceExhausted, "TOO_MANY_STREAMS").retry_after(Duration::from_secs(5))
            }
            Error::TooManyScopes { .. } => {
                say(Code::ResourceExhausted, "TOO_MANY_SCOPES").retry_after(Duration::from_mins(1))
            }
            Error::ScopeQuotaExceeded { .. } => say(Code::ResourceExhausted, "TOO_MANY_OWN_SCOPES")
                .retry_after(Duration::from_mins(1)),
            Error::UpstreamScopeLimit { .. } => {
                say(Code::ResourceExhausted, "TOO_MANY_UPSTREAM_SCOPES")
                    .retry_after(Duration::from_mins(1))
            }
            Error::SlowReader { .. } => say(Code::ResourceExhausted, "SLOW_READER"),
            Error::Deadline => say(Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
            Error::CredentialsEnded => say(Code::Unauthenticated, "CREDENTIALS_INVALID"),
            Error::Draining => say(Code::Unavailable, "DRAINING"),
            Error::RelayNotReady => say(Code::Unavailable, "SYNCING"),
            Error::Store(error) => store_refusal(error),
            Error::Disconnected => say(Code::Cancelled, "CANCELLED"),
        };
        refusal.into()
    }
}

/// A bug of ours, while nothing was being written.
pub(super) fn internal(error: &dyn ToString) -> Status {
    let message = error.to_string();
    tracing::error!(error = message, "a request failed for a reason of our own");
    Refusal::new(Code::Internal, "INTERNAL", message).into()
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
        Error::FileReplaced { .. } => (
            Code::Unavailable,
            "DATABASE_FILE_MISSING",
            "the database file was deleted or replaced while the server runs; reads and streams go \
             on, writes are rejected until its operator restores it",
        ),
        Error::Full { .. } => (Code::Unavailable, "DATABASE_FULL", "the database has no room left"),
        Error::Corrupt { .. } => (
            Code::DataLoss,
            "DATABASE_CORRUPT",
            "what the database holds is not what was stored; its operator must look at it",
        ),
        Error::NewerData { .. } => (
            Code::Unavailable,
            "DATABASE_NEWER",
            "a newer registry-server writes this database; reads and streams go on, and another \
             server may take the write: this one is to be replaced",
        ),
        Error::SchemaTooNew { .. }
        | Error::SchemaMismatch { .. }
        | Error::NotARegistry { .. }
        | Error::Config { .. }
        | Error::StatementRejected { .. } => {
            (Code::Internal, "INTERNAL", "the database refused what it should have taken")
        }
    };
    tracing::warn!(%error, reason, "a request failed at the database");
    let refusal = Refusal::new(code, reason, message);
    // What only an operator can cure is not worth asking again soon.
    if code == Code::Unavailable { refusal.retry_after(Duration::from_secs(2)) } else { refusal }
}
