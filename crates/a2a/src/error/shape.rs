//! The shape of errors in each binding.

use std::borrow::Cow;

use gateway_protocol::jsonrpc::code;
use serde_json::{Value, json};

use super::{A2A_DOMAIN, ERROR_INFO, ErrorKind, Failure, GATEWAY_CODE, GATEWAY_DOMAIN};
use crate::{
    json::{Object, items, text},
    version::Version,
};

/// Maximum details that are read from an answer.
const MAX_DETAILS: usize = 32;
/// Maximum length of a message that is read from an answer, in bytes.
const MAX_MESSAGE_BYTES: usize = 4096;

/// The subject of a request, which decides about errors that only have a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSubject {
    /// A task that exists, as the caller believes. Messages that continue a task are among these.
    Task,
    /// The push notification configurations of a task.
    PushConfig,
    /// Anything else.
    Other,
}

/// The status codes of gRPC that A2A uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrpcCode {
    /// 2.
    Unknown = 2,
    /// 3.
    InvalidArgument = 3,
    /// 4.
    DeadlineExceeded = 4,
    /// 5.
    NotFound = 5,
    /// 7.
    PermissionDenied = 7,
    /// 8.
    ResourceExhausted = 8,
    /// 9.
    FailedPrecondition = 9,
    /// 12.
    Unimplemented = 12,
    /// 13.
    Internal = 13,
    /// 14.
    Unavailable = 14,
    /// 16.
    Unauthenticated = 16,
}

/// An error of the gRPC binding. The details are in their JSON form.
#[derive(Debug, Clone, PartialEq)]
pub struct GrpcStatus {
    /// The code.
    pub code: GrpcCode,
    /// The message.
    pub message: String,
    /// The details, `ErrorInfo` first.
    pub details: Vec<Value>,
}

/// An error of the HTTP+JSON binding.
#[derive(Debug, Clone, PartialEq)]
pub struct RestError {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Value,
}

impl ErrorKind {
    /// The JSON-RPC code.
    pub fn code(self) -> i64 {
        match self {
            Self::TaskNotFound => -32001,
            Self::TaskNotCancelable => -32002,
            Self::PushNotificationNotSupported => -32003,
            Self::UnsupportedOperation => -32004,
            Self::ContentTypeNotSupported => -32005,
            Self::InvalidAgentResponse => -32006,
            Self::ExtendedAgentCardNotConfigured => -32007,
            Self::ExtensionSupportRequired => -32008,
            Self::VersionNotSupported => -32009,
            Self::ParseError => code::PARSE_ERROR,
            Self::InvalidRequest => code::INVALID_REQUEST,
            Self::MethodNotFound => code::METHOD_NOT_FOUND,
            Self::InvalidParams => code::INVALID_PARAMS,
            Self::Internal => code::INTERNAL_ERROR,
            Self::Unauthenticated
            | Self::AgentNotFound
            | Self::PermissionDenied
            | Self::ResourceExhausted
            | Self::Unavailable
            | Self::DeadlineExceeded => GATEWAY_CODE,
            Self::Other(code) => code,
        }
    }

    /// The status of the gRPC binding.
    pub fn grpc_code(self) -> GrpcCode {
        match self {
            Self::TaskNotFound | Self::AgentNotFound => GrpcCode::NotFound,
            Self::TaskNotCancelable
            | Self::PushNotificationNotSupported
            | Self::UnsupportedOperation
            | Self::ExtendedAgentCardNotConfigured
            | Self::ExtensionSupportRequired
            | Self::VersionNotSupported => GrpcCode::FailedPrecondition,
            Self::ContentTypeNotSupported
            | Self::ParseError
            | Self::InvalidRequest
            | Self::InvalidParams => GrpcCode::InvalidArgument,
            Self::InvalidAgentResponse | Self::Internal => GrpcCode::Internal,
            Self::MethodNotFound => GrpcCode::Unimplemented,
            Self::Unauthenticated => GrpcCode::Unauthenticated,
            Self::PermissionDenied => GrpcCode::PermissionDenied,
            Self::ResourceExhausted => GrpcCode::ResourceExhausted,
            Self::Unavailable => GrpcCode::Unavailable,
            Self::DeadlineExceeded => GrpcCode::DeadlineExceeded,
            Self::Other(_) => GrpcCode::Unknown,
        }
    }

    /// The HTTP status of the HTTP+JSON binding.
    pub fn http_status(self) -> u16 {
        match self.grpc_code() {
            GrpcCode::InvalidArgument | GrpcCode::FailedPrecondition => 400,
            GrpcCode::Unauthenticated => 401,
            GrpcCode::PermissionDenied => 403,
            GrpcCode::NotFound | GrpcCode::Unimplemented => 404,
            GrpcCode::ResourceExhausted => 429,
            GrpcCode::Internal | GrpcCode::Unknown => 500,
            GrpcCode::Unavailable => 503,
            GrpcCode::DeadlineExceeded => 504,
        }
    }

    /// The reason of `ErrorInfo` and the type name of 0.3. The specification has no reasons for the
    /// errors of JSON-RPC; these are the ones that the SDKs use.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::TaskNotFound => ["TASK_NOT_FOUND", "TaskNotFoundError"],
            Self::TaskNotCancelable => ["TASK_NOT_CANCELABLE", "TaskNotCancelableError"],
            Self::PushNotificationNotSupported => {
                ["PUSH_NOTIFICATION_NOT_SUPPORTED", "PushNotificationNotSupportedError"]
            }
            Self::UnsupportedOperation => ["UNSUPPORTED_OPERATION", "UnsupportedOperationError"],
            Self::ContentTypeNotSupported => {
                ["CONTENT_TYPE_NOT_SUPPORTED", "ContentTypeNotSupportedError"]
            }
            Self::InvalidAgentResponse => ["INVALID_AGENT_RESPONSE", "InvalidAgentResponseError"],
            Self::ExtendedAgentCardNotConfigured => [
                "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
                "AuthenticatedExtendedCardNotConfiguredError",
            ],
            Self::ExtensionSupportRequired => {
                ["EXTENSION_SUPPORT_REQUIRED", "ExtensionSupportRequiredError"]
            }
            Self::VersionNotSupported => ["VERSION_NOT_SUPPORTED", "VersionNotSupportedError"],
            Self::ParseError => ["PARSE_ERROR", "JSONParseError"],
            Self::InvalidRequest => ["INVALID_REQUEST", "InvalidRequestError"],
            Self::MethodNotFound => ["METHOD_NOT_FOUND", "MethodNotFoundError"],
            Self::InvalidParams => ["INVALID_PARAMS", "InvalidParamsError"],
            Self::Internal => ["INTERNAL_ERROR", "InternalError"],
            Self::Unauthenticated => ["UNAUTHENTICATED", "UnauthenticatedError"],
            Self::AgentNotFound => ["AGENT_NOT_FOUND", "AgentNotFoundError"],
            Self::PermissionDenied => ["PERMISSION_DENIED", "PermissionDeniedError"],
            Self::ResourceExhausted => ["RESOURCE_EXHAUSTED", "ResourceExhaustedError"],
            Self::Unavailable => ["UNAVAILABLE", "UnavailableError"],
            Self::DeadlineExceeded => ["DEADLINE_EXCEEDED", "DeadlineExceededError"],
            Self::Other(_) => ["UNKNOWN_ERROR", "UnknownError"],
        }
    }

    /// The reason of `ErrorInfo`.
    pub fn reason(self) -> &'static str {
        self.names()[0]
    }

    /// The kind of a JSON-RPC code.
    pub fn of_code(code: i64) -> Self {
        let mut known = Self::A2A.into_iter().chain(Self::JSON_RPC);
        known.find(|kind| kind.code() == code).unwrap_or(Self::Other(code))
    }

    fn of_reason(domain: &str, reason: &str) -> Option<Self> {
        let mut known = Self::A2A.into_iter().chain(Self::JSON_RPC);
        known.find(|kind| domain == A2A_DOMAIN && kind.reason() == reason)
    }

    fn of_name(name: &str) -> Option<Self> {
        let mut known = Self::A2A.into_iter().chain(Self::JSON_RPC);
        known.find(|kind| kind.names()[1] == name)
    }

    /// The kind of a gRPC status without a reason. Only tasks are looked up by id, and agents have no
    /// method for an optional operation.
    fn of_grpc_code(code: GrpcCode) -> Self {
        match code {
            GrpcCode::InvalidArgument => Self::InvalidParams,
            GrpcCode::DeadlineExceeded => Self::DeadlineExceeded,
            GrpcCode::NotFound => Self::TaskNotFound,
            GrpcCode::PermissionDenied => Self::PermissionDenied,
            GrpcCode::ResourceExhausted => Self::ResourceExhausted,
            GrpcCode::FailedPrecondition => Self::UnsupportedOperation,
            GrpcCode::Unimplemented => Self::MethodNotFound,
            GrpcCode::Unknown | GrpcCode::Internal => Self::Internal,
            GrpcCode::Unavailable => Self::Unavailable,
            GrpcCode::Unauthenticated => Self::Unauthenticated,
        }
    }

    /// The kind of an error that only has a status, as in the SDK 0.3 for Python. The request decides
    /// if several kinds have the status.
    fn of_status(status: u16, subject: Option<RequestSubject>) -> Self {
        use RequestSubject::{Other, PushConfig, Task};
        match (status, subject) {
            (404, Some(Task | PushConfig)) => return Self::TaskNotFound,
            (501, Some(PushConfig)) => return Self::PushNotificationNotSupported,
            (501, Some(Task | Other)) => return Self::UnsupportedOperation,
            _ => {}
        }
        match status {
            400 | 413 => Self::InvalidRequest,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 | 405 | 501 => Self::MethodNotFound,
            408 | 504 => Self::DeadlineExceeded,
            409 => Self::TaskNotCancelable,
            415 => Self::ContentTypeNotSupported,
            422 => Self::InvalidParams,
            429 => Self::ResourceExhausted,
            502 | 503 => Self::Unavailable,
            _ => Self::Internal,
        }
    }
}

impl GrpcCode {
    const ALL: [Self; 11] = [
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::Unauthenticated,
    ];

    /// The code with this number. Codes that A2A does not use are unknown.
    fn of_number(number: i32) -> Self {
        let found = Self::ALL.into_iter().find(|code| *code as i32 == number);
        found.unwrap_or(Self::Unknown)
    }

    /// The name, as `error.status` of the HTTP+JSON binding has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }
}

impl Failure {
    /// The details, `ErrorInfo` first.
    pub fn all_details(&self) -> Vec<Value> {
        // The details of an agent's own error are the agent's.
        let is_foreign = matches!(self.kind, ErrorKind::Other(_)) && self.reason.is_none();
        let is_own = self.kind.is_own() || self.reason.is_some();
        let domain = if is_own { GATEWAY_DOMAIN } else { A2A_DOMAIN };
        let mut info = json!({ "@type": ERROR_INFO, "reason": self.reason(), "domain": domain });
        if !self.metadata.is_empty() {
            info["metadata"] = json!(self.metadata);
        }
        let info = (!is_foreign).then_some(info);
        info.into_iter().chain(self.details.iter().cloned()).collect()
    }

    /// The error object of JSON-RPC.
    pub fn to_json_rpc(&self) -> Value {
        let mut error = json!({ "code": self.kind.code(), "message": self.message });
        let details = self.all_details();
        if !details.is_empty() {
            error["data"] = details.into();
        }
        error
    }

    /// The answer of the HTTP+JSON binding: `google.rpc.Status` in 1.0. Version 0.3 defines no
    /// shape; its SDKs read `type` or `code`, and `message`.
    pub fn to_rest(&self, version: Version) -> RestError {
        self.to_rest_with(version, self.kind.http_status())
    }

    /// The same with another HTTP status, which `error.code` repeats (section 11.6).
    pub(crate) fn to_rest_with(&self, version: Version, status: u16) -> RestError {
        let kind = self.kind;
        let details = self.all_details();
        let body = match version {
            Version::V1 => json!({ "error": {
                "code": status, "status": kind.grpc_code().name(), "message": self.message,
                "details": details,
            }}),
            Version::V03 => json!({
                "type": kind.names()[1], "code": kind.code(), "message": self.message,
                "data": details,
            }),
        };
        RestError { status, body }
    }

    /// The status of the gRPC binding.
    pub fn to_grpc(&self) -> GrpcStatus {
        let (code, message) = (self.kind.grpc_code(), self.message.clone());
        GrpcStatus { code, message, details: self.all_details() }
    }

    /// Reads the JSON-RPC error of an agent.
    pub fn of_json_rpc(code: i64, message: &str, data: Option<&Value>) -> Self {
        let mut failure = Self::new(ErrorKind::of_code(code), shortened(message));
        match data {
            Some(Value::Array(details)) => failure.read_details(details),
            // 0.3 has data of any form.
            Some(Value::Object(data)) if data.contains_key("@type") => {
                failure.read_details(std::slice::from_ref(&Value::Object(data.clone())));
            }
            _ => {}
        }
        failure
    }

    /// Reads the error of an agent over HTTP+JSON in any version. The reason of A2A decides, else
    /// the name or code of 0.3, else the HTTP status of a request about this subject. `None`: the
    /// status does not depend on a request, because the body may be that of another server.
    pub fn of_rest(status: u16, body: &Value, subject: Option<RequestSubject>) -> Self {
        let nothing = Object::new();
        let error = body.get("error").and_then(Value::as_object).or(body.as_object());
        let error = error.unwrap_or(&nothing);
        let message = text(error, "message").or_else(|| text(error, "detail"));
        let message = message.map_or_else(|| format!("HTTP status {status}").into(), shortened);
        let mut failure = Self::new(ErrorKind::of_status(status, subject), message);
        let code = error.get("code").and_then(Value::as_i64).filter(|code| *code < 0);
        let name = text(error, "type").and_then(ErrorKind::of_name);
        if let Some(kind) = name.or(code.map(ErrorKind::of_code)) {
            failure.kind = kind;
        }
        failure.read_details(items(error, "details"));
        failure.read_details(items(error, "data"));
        failure
    }

    /// Reads the status of an agent over gRPC. The reason of A2A decides, else the code.
    pub fn of_grpc(code: i32, message: &str, details: &[Value]) -> Self {
        let code = GrpcCode::of_number(code);
        let message = if message.is_empty() { code.name().into() } else { shortened(message) };
        let mut failure = Self::new(ErrorKind::of_grpc_code(code), message);
        failure.read_details(details);
        failure
    }

    /// Reads details. The reason of A2A determines the kind; a foreign one is kept as a detail.
    fn read_details(&mut self, details: &[Value]) {
        for detail in details.iter().take(MAX_DETAILS) {
            let Some(object) = detail.as_object().filter(|object| object.contains_key("@type"))
            else {
                continue;
            };
            let (domain, reason) = (text(object, "domain"), text(object, "reason"));
            let kind = ErrorKind::of_reason(domain.unwrap_or_default(), reason.unwrap_or_default());
            match kind.filter(|_| text(object, "@type") == Some(ERROR_INFO)) {
                Some(kind) => {
                    self.kind = kind;
                    let metadata = object.get("metadata").and_then(Value::as_object);
                    let texts = metadata.into_iter().flatten().filter_map(|(name, value)| {
                        Some((name.clone(), value.as_str()?.to_owned()))
                    });
                    self.metadata.extend(texts);
                }
                None => self.details.push(detail.clone()),
            }
        }
    }
}

fn shortened(text: &str) -> Cow<'_, str> {
    text[..text.floor_char_boundary(MAX_MESSAGE_BYTES)].into()
}
