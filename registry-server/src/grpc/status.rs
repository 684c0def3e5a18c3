//! The only place where an error becomes a gRPC status.
//!
//! Every status carries `google.rpc.ErrorInfo` with the domain `registry` and a stable reason. A rejected
//! batch also carries its findings. Addresses and paths of the database are only in the log.

mod approvals;
mod budgets;
pub(crate) mod connect;
mod reads;

use std::time::Duration;

use registry_core::{Code as Finding, Diagnostic};
use registry_proto::convert::{InvalidBatch, LedgerProblem, validation_failure};
use tonic::{Code, Status};

pub(super) use self::budgets::forwarding_denied;
use super::{findings, invalid::InvalidRequest, refusal::Refusal};
use crate::{
    access::Denied,
    app::{page::InvalidPage, tokens},
    feed,
    registrar::{self, audit_events::is_denial},
    store,
};

/// The size of the findings in a status. Details are a base64 header, and common peers accept 8 KiB of headers.
const FINDINGS_BYTES: usize = 5 * 1024;

/// The delay before a retry while the database is unavailable.
const DATABASE_RETRY: Duration = Duration::from_secs(2);

/// The delay before a retry at another server, or at a relay that starts.
const SERVER_RETRY: Duration = Duration::from_secs(1);

/// The length of a finding in the message of a status.
const SUMMARY_CHARACTERS: usize = 500;

/// A batch with errors. Findings that do not fit are omitted, errors last; `validate_only` returns more of them.
pub(super) fn rejected(found: &[Diagnostic]) -> Status {
    rejected_batch(&InvalidBatch { diagnostics: found.to_vec(), subject: None })
}

/// The same for a batch that cannot be read.
pub(super) fn rejected_batch(batch: &InvalidBatch) -> Status {
    let InvalidBatch { diagnostics: found, subject } = batch;
    let errors = found.iter().filter(|found| found.is_error()).count();
    let mut failure = validation_failure(found);
    let help = "correct these, or see more of them with validate_only";
    failure.diagnostics = findings::fitting(failure.diagnostics, FINDINGS_BYTES, help);
    let message = summary(found, subject.as_deref());
    Refusal::new(code_of(found), "VALIDATION_FAILED", message)
        .with("errors", &errors)
        .with("findings", &found.len())
        .detail("registry.v1.ValidationFailure", &failure)
        .into()
}

/// The first error with its subject, and the number of others.
fn summary(found: &[Diagnostic], subject: Option<&str>) -> String {
    let mut errors = found.iter().filter(|found| found.is_error());
    let Some(first) = errors.next() else { return "the batch is invalid".to_owned() };
    let subject = match (subject, &first.entity, first.change) {
        (_, Some(key), _) => format!("{key}: "),
        (Some(subject), None, _) => format!("{subject}: "),
        (None, None, Some(index)) => format!("changes[{index}]: "),
        (None, None, None) => String::new(),
    };
    let message: String = first.message.chars().take(SUMMARY_CHARACTERS).collect();
    match errors.count() {
        0 => format!("{subject}{message}"),
        more => format!("{subject}{message}; and {more} more"),
    }
}

/// The status code of a rejected batch: `INVALID_ARGUMENT` if no state of the registry would accept it,
/// `PERMISSION_DENIED` if all errors are about ownership, otherwise `FAILED_PRECONDITION`.
fn code_of(found: &[Diagnostic]) -> Code {
    let errors = || found.iter().filter(|found| found.is_error()).map(|found| found.code);
    if errors().all(is_denial) {
        Code::PermissionDenied
    } else if errors().all(|code| is_denial(code) || depends_on_state(code)) {
        Code::FailedPrecondition
    } else {
        Code::InvalidArgument
    }
}

fn depends_on_state(code: Finding) -> bool {
    match code {
        Finding::AlreadyRegistered
        | Finding::NotRegistered
        | Finding::SchemaUnresolved
        | Finding::ProvisionUnknown
        | Finding::SourceUnknown
        | Finding::SourceNotProvided
        | Finding::ToolNameShared
        | Finding::DependencyUnknown
        | Finding::DependencySkillUnknown
        | Finding::DeprecatedDependency
        | Finding::ReplacementUnknown
        | Finding::StillNeeded
        | Finding::NameArchived
        | Finding::BreakingChange
        | Finding::CompatibilityUndecided
        | Finding::PolicyIncompatible
        | Finding::PolicyVersionRegresses
        | Finding::PolicySelectorUnmatched
        | Finding::PolicyArgumentUndeclared
        | Finding::PolicyUnsatisfiable
        | Finding::PolicyRelaxed
        | Finding::PolicyTightened
        | Finding::BudgetRedefined
        | Finding::BudgetUnpriced
        | Finding::PriceOverlap
        | Finding::InspectionIneffective => true,
        Finding::NameInvalid
        | Finding::VersionInvalid
        | Finding::DocumentInvalid
        | Finding::PolicyInvalid
        | Finding::PolicyDeniesAll
        | Finding::PolicyEmpty
        | Finding::SchemaInvalid
        | Finding::SchemaKeywordUnknown
        | Finding::SchemaCycle
        | Finding::ImplementationAmbiguous
        | Finding::DependencyCycle
        | Finding::DependencyUndeclared
        | Finding::DependencyAmbiguous
        | Finding::CompositionInvalid
        | Finding::CompositionMismatch
        | Finding::HeaderAnnotationInvalid
        | Finding::AnnotationDoubtful
        | Finding::ServerJsonInvalid
        | Finding::SettingInvalid
        | Finding::NotOwner
        | Finding::OutsideScope
        | Finding::RoleRequired
        | Finding::BudgetAlertAboveLimit
        | Finding::SchemaUnused
        | Finding::FindingsTruncated => false,
    }
}

/// The deadline of a call without side effects has passed.
pub(super) fn deadline_exceeded(allowed: Duration) -> Status {
    let message = format!("no answer within {allowed:?}");
    Refusal::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message).into()
}

/// The deadline of a write has passed.
pub(super) fn write_deadline_exceeded(allowed: Duration) -> Status {
    let message = format!("no answer within {allowed:?}; the write may still be committed");
    Refusal::new(Code::DeadlineExceeded, "DEADLINE_EXCEEDED", message).into()
}

/// The memory for incoming requests is exhausted.
pub(super) fn intake_full() -> Status {
    let message = "the memory limit of incoming requests is reached; retry later";
    Refusal::new(Code::ResourceExhausted, "REQUEST_MEMORY_LIMIT", message)
        .retry_after(Duration::from_secs(1))
        .into()
}

/// A request is larger than a message may be.
pub fn too_large(limit: usize) -> Status {
    let message = format!(
        "the request is larger than the server accepts; --max-message-bytes is {limit}, and requests about \
         tokens are limited to {} bytes",
        super::ACCESS_REQUEST_BYTES
    );
    Refusal::new(Code::OutOfRange, "MESSAGE_TOO_LARGE", message)
        .with("maxMessageBytes", &limit)
        .into()
}

/// A handler panicked.
pub fn panicked() -> Status {
    let message = "internal error of the registry server; its log has the details";
    Refusal::new(Code::Internal, "INTERNAL", message).into()
}

/// The entity is not registered.
pub(super) fn not_found(key: &registry_core::Key) -> Status {
    Refusal::new(Code::NotFound, "NOT_FOUND", format!("{key} is not registered"))
        .with("key", key)
        .into()
}

/// A call is not authenticated or not authorized.
pub fn denied(denied: &Denied) -> Status {
    let say = |code, reason| Refusal::new(code, reason, denied.to_string());
    let refusal = match denied {
        Denied::Missing => say(Code::Unauthenticated, "CREDENTIALS_MISSING"),
        Denied::Invalid(_) => say(Code::Unauthenticated, "CREDENTIALS_INVALID"),
        Denied::TokensUnavailable => {
            say(Code::Unavailable, "DATABASE_UNAVAILABLE").retry_after(DATABASE_RETRY)
        }
        Denied::Forbidden { needs, .. } => {
            say(Code::PermissionDenied, "PERMISSION_DENIED").with("needsOneOf", needs)
        }
        Denied::UnknownRoute => return unimplemented(),
        Denied::RateLimited(wait) | Denied::TooManyFailures(wait) => {
            say(Code::ResourceExhausted, "RATE_LIMITED").retry_after(*wait)
        }
    };
    refusal.into()
}

/// A handler runs without a principal, which is a bug.
pub(super) fn principal_missing() -> Status {
    tracing::error!("a handler runs without a principal");
    Refusal::new(Code::Internal, "INTERNAL", "the caller was not authenticated").into()
}

impl From<tokens::Error> for Status {
    fn from(error: tokens::Error) -> Self {
        use tokens::Error;
        let say = |code, reason| Refusal::new(code, reason, error.to_string());
        let refusal = match &error {
            Error::Invalid(invalid) => {
                say(Code::InvalidArgument, "INVALID_REQUEST").field(invalid.field())
            }
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

/// The method does not exist.
pub fn unimplemented() -> Status {
    let message = "unknown method; use a client of this version, or a method in /openapi.json";
    Refusal::new(Code::Unimplemented, "UNIMPLEMENTED", message).into()
}

impl From<InvalidRequest> for Status {
    fn from(error: InvalidRequest) -> Self {
        let reason = match &error {
            InvalidRequest::TooLong { .. } | InvalidRequest::TooMany { .. } => "LIMIT_EXCEEDED",
            InvalidRequest::Ledger(invalid) => match invalid.problem {
                LedgerProblem::TooLong { .. } | LedgerProblem::TooMany { .. } => "LIMIT_EXCEEDED",
                LedgerProblem::Missing
                | LedgerProblem::Epoch(_)
                | LedgerProblem::Control(_)
                | LedgerProblem::OutOfRange
                | LedgerProblem::UnknownValue(_) => "INVALID_REQUEST",
            },
            InvalidRequest::Control { .. }
            | InvalidRequest::Missing(_)
            | InvalidRequest::Field { .. }
            | InvalidRequest::Key(_)
            | InvalidRequest::Kind(_)
            | InvalidRequest::State(_)
            | InvalidRequest::At(_)
            | InvalidRequest::Position(_)
            | InvalidRequest::Format(_) => "INVALID_REQUEST",
        };
        Refusal::new(Code::InvalidArgument, reason, error.to_string()).field(error.field()).into()
    }
}

impl From<InvalidPage> for Status {
    fn from(error: InvalidPage) -> Self {
        let (reason, field) = match &error {
            InvalidPage::Size(_) => ("INVALID_REQUEST", "page_size"),
            InvalidPage::Token | InvalidPage::OtherQuery => ("PAGE_TOKEN_INVALID", "page_token"),
        };
        Refusal::new(Code::InvalidArgument, reason, error.to_string()).field(field).into()
    }
}

/// A verification of the log is running.
pub(super) fn verification_running() -> Status {
    let message = "another verification of the log is running; retry when it has ended";
    Refusal::new(Code::ResourceExhausted, "VERIFICATION_RUNNING", message.to_owned())
        .retry_after(Duration::from_secs(5))
        .into()
}

/// The status of a failed database call.
pub(super) fn of_store(error: &store::Error) -> Status {
    store_refusal(error).into()
}

impl From<registrar::Error> for Status {
    fn from(error: registrar::Error) -> Self {
        use registrar::Error;
        let say = |code, reason| Refusal::new(code, reason, error.to_string());
        let refusal = match &error {
            Error::Refused(found) => return rejected(found),
            Error::BaseRevision { current, .. } => {
                say(Code::Aborted, "BASE_REVISION_MISMATCH").with("currentRevision", current)
            }
            Error::DigestMismatch { key, .. } => {
                say(Code::Aborted, "DIGEST_MISMATCH").with("key", key)
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
                // Default retry policies repeat UNAVAILABLE, which is safe with a request_id only.
                let message =
                    format!("{error}; repeat the request with the same request_id to find out");
                Refusal::new(Code::Unknown, "OUTCOME_UNKNOWN", message)
            }
            Error::Relay { upstream } => {
                say(Code::FailedPrecondition, "READ_ONLY_RELAY").with("upstream", upstream)
            }
            Error::Draining => say(Code::Unavailable, "DRAINING").retry_after(SERVER_RETRY),
            Error::Internal(_) => {
                tracing::error!(%error, "internal error while handling a write");
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
        let refusal =
            match &error {
                Error::RegistryMismatch { server, .. } => {
                    say(Code::FailedPrecondition, "REGISTRY_MISMATCH").with("registryId", server)
                }
                Error::HistoryMismatch { revision } => {
                    say(Code::FailedPrecondition, "CHAIN_MISMATCH").with("revision", revision)
                }
                Error::FollowerAhead { server: ours, .. } => {
                    say(Code::FailedPrecondition, "FOLLOWER_AHEAD").with("currentRevision", ours)
                }
                Error::PoliciesUnsupported => say(Code::FailedPrecondition, "CAPABILITY_MISSING"),
                Error::InvalidAck { .. } | Error::InvalidNack { .. } => {
                    say(Code::InvalidArgument, "INVALID_ACK")
                }
                Error::InvalidMessage(_) => say(Code::InvalidArgument, "INVALID_REQUEST"),
                Error::TooManyStreams { .. } => say(Code::ResourceExhausted, "TOO_MANY_STREAMS")
                    .retry_after(Duration::from_secs(5)),
                Error::TooManyScopes { .. } => say(Code::ResourceExhausted, "TOO_MANY_SCOPES")
                    .retry_after(Duration::from_mins(1)),
                Error::ScopeQuotaExceeded { .. } => {
                    say(Code::ResourceExhausted, "SCOPE_QUOTA_EXCEEDED")
                        .retry_after(Duration::from_mins(1))
                }
                Error::UpstreamScopeLimit { .. } => {
                    say(Code::ResourceExhausted, "UPSTREAM_SCOPE_LIMIT")
                        .retry_after(Duration::from_mins(1))
                }
                Error::SlowReader { .. } => say(Code::ResourceExhausted, "SLOW_READER"),
                Error::Deadline => say(Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
                Error::CredentialsEnded => say(Code::Unauthenticated, "CREDENTIALS_INVALID"),
                Error::Draining => say(Code::Unavailable, "DRAINING").retry_after(SERVER_RETRY),
                Error::RelayNotReady => {
                    say(Code::Unavailable, "RELAY_NOT_READY").retry_after(SERVER_RETRY)
                }
                Error::Store(error) => store_refusal(error),
                Error::Disconnected => say(Code::Cancelled, "CANCELLED"),
            };
        refusal.into()
    }
}

/// A bug in a handler that writes nothing.
pub(super) fn internal(error: &dyn ToString) -> Status {
    let message = error.to_string();
    tracing::error!(error = message, "internal error while handling a request");
    Refusal::new(Code::Internal, "INTERNAL", message).into()
}

/// The class of a database error. The log has the details.
fn store_refusal(error: &store::Error) -> Refusal {
    use store::Error;
    let (code, reason, message) = match error {
        Error::Unavailable { .. } => (
            Code::Unavailable,
            "DATABASE_UNAVAILABLE",
            "the database does not respond; reads and streams continue, writes and history are unavailable",
        ),
        Error::ReadOnly { .. } => (Code::Unavailable, "READ_ONLY", "the database is read-only"),
        Error::FileReplaced { .. } => (
            Code::Unavailable,
            "DATABASE_FILE_MISSING",
            "the database file was deleted or replaced; reads and streams continue, writes are rejected until an \
             operator restores it",
        ),
        Error::Full { .. } => (Code::Unavailable, "DATABASE_FULL", "the database is full"),
        Error::Corrupt { .. } => (
            Code::DataLoss,
            "DATABASE_CORRUPT",
            "the database is corrupt; an operator must inspect it",
        ),
        Error::NewerData { .. } => (
            Code::Unavailable,
            "DATABASE_SCHEMA_TOO_NEW",
            "a newer registry-server has upgraded this database; reads and streams continue. Send writes to \
             another server, and upgrade this one",
        ),
        Error::SchemaTooNew { .. }
        | Error::SchemaMismatch { .. }
        | Error::NotARegistry { .. }
        | Error::Config { .. }
        | Error::StatementRejected { .. } => {
            (Code::Internal, "INTERNAL", "the database rejected a statement of the server")
        }
    };
    tracing::warn!(%error, reason, "a request failed at the database");
    let refusal = Refusal::new(code, reason, message);
    // Other errors need an operator, so retries are useless.
    if code == Code::Unavailable { refusal.retry_after(DATABASE_RETRY) } else { refusal }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(codes: &[Finding]) -> Vec<Diagnostic> {
        codes.iter().map(|code| Diagnostic::error(*code, "", format!("{code} is wrong"))).collect()
    }

    #[test]
    fn code_tells_ownership_and_state_apart() {
        let code = |codes: &[Finding]| code_of(&errors(codes));
        assert_eq!(code(&[Finding::NotOwner, Finding::OutsideScope]), Code::PermissionDenied);
        assert_eq!(code(&[Finding::NotOwner, Finding::StillNeeded]), Code::FailedPrecondition);
        assert_eq!(code(&[Finding::StillNeeded, Finding::NameInvalid]), Code::InvalidArgument);
        let mut warned = errors(&[Finding::NotOwner]);
        warned.push(Diagnostic::warning(Finding::SchemaUnused, "", "unused"));
        assert_eq!(code_of(&warned), Code::PermissionDenied);
    }

    #[test]
    fn message_has_the_first_error() {
        let mut found = errors(&[Finding::NameInvalid, Finding::StillNeeded]);
        found.insert(0, Diagnostic::warning(Finding::SchemaUnused, "", "unused"));
        assert_eq!(
            summary(&found, Some("tool \"a b\"")),
            "tool \"a b\": name-invalid is wrong; and 1 more"
        );
        found[1].entity = Some("tool/a@1.0.0".parse().unwrap());
        assert_eq!(summary(&found, Some("x")), "tool/a@1.0.0: name-invalid is wrong; and 1 more");
        found.truncate(2);
        found[1].entity = None;
        found[1].change = Some(7);
        assert_eq!(summary(&found, None), "changes[7]: name-invalid is wrong");
    }

    #[test]
    fn unknown_outcome_is_not_retried_by_default() {
        let status = Status::from(registrar::Error::OutcomeUnknown);
        assert_eq!(status.code(), Code::Unknown);
    }
}
