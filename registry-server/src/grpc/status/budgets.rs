//! The statuses of failed calls of the ledger.

use std::time::Duration;

use ledger::budget::ReclaimError;
use tonic::{Code, Status};

use super::{super::refusal::Refusal, store_refusal};
use crate::{
    access::Roles,
    app::ledger::{AdminError, Error},
};

/// The delay before a report is repeated after an incomplete transaction.
const RETRY: Duration = Duration::from_millis(100);
/// The delay before the end of a process is repeated.
const END_RETRY: Duration = Duration::from_secs(10);
/// The delay before a report is repeated while a relay has no connection to its upstream.
const UPSTREAM_RETRY: Duration = Duration::from_secs(1);

/// A caller without the role of a relay reports for another gateway, or subscribes to the recalls of all gateways.
pub(crate) fn forwarding_denied(name: &str, needs: Roles) -> Status {
    let message = format!(
        "permission denied: `{name}` reports for itself only; reports and recalls of other gateways require the \
         role {}",
        needs.to_string().replace(' ', " or ")
    );
    Refusal::new(Code::PermissionDenied, "PERMISSION_DENIED", message)
        .with("needsOneOf", &needs)
        .into()
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let say = |code, reason| Refusal::new(code, reason, error.to_string());
        let refusal = match &error {
            Error::UnknownGeneration(_) => {
                say(Code::FailedPrecondition, "UNKNOWN_GENERATION").field("generation")
            }
            Error::SeveralProcesses(_) => {
                say(Code::InvalidArgument, "INVALID_REQUEST").field("owner")
            }
            Error::ProcessRunning { .. } => {
                say(Code::FailedPrecondition, "PROCESS_RUNNING").retry_after(END_RETRY)
            }
            Error::TooManyWatchers(_) => say(Code::ResourceExhausted, "TOO_MANY_STREAMS"),
            Error::Incomplete => {
                say(Code::Unavailable, "LEDGER_TRANSACTION_FAILED").retry_after(RETRY)
            }
            Error::Upstream { upstream, .. } => say(Code::Unavailable, "UPSTREAM_UNAVAILABLE")
                .with("upstream", upstream)
                .retry_after(UPSTREAM_RETRY),
            Error::Rejected(_) => say(Code::InvalidArgument, "INVALID_REQUEST"),
            Error::Store(error) => store_refusal(error),
        };
        refusal.into()
    }
}

impl From<AdminError> for Status {
    fn from(error: AdminError) -> Self {
        let say = |code, reason| Refusal::new(code, reason, error.to_string());
        let refusal = match &error {
            AdminError::Relay(upstream) => {
                say(Code::FailedPrecondition, "READ_ONLY_RELAY").with("upstream", upstream)
            }
            AdminError::UnknownBudget(_)
            | AdminError::UnknownSubject(_)
            | AdminError::Unused(_)
            | AdminError::Reclaim(ReclaimError::Unknown) => say(Code::NotFound, "NOT_FOUND"),
            AdminError::ClosedWindow { current, .. } => {
                say(Code::FailedPrecondition, "WINDOW_CLOSED").with("currentWindow", current)
            }
            AdminError::OutsideScope { .. } => say(Code::PermissionDenied, "PERMISSION_DENIED"),
            AdminError::OutOfRange { .. } | AdminError::Reclaim(ReclaimError::OutOfRange) => {
                say(Code::OutOfRange, "AMOUNT_OUT_OF_RANGE")
            }
            AdminError::Reclaim(ReclaimError::TooEarly(after)) => {
                say(Code::FailedPrecondition, "GATEWAY_MAY_SPEND").with("retryAfter", after)
            }
            AdminError::Reclaim(ReclaimError::Closed) => {
                say(Code::FailedPrecondition, "ACCOUNT_CLOSED")
            }
            AdminError::Page(error) => return error.clone().into(),
            AdminError::Ledger(error) => return error.clone().into(),
        };
        refusal.into()
    }
}
