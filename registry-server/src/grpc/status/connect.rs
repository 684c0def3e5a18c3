//! The statuses of requests that cannot become gRPC requests.

use http::HeaderMap;
use prost::Message as _;
use prost_types::Any;
use registry_core::document::InvalidJson;
use tonic::{Code, Status};
use tonic_types::pb;

use super::super::refusal::Refusal;

/// The status in the headers or trailers of a gRPC response.
pub(crate) fn read(headers: &HeaderMap) -> Option<Status> {
    Status::from_header_map(headers)
}

/// The details of a status.
pub(crate) fn details(status: &Status) -> Vec<Any> {
    pb::Status::decode(status.details()).unwrap_or_default().details
}

/// A page of an origin that is not allowed.
pub(crate) fn foreign_origin() -> Status {
    let message = "requests of web pages of this origin are rejected; an operator can allow it with \
                   --cors-origin";
    Refusal::new(Code::PermissionDenied, "ORIGIN_DENIED", message).into()
}

/// A request over the loopback interface for another host, as with DNS rebinding.
pub(crate) fn foreign_host(reason: &str) -> Status {
    Refusal::new(Code::PermissionDenied, "ORIGIN_DENIED", reason).into()
}

/// A method with a stream, which Connect clients cannot call.
pub(crate) fn streaming_method(path: &str) -> Status {
    let message = format!(
        "{path} has a stream, which is not available over Connect; call it over gRPC or gRPC-web"
    );
    Refusal::new(Code::Unimplemented, "UNIMPLEMENTED", message).into()
}

/// A `GET` of a method with side effects.
pub(crate) fn side_effects(path: &str) -> Status {
    let message = format!("{path} has side effects: call it with POST");
    Refusal::new(Code::Unimplemented, "UNIMPLEMENTED", message).into()
}

/// A message in a compression that the server cannot read.
pub(crate) fn unknown_compression(name: &str) -> Status {
    let message = format!("unknown compression {name:?}: the server reads gzip and identity");
    Refusal::new(Code::Unimplemented, "UNIMPLEMENTED", message).into()
}

/// A header or query parameter with an invalid value.
pub(crate) fn invalid_parameter(name: &str, problem: &str) -> Status {
    invalid(format!("{name}: {problem}")).field(name).into()
}

/// A body that is not gzip.
pub(crate) fn invalid_gzip(problem: &dyn ToString) -> Status {
    invalid(format!("the message is not valid gzip: {}", problem.to_string())).into()
}

/// A body that is not JSON.
pub(crate) fn invalid_json(problem: &InvalidJson) -> Status {
    invalid(format!("{problem}; {}", InvalidJson::HELP)).into()
}

/// JSON that is not the message of the method. An empty field is the whole message.
pub(crate) fn invalid_field(field: &str, problem: &str) -> Status {
    match field {
        "" => invalid(problem.to_owned()).into(),
        field => invalid(format!("{field}: {problem}")).field(field).into(),
    }
}

/// A body that could not be received: the connection broke, or a limit was reached.
pub(crate) fn incomplete_body(error: axum::Error) -> Status {
    Status::from_error(error.into())
}

/// A response that cannot be translated, which is a bug.
pub(crate) fn untranslatable(problem: &dyn ToString) -> Status {
    super::internal(problem)
}

fn invalid(message: String) -> Refusal {
    Refusal::new(Code::InvalidArgument, "INVALID_REQUEST", message)
}
