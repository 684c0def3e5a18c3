//! The HTTP+JSON binding: paths, queries, bodies and answers of both versions.
//!
//! Paths are relative to the URL of the interface. 0.3 has the prefix `/v1`.

mod route;
#[cfg(test)]
mod tests;

use gateway_protocol::jsonrpc::Limits;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use registry_core::media_type;
use serde_json::Value;

pub use self::route::{Route, route};
use crate::{
    body,
    error::{ErrorKind, Failure},
    fields::is_same,
    json::Object,
    operation::Operation,
    request::Request,
    translate::{self, Problem, Untranslatable},
    version::{Dialect, Version},
    version_parameter::is_parameter,
};

/// Everything in an id except unreserved characters (RFC 3986, section 2.3).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Query parameters that are integers, and those that are booleans.
const INTEGERS: [&str; 3] = ["historyLength", "pageSize", "lastUpdatedAfter"];
const BOOLEANS: [&str; 1] = ["includeArtifacts"];
/// Maximum query parameters.
const MAX_PARAMETERS: usize = 64;

/// A request to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The method.
    pub method: Method,
    /// The path after the interface's URL and the query, for instance `/tasks/1?historyLength=0`.
    pub path: String,
    /// The body, if the method has one.
    pub body: Option<String>,
}

/// An answer to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The media type of the body.
    pub media_type: &'static str,
    /// The body.
    pub body: String,
}

/// Reads the request of a client on a [`Route`].
pub fn read_call(
    version: Version,
    route: Route,
    query: Option<&str>,
    body: &[u8],
    limits: Limits,
) -> Result<Request, Failure> {
    let mut params = Object::new();
    if !route.has_body {
        read_query(query.unwrap_or_default(), &mut params)?;
    } else if !body.iter().all(u8::is_ascii_whitespace) {
        let Value::Object(members) = body::parse(body, limits)? else {
            let message = "the body is not a JSON object";
            return Err(Failure::new(ErrorKind::InvalidRequest, message));
        };
        params = members;
    }
    let mut request =
        translate::request_in(Dialect::http_json(version), route.operation, params.into())
            .map_err(Untranslatable::into_request_failure)?;
    // The path takes precedence over members of the body.
    request.set_tenant(route.tenant.as_deref());
    if let Some(task) = &route.task {
        request.set_task_id(task);
    }
    if let Some(config) = route.config {
        request.params.insert("id".to_owned(), config.into());
    }
    request.check(version)?;
    Ok(request)
}

fn read_query(query: &str, params: &mut Object) -> Result<(), Failure> {
    for (name, value) in form_urlencoded::parse(query.as_bytes()).take(MAX_PARAMETERS) {
        if is_parameter(&name) {
            continue;
        }
        let at = || format!("/{name}");
        let value = if INTEGERS.iter().any(|known| is_same(&name, known)) {
            let number = value.parse::<i64>();
            number.map_err(|_| Failure::invalid_params(&at(), "an integer is required"))?.into()
        } else if BOOLEANS.iter().any(|known| is_same(&name, known)) {
            let flag = value.parse::<bool>();
            flag.map_err(|_| Failure::invalid_params(&at(), "true or false is required"))?.into()
        } else {
            Value::from(&*value)
        };
        if params.insert(name.clone().into_owned(), value).is_some() {
            return Err(Failure::invalid_params(&at(), "the parameter is repeated"));
        }
    }
    Ok(())
}

/// Writes a request to an agent.
pub fn write_call(version: Version, request: &Request) -> Result<Outgoing, Untranslatable> {
    let prefix = match (version, request.tenant()) {
        (Version::V03, _) => "/v1".to_owned(),
        (Version::V1, None) => String::new(),
        (Version::V1, Some(tenant)) => format!("/{}", segment(tenant)),
    };
    let missing = || Untranslatable::new(Problem::Type("an id"));
    let (task, config) = match request.operation {
        operation if operation.sends_message() => (String::new(), String::new()),
        Operation::ListTasks | Operation::GetExtendedAgentCard => (String::new(), String::new()),
        Operation::GetPushConfig | Operation::DeletePushConfig => (
            segment(request.task_id().ok_or_else(missing)?),
            segment(request.push_config_id().ok_or_else(missing)?),
        ),
        _ => (segment(request.task_id().ok_or_else(missing)?), String::new()),
    };
    let path = match request.operation {
        Operation::SendMessage => "/message:send".to_owned(),
        Operation::SendStreamingMessage => "/message:stream".to_owned(),
        Operation::GetTask => format!("/tasks/{task}"),
        Operation::ListTasks => "/tasks".to_owned(),
        Operation::CancelTask => format!("/tasks/{task}:cancel"),
        Operation::SubscribeToTask => format!("/tasks/{task}:subscribe"),
        Operation::CreatePushConfig | Operation::ListPushConfigs => {
            format!("/tasks/{task}/pushNotificationConfigs")
        }
        Operation::GetPushConfig | Operation::DeletePushConfig => {
            format!("/tasks/{task}/pushNotificationConfigs/{config}")
        }
        Operation::GetExtendedAgentCard => match version {
            Version::V1 => "/extendedAgentCard".to_owned(),
            Version::V03 => "/card".to_owned(),
        },
    };
    let method = route::method(request.operation);
    let dialect = Dialect::http_json(version);
    // A message can be large, so it is not copied, unless the path takes its tenant.
    if request.operation.sends_message() && request.tenant().is_none() {
        let (path, body) = (format!("{prefix}{path}"), translate::write_params(dialect, request)?);
        return Ok(Outgoing { method, path, body: Some(body) });
    }
    let mut params = match translate::request_out(dialect, request)? {
        Value::Object(params) => params,
        _ => Object::new(),
    };
    let (mut path, mut body) = (format!("{prefix}{path}"), None);
    if method == Method::POST {
        // The path has the tenant, and the id of the task to cancel.
        params.remove("tenant");
        if request.operation == Operation::CancelTask {
            params.remove("id");
        }
        body = Some(Value::Object(params).to_string());
    } else {
        let query = write_query(&params);
        if !query.is_empty() {
            path = format!("{path}?{query}");
        }
    }
    Ok(Outgoing { method, path, body })
}

fn segment(id: &str) -> String {
    // A segment of dots would be resolved against its parents.
    match id {
        "." => "%2E".to_owned(),
        ".." => "%2E%2E".to_owned(),
        id => utf8_percent_encode(id, SEGMENT).to_string(),
    }
}

/// The parameters that are not in the path. Nested values have no form in queries.
fn write_query(params: &Object) -> String {
    let in_path = ["id", "taskId", "tenant", "pushNotificationConfigId"];
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in params.iter().filter(|(name, _)| !in_path.contains(&name.as_str())) {
        match value {
            Value::String(text) if !text.is_empty() => drop(query.append_pair(name, text)),
            Value::Number(_) | Value::Bool(_) => drop(query.append_pair(name, &value.to_string())),
            _ => {}
        }
    }
    query.finish()
}

/// Writes a successful answer.
pub fn write_answer(
    version: Version,
    operation: Operation,
    answer: Value,
) -> Result<Answer, Untranslatable> {
    let dialect = Dialect::http_json(version);
    let body = translate::answer_out(dialect, operation, answer)?.to_string();
    let media_type = dialect.media_type();
    Ok(Answer { status: 200, media_type, body })
}

/// Writes an error with an HTTP status, which need not be that of its kind.
pub fn write_failure(version: Version, failure: &Failure, status: u16) -> Answer {
    let error = failure.to_rest_with(version, status);
    // `google.rpc.Status` is no message of A2A.
    Answer { status: error.status, media_type: "application/json", body: error.body.to_string() }
}

/// Reads the answer of an agent to a request.
pub fn read_answer(
    version: Version,
    request: &Request,
    status: u16,
    body: &[u8],
    limits: Limits,
) -> Result<Value, Failure> {
    let (operation, is_success) = (request.operation, (200..300).contains(&status));
    if is_success && operation == Operation::DeletePushConfig {
        return Ok(Value::Object(Object::new())); // the body may be empty
    }
    match body::parse(body, limits) {
        Ok(body) if is_success => {
            translate::answer_in(Dialect::http_json(version), operation, body)
                .map_err(Untranslatable::into_answer_failure)
        }
        Ok(body) => Err(Failure::of_rest(status, &body, Some(request.subject()))),
        Err(_) if !is_success => Err(Failure::of_rest(status, &Value::Null, None)),
        Err(failure) => Err(Failure::invalid_answer(failure)),
    }
}

/// Whether the media type of a request is one of the binding, or missing.
pub fn accepts_media_type(content_type: Option<&str>) -> bool {
    let known = ["application/json", "application/a2a+json"];
    content_type.is_none_or(|text| media_type::is_any(text, &known))
}
