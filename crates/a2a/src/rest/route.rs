//! The paths of the HTTP+JSON binding.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::{
    error::{ErrorKind, Failure},
    operation::Operation,
    version::Version,
};

/// The operation of a path with the ids in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The operation.
    pub operation: Operation,
    /// The first segment of `/{tenant}/…`.
    pub tenant: Option<String>,
    /// The id of the task.
    pub task: Option<String>,
    /// The id of the push notification configuration.
    pub config: Option<String>,
    /// Whether parameters are in the body, else in the query.
    pub has_body: bool,
}

/// The last segments of a path.
enum Resource<'a> {
    Message(&'a str),
    Tasks,
    Task(&'a str),
    Configs(&'a str),
    Config(&'a str, &'a str),
    Card,
}

/// The method of an operation. Servers differ for `SubscribeToTask`: the Protocol Buffers, which
/// are normative, have GET.
pub(super) fn method(operation: Operation) -> Method {
    match operation {
        Operation::SendMessage
        | Operation::SendStreamingMessage
        | Operation::CancelTask
        | Operation::CreatePushConfig => Method::POST,
        Operation::DeletePushConfig => Method::DELETE,
        _ => Method::GET,
    }
}

/// Finds the operation of a path relative to the interface's URL. A trailing slash is ignored.
/// Fails with `MethodNotFound`.
pub fn route(version: Version, method: &Method, path: &str) -> Result<Route, Failure> {
    parse(version, method, path).ok_or_else(|| {
        let shown: String = path.chars().take(128).collect();
        let message = format!("{method} {shown} does not exist in A2A {}", version.as_str());
        Failure::new(ErrorKind::MethodNotFound, message)
    })
}

fn parse(version: Version, method: &Method, path: &str) -> Option<Route> {
    let path = path.strip_prefix('/')?;
    let path = path.strip_suffix('/').unwrap_or(path);
    let path = match version {
        Version::V1 => path,
        Version::V03 => path.strip_prefix("v1/")?,
    };
    let segments: Vec<&str> = path.splitn(6, '/').collect();
    let (tenant, resource) = match resource(version, &segments) {
        Some(resource) => (None, resource),
        None if version == Version::V1 => {
            let (tenant, rest) = segments.split_first()?;
            (Some(decoded(tenant)?), resource(version, rest)?)
        }
        None => return None,
    };
    let (mut task, mut config) = (None, None);
    let operation = match resource {
        Resource::Message("send") => Operation::SendMessage,
        Resource::Message("stream") => Operation::SendStreamingMessage,
        Resource::Message(_) => return None,
        Resource::Tasks => Operation::ListTasks,
        Resource::Card => Operation::GetExtendedAgentCard,
        Resource::Task(id) => {
            // The last colon: ids may contain colons, and their colons may be encoded.
            let (id, operation) = match id.rsplit_once(':') {
                Some((id, "cancel")) => (id, Operation::CancelTask),
                Some((id, "subscribe")) => (id, Operation::SubscribeToTask),
                _ => (id, Operation::GetTask),
            };
            task = Some(decoded(id)?);
            operation
        }
        Resource::Configs(id) => {
            task = Some(decoded(id)?);
            match *method {
                Method::POST => Operation::CreatePushConfig,
                _ => Operation::ListPushConfigs,
            }
        }
        Resource::Config(id, config_id) => {
            (task, config) = (Some(decoded(id)?), Some(decoded(config_id)?));
            match *method {
                Method::DELETE => Operation::DeletePushConfig,
                _ => Operation::GetPushConfig,
            }
        }
    };
    let is_post = method == Method::POST;
    let is_allowed =
        *method == self::method(operation) || is_post && operation == Operation::SubscribeToTask;
    is_allowed.then_some(Route { operation, tenant, task, config, has_body: is_post })
}

fn resource<'a>(version: Version, segments: &[&'a str]) -> Option<Resource<'a>> {
    match *segments {
        ["tasks"] => Some(Resource::Tasks),
        ["tasks", task] => Some(Resource::Task(task)),
        ["tasks", task, "pushNotificationConfigs"] => Some(Resource::Configs(task)),
        ["tasks", task, "pushNotificationConfigs", config] => Some(Resource::Config(task, config)),
        ["extendedAgentCard"] if version == Version::V1 => Some(Resource::Card),
        ["card"] if version == Version::V03 => Some(Resource::Card),
        [segment] => segment.strip_prefix("message:").map(Resource::Message),
        _ => None,
    }
}

/// A decoded segment that is not empty.
fn decoded(segment: &str) -> Option<String> {
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    (!text.is_empty()).then(|| text.into_owned())
}
