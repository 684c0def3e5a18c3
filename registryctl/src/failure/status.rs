//! From a gRPC status to a failure. The registry's own refusals carry an `ErrorInfo`; a status
//! with a source was made on this side, by a connection that failed.

use std::error::Error as _;

use prost::Message as _;
use registry_proto::{convert::VALIDATION_FAILURE_URL, v1};
use tonic::{Code, Status};
use tonic_types::{StatusExt as _, pb};

use super::{Failure, root_cause};
use crate::address::Address;

/// What tonic says of an answer that does not come from a gRPC server.
const NOT_GRPC: &str = "grpc-status header missing";

/// Why a connection over TLS may have broken.
const CLOSED: &str = "; if it was shown a client certificate, it may have refused that: its log \
                      (and `registry_tls_client_certificates_rejected_total`) says so, and why";

impl Failure {
    /// What a refused or failed call means.
    pub(crate) fn from_status(address: &Address, status: &Status) -> Self {
        if let Some(source) = status.source() {
            let reason = root_cause(source).to_lowercase();
            // The server judges a certificate when the connection is up for the client.
            let hint = if address.is_tls() { CLOSED } else { "" };
            return Self::Unreachable {
                address: address.to_string(),
                reason: format!("{reason}{hint}"),
            };
        }
        if let Some(failure) = validation_failure(status) {
            return Self::Invalid(failure.diagnostics);
        }
        if status.message().contains(NOT_GRPC) {
            let message = status.message();
            return Self::Answer(format!("what answers at {address} is no registry: {message}"));
        }
        let info = status.get_details_error_info();
        let reason = info.map(|info| info.reason).unwrap_or_default();
        let message = status.message().to_owned();
        match status.code() {
            Code::Unavailable if reason.is_empty() => {
                Self::Unreachable { address: address.to_string(), reason: message }
            }
            Code::NotFound
            | Code::InvalidArgument
            | Code::Aborted
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::PermissionDenied
            | Code::Unauthenticated => Self::Refused { reason, message },
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
    fn every_kind_of_status_has_its_exit_code() {
        assert_eq!(failure(&Status::not_found("no such tool")).exit_code(), 1);
        assert_eq!(failure(&Status::aborted("base revision")).exit_code(), 1);
        assert_eq!(failure(&Status::unavailable("tcp")).exit_code(), 3);
        assert_eq!(failure(&Status::internal("bug")).exit_code(), 4);
        let details = ErrorDetails::with_error_info("READ_ONLY", "registry", []);
        let status = Status::with_error_details(Code::Unavailable, "the store is away", details);
        let read_only = failure(&status);
        assert_eq!(read_only.exit_code(), 4);
        assert_eq!(read_only.to_string(), "the registry failed (READ_ONLY): the store is away");
    }

    #[test]
    fn a_refused_batch_brings_its_findings() {
        let found = v1::Diagnostic { code: "provision-unknown".into(), ..Default::default() };
        let any = prost_types::Any {
            type_url: VALIDATION_FAILURE_URL.to_owned(),
            value: v1::ValidationFailure { diagnostics: vec![found] }.encode_to_vec(),
        };
        let details = pb::Status { code: 3, message: String::new(), details: vec![any] };
        let details = details.encode_to_vec().into();
        let status = Status::with_details(Code::InvalidArgument, "refused", details);
        let Failure::Invalid(found) = failure(&status) else { panic!("not the findings") };
        assert_eq!(found[0].code, "provision-unknown");
    }
}
