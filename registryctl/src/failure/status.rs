//! Conversion of a gRPC status to a failure. Errors of the registry carry an `ErrorInfo`. A status with
//! a source was created locally, by a failed connection.

use std::error::Error as _;

use prost::Message as _;
use registry_proto::{convert::VALIDATION_FAILURE_URL, v1};
use tonic::{Code, Status};
use tonic_types::{StatusExt as _, pb};

use super::{Failure, root_cause};
use crate::address::Address;

/// The message of tonic for a response of another HTTP server.
const NOT_GRPC: &str = "grpc-status header missing";

/// A possible cause of a lost TLS connection.
const CLOSED: &str = "; the server may have rejected the client certificate: see its log";

impl Failure {
    /// The failure of a call.
    pub(crate) fn from_status(address: &Address, status: &Status) -> Self {
        if let Some(source) = status.source() {
            let reason = root_cause(source).to_lowercase();
            // In TLS 1.3, the server verifies the certificate after the client has connected.
            let hint = if address.is_tls() { CLOSED } else { "" };
            return Self::unreachable(address, format!("{reason}{hint}"));
        }
        if let Some(failure) = validation_failure(status) {
            return Self::Invalid(failure.diagnostics);
        }
        if status.message().contains(NOT_GRPC) {
            let message = status.message();
            return Self::InvalidResponse(format!(
                "the server at {address} is not a registry ({message}); the default port of a \
                 registry is 7070"
            ));
        }
        let info = status.get_details_error_info();
        let reason = info.map(|info| info.reason).unwrap_or_default();
        let message = status.message().to_owned();
        match status.code() {
            Code::Unavailable if reason.is_empty() => Self::unreachable(address, message),
            Code::NotFound
            | Code::InvalidArgument
            | Code::Aborted
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::Unauthenticated => Self::RequestRejected { reason, message },
            code => {
                let code = if reason.is_empty() { format!("{code:?}") } else { reason };
                Self::Server { code, message }
            }
        }
    }
}

/// The findings in the details of a status.
fn validation_failure(status: &Status) -> Option<v1::ValidationFailure> {
    let details = pb::Status::decode(status.details()).ok()?.details;
    let any = details.into_iter().find(|any| any.type_url == VALIDATION_FAILURE_URL)?;
    v1::ValidationFailure::decode(any.value.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use tonic::Status;
    use tonic_types::ErrorDetails;

    use super::*;

    fn failure(status: &Status) -> Failure {
        Failure::from_status(&"localhost:7070".parse().unwrap(), status)
    }

    #[test]
    fn status_codes_have_exit_codes() {
        assert_eq!(failure(&Status::not_found("no such tool")).exit_code(), 1);
        assert_eq!(failure(&Status::aborted("base revision")).exit_code(), 1);
        assert_eq!(failure(&Status::unavailable("tcp")).exit_code(), 3);
        assert_eq!(failure(&Status::internal("bug")).exit_code(), 4);
        let details = ErrorDetails::with_error_info("READ_ONLY", "registry", []);
        let status =
            Status::with_error_details(Code::Unavailable, "the store is read-only", details);
        let read_only = failure(&status);
        assert_eq!(read_only.exit_code(), 4);
        assert_eq!(read_only.reason(), Some("READ_ONLY"));
    }

    #[test]
    fn rejected_batches_carry_findings() {
        let found = v1::Diagnostic { code: "provision-unknown".into(), ..Default::default() };
        let any = prost_types::Any {
            type_url: VALIDATION_FAILURE_URL.to_owned(),
            value: v1::ValidationFailure { diagnostics: vec![found] }.encode_to_vec(),
        };
        let details = pb::Status { code: 3, message: String::new(), details: vec![any] };
        let details = details.encode_to_vec().into();
        let status = Status::with_details(Code::InvalidArgument, "rejected", details);
        let Failure::Invalid(found) = failure(&status) else { panic!("no findings") };
        assert_eq!(found[0].code, "provision-unknown");
    }
}
