//! The statuses of failed calls about approvals.

use approval::{CancelError, DecideError};
use tonic::{Code, Status};

use super::super::refusal::Refusal;
use crate::app::approvals::Error;

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let say = |code, reason| Refusal::new(code, reason, error.to_string());
        let refusal = match &error {
            Error::Relay(upstream) => {
                say(Code::FailedPrecondition, "READ_ONLY_RELAY").with("upstream", upstream)
            }
            Error::UnknownRequest(_)
            | Error::UnknownGrant(_)
            | Error::Cancel(CancelError::NotFound) => say(Code::NotFound, "NOT_FOUND"),
            Error::Decide(reason) => decision_refusal(*reason),
            Error::Cancel(CancelError::NotOpen(state)) => {
                say(Code::FailedPrecondition, "APPROVAL_NOT_OPEN").with("state", state)
            }
            Error::Cancel(CancelError::OtherCaller) => {
                say(Code::PermissionDenied, "PERMISSION_DENIED")
            }
            Error::Page(error) => return error.clone().into(),
            Error::Encryption => say(Code::Internal, "INTERNAL"),
            Error::Ledger(error) => return error.clone().into(),
        };
        refusal.into()
    }
}

fn decision_refusal(error: DecideError) -> Refusal {
    let say = |code, reason| Refusal::new(code, reason, error.to_string());
    match error {
        DecideError::NotFound => say(Code::NotFound, "NOT_FOUND"),
        DecideError::NotPending(state) => {
            say(Code::FailedPrecondition, "APPROVAL_NOT_PENDING").with("state", &state)
        }
        DecideError::Ineligible(_) | DecideError::ConfirmationOnly => {
            say(Code::PermissionDenied, "APPROVER_INELIGIBLE")
        }
        DecideError::Repeated | DecideError::Met => {
            say(Code::FailedPrecondition, "APPROVAL_DECIDED")
        }
        DecideError::Sensitive => say(Code::FailedPrecondition, "APPROVAL_SEPARATELY"),
        DecideError::Reason => say(Code::InvalidArgument, "INVALID_REQUEST").field("deny.reason"),
        DecideError::NoStanding => say(Code::FailedPrecondition, "GRANT_NOT_PERMITTED"),
        DecideError::StandingEnd(latest) => {
            say(Code::FailedPrecondition, "GRANT_NOT_PERMITTED").with("latestEnd", &latest)
        }
        DecideError::TooManyGrants => say(Code::FailedPrecondition, "TOO_MANY_GRANTS"),
    }
}
