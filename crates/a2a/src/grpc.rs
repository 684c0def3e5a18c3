//! The gRPC binding, which exists in 1.0: requests, answers and the status of calls. Each body has
//! length-prefixed messages, and their JSON form is the internal one.

use a2a_grpc::{InvalidFrame, status};
use bytes::Bytes;
use http::HeaderMap;
use registry_core::media_type;
use serde_json::{Value, json};

pub use a2a_grpc::{
    SERVICE,
    status::{STATUS, success},
};

use crate::{
    error::{ErrorKind, Failure},
    operation::Operation,
    request::Request,
    translate::{self, Untranslatable},
    version::{Dialect, Version},
};

/// The media type of bodies.
pub const MEDIA_TYPE: &str = "application/grpc";

/// Whether the media type of a request is one of the binding.
pub fn accepts_media_type(content_type: Option<&str>) -> bool {
    let known = [MEDIA_TYPE, "application/grpc+proto"];
    content_type.is_some_and(|text| media_type::is_any(text, &known))
}

/// Reads the request of a client. Protocol Buffers limit the nesting of messages to 100.
pub fn read_call(method: &str, body: &[u8]) -> Result<Request, Failure> {
    let operation = Operation::of_method(Version::V1, method).ok_or_else(|| {
        let shown: String = method.chars().take(64).collect();
        let message = format!("method {shown:?} does not exist in {SERVICE}");
        Failure::new(ErrorKind::MethodNotFound, message)
    })?;
    let message = a2a_grpc::message(body).map_err(|error| match error {
        // gRPC requires `UNIMPLEMENTED`.
        InvalidFrame::Compressed => Failure::new(ErrorKind::MethodNotFound, error.to_string()),
        InvalidFrame::Length | InvalidFrame::TooLong { .. } => {
            Failure::new(ErrorKind::InvalidRequest, error.to_string())
        }
    })?;
    let params = a2a_grpc::decode_request(operation.name(), message)
        .map_err(|error| Failure::new(ErrorKind::InvalidRequest, error.to_string()))?;
    let request = translate::request_in(Dialect::grpc(), operation, params)
        .map_err(Untranslatable::into_request_failure)?;
    request.check(Version::V1)?;
    Ok(request)
}

/// Estimates the memory of a request while it is read, in bytes. 0 for a body that is rejected before
/// its message is decoded.
pub fn call_bytes(method: &str, body: &[u8]) -> usize {
    a2a_grpc::message(body).map_or(0, |message| a2a_grpc::request_bytes(method, message))
}

/// Writes a successful answer, or an event of a stream.
pub fn write_answer(operation: Operation, answer: &Value) -> Result<Bytes, Failure> {
    let empty = json!({});
    // A deleted configuration has no answer in JSON-RPC and an empty message in gRPC.
    let answer = if answer.is_null() { &empty } else { answer };
    let message = a2a_grpc::encode_response(operation.name(), answer)
        .map_err(|error| Failure::invalid_answer(format!("it has no form in gRPC: {error}")))?;
    Ok(a2a_grpc::frame(&message).into())
}

/// The path of an operation.
pub fn path(operation: Operation) -> String {
    format!("/{SERVICE}/{}", operation.name())
}

/// Writes a request to an agent.
pub fn write_call(request: &Request) -> Result<Bytes, Failure> {
    let params = translate::request_out(Dialect::grpc(), request)
        .map_err(Untranslatable::into_request_failure)?;
    let message = a2a_grpc::encode_request(request.operation.name(), &params).map_err(|error| {
        let message = format!("the request has no form in gRPC, which the agent uses: {error}");
        Failure::new(ErrorKind::InvalidParams, message)
    })?;
    Ok(a2a_grpc::frame(&message).into())
}

/// Reads the answer of an agent.
pub fn read_answer(
    operation: Operation,
    body: &[u8],
    trailers: &HeaderMap,
) -> Result<Value, Failure> {
    read_status(trailers)?;
    let message = a2a_grpc::message(body).map_err(Failure::invalid_answer)?;
    let answer = read_message(operation, message)?;
    translate::answer_in(Dialect::grpc(), operation, answer)
        .map_err(Untranslatable::into_answer_failure)
}

/// Estimates the memory of an answer while it is read, in bytes. 0 for a body that is rejected before
/// its message is decoded.
pub fn answer_bytes(operation: Operation, body: &[u8]) -> usize {
    a2a_grpc::message(body).map_or(0, |message| message_bytes(operation, message))
}

/// Estimates the memory of a message while it is read, in bytes.
pub(crate) fn message_bytes(operation: Operation, message: &[u8]) -> usize {
    a2a_grpc::response_bytes(operation.name(), message)
}

/// Reads a message of an agent in the JSON of 1.0.
pub(crate) fn read_message(operation: Operation, message: &[u8]) -> Result<Value, Failure> {
    a2a_grpc::decode_response(operation.name(), message).map_err(Failure::invalid_answer)
}

/// Reads the status of a call from its trailers. Returns the error of an agent.
pub fn read_status(trailers: &HeaderMap) -> Result<(), Failure> {
    let read = status::read(trailers);
    let status = read.ok_or_else(|| Failure::invalid_answer("the call has no grpc-status"))?;
    if status.code == 0 {
        return Ok(());
    }
    Err(Failure::of_grpc(status.code, &status.message, &status.details))
}

/// Writes an error as the trailers of its call.
pub fn write_failure(failure: &Failure) -> HeaderMap {
    let shape = failure.to_grpc();
    status::failure(shape.code as i32, &shape.message, &shape.details)
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn read(method: &str, params: &Value) -> Result<Request, Failure> {
        let message = a2a_grpc::encode_request(method, params).unwrap();
        read_call(method, &a2a_grpc::frame(&message))
    }

    #[test]
    fn request_has_the_internal_form() {
        let params = json!({ "tenant": "office/helper", "message": { "messageId": "m",
            "role": "ROLE_USER", "parts": [{ "data": { "n": 1 } }] } });
        let request = read("SendMessage", &params).unwrap();
        assert_eq!(request.operation, Operation::SendMessage);
        assert_eq!(Value::Object(request.params), params);
        let page = json!({ "status": "TASK_STATE_WORKING", "pageSize": 2 });
        assert_eq!(Value::Object(read("ListTasks", &page).unwrap().params), page);
    }

    #[test]
    fn invalid_request_is_rejected() {
        for (method, body, expected) in [
            ("GetTask", &[0, 0, 0, 0, 0][..], ErrorKind::InvalidParams),
            ("GetTask", &[0; 4], ErrorKind::InvalidRequest),
            ("GetTask", &[0, 0, 0, 0, 1, 255], ErrorKind::InvalidRequest),
            ("GetTask", &[1, 0, 0, 0, 0], ErrorKind::MethodNotFound),
            ("Other", &[0, 0, 0, 0, 0], ErrorKind::MethodNotFound),
        ] {
            assert_eq!(read_call(method, body).unwrap_err().kind, expected, "{method} {body:?}");
        }
    }

    #[test]
    fn every_operation_is_a_method() {
        for operation in Operation::ALL {
            for empty in [json!({}), Value::Null] {
                let written = write_answer(operation, &empty).unwrap();
                assert_eq!(written, &[0; 5][..], "{operation:?}");
            }
        }
        let failure = write_answer(Operation::GetTask, &json!({ "id": [] })).unwrap_err();
        assert!(failure.is_invalid_answer());
    }

    #[test]
    fn error_has_the_code_of_its_kind() {
        let trailers = write_failure(&Failure::task_not_found("t"));
        assert_eq!(trailers[status::STATUS], "5");
        assert_eq!(success()[status::STATUS], "0");
    }

    #[test]
    fn call_is_read_as_it_was_written() {
        let params = json!({ "id": "t", "historyLength": 2 });
        let Value::Object(params) = params else { unreachable!() };
        let request = Request::new(Operation::GetTask, params);
        let body = write_call(&request).unwrap();
        assert_eq!(path(request.operation), "/lf.a2a.v1.A2AService/GetTask");
        assert_eq!(read_call("GetTask", &body).unwrap().params, request.params);
        let invalid = Map::from_iter([("id".to_owned(), json!([]))]);
        let failure = write_call(&Request::new(Operation::GetTask, invalid)).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::InvalidParams);
    }

    #[test]
    fn answer_is_read_as_it_was_written() {
        let task =
            json!({ "id": "t", "contextId": "c", "status": { "state": "TASK_STATE_WORKING" } });
        for (operation, answer) in [
            (Operation::GetTask, task.clone()),
            (Operation::SendMessage, json!({ "task": task })),
            (Operation::DeletePushConfig, json!({})),
        ] {
            let body = write_answer(operation, &answer).unwrap();
            assert_eq!(read_answer(operation, &body, &success()).unwrap(), answer);
        }
    }

    #[test]
    fn invalid_answer_is_an_error_of_the_agent() {
        let body = write_answer(Operation::SendMessage, &json!({})).unwrap();
        for (body, trailers) in [
            (&body[..], success()),
            (&body[..], HeaderMap::new()),
            (&[], success()),
            (&[0, 0, 0, 0, 9], success()),
            (&[1, 0, 0, 0, 0], success()),
            (&[0, 0, 0, 0, 1, 255], success()),
        ] {
            let failure = read_answer(Operation::SendMessage, body, &trailers).unwrap_err();
            assert!(failure.is_invalid_answer(), "{body:?} {trailers:?}: {failure:?}");
        }
    }

    #[test]
    fn error_is_read_as_it_was_written() {
        for kind in ErrorKind::A2A {
            let failure = Failure::new(kind, "é\n").with_metadata("taskId", "t");
            assert_eq!(read_status(&write_failure(&failure)), Err(failure));
        }
        let violation = Failure::invalid_params("/id", "too long");
        assert_eq!(read_status(&write_failure(&violation)), Err(violation));
    }

    #[test]
    fn media_types_of_grpc_are_accepted() {
        for accepted in ["application/grpc", "application/grpc+proto", "Application/GRPC;x=1"] {
            assert!(accepts_media_type(Some(accepted)), "{accepted}");
        }
        for other in [None, Some("application/json"), Some("application/grpc-web")] {
            assert!(!accepts_media_type(other), "{other:?}");
        }
    }
}
