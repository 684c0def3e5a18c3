//! Messages as JSON and as protocol buffers, by the descriptors of the API.

use std::collections::HashMap;

use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use prost_reflect::{
    DescriptorError, DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor,
    MethodDescriptor,
};
use registry_core::{document::parse_json, suggest::closest};
use registry_proto::FILE_DESCRIPTOR_SET;
use serde_path_to_error::Track;
use tonic::Status;

use crate::grpc::connect as status;

/// The prefix of a gRPC message: a flag of compression and the length.
const FRAME_HEADER_BYTES: usize = 5;

/// The encoding of the messages of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Proto,
}

impl Encoding {
    /// The encoding with this name in content types and queries.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "json" => Some(Self::Json),
            "proto" => Some(Self::Proto),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Proto => "application/proto",
        }
    }
}

/// All messages and methods.
pub(super) struct Messages {
    pub(super) pool: DescriptorPool,
    methods: HashMap<String, MethodDescriptor>,
}

impl Messages {
    pub(super) fn load() -> Result<Self, DescriptorError> {
        let mut pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET)?;
        pool.decode_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)?;
        pool.decode_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)?;
        let services: Vec<_> = pool.services().collect();
        let methods = services.iter().flat_map(prost_reflect::ServiceDescriptor::methods);
        let methods = methods.map(|method| (path(&method), method)).collect();
        Ok(Self { pool, methods })
    }

    /// The method with this path.
    pub(super) fn method(&self, path: &str) -> Option<&MethodDescriptor> {
        self.methods.get(path)
    }

    /// A message of an error as JSON, if its type is known.
    pub(super) fn detail(&self, name: &str, encoded: &[u8]) -> Option<serde_json::Value> {
        let message = DynamicMessage::decode(self.pool.get_message_by_name(name)?, encoded).ok()?;
        serde_json::to_value(&message).ok()
    }
}

/// The path of a method in requests.
pub(super) fn path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// The gRPC frame of a request.
pub(super) fn frame(
    message: &MessageDescriptor,
    encoding: Encoding,
    body: &[u8],
) -> Result<Bytes, Status> {
    match encoding {
        Encoding::Proto => {
            // The service would report a failure of the server.
            DynamicMessage::decode(message.clone(), body)
                .map_err(|error| status::invalid_field("", &error.to_string()))?;
            Ok(framed(body.len(), |frame| frame.put_slice(body)))
        }
        Encoding::Json => {
            let message = from_json(message, body)?;
            let length = message.encoded_len();
            // A growing buffer has room for each message.
            Ok(framed(length, |frame| message.encode_raw(frame)))
        }
    }
}

fn framed(length: usize, write: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut frame = BytesMut::with_capacity(FRAME_HEADER_BYTES + length);
    frame.put_u8(0);
    // The limit of messages is below 4 GiB; the length of an impossible message is rejected.
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    write(&mut frame);
    frame.freeze()
}

/// Parses a message in the JSON form of protocol buffers. Unknown and repeated members are errors.
fn from_json(message: &MessageDescriptor, body: &[u8]) -> Result<DynamicMessage, Status> {
    let value = parse_json(body).map_err(|error| status::invalid_json(&error))?;
    if let Some(field) = repeated_field(message, &value) {
        let problem = "the field has two values, one per name; write one";
        return Err(status::invalid_field(&field, problem));
    }
    let mut track = Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let options = DeserializeOptions::new();
    let parsed = DynamicMessage::deserialize_with_options(message.clone(), tracked, &options);
    parsed.map_err(|error| {
        let (path, problem) = (track.path().to_string(), error.to_string());
        // The path of the whole message is a dot.
        let parent = if path == "." { "" } else { &path };
        // The error of an unknown field has the path of its parent.
        let name = problem.strip_prefix("unrecognized field name '");
        let Some(name) = name.and_then(|rest| rest.strip_suffix('\'')) else {
            return status::invalid_field(parent, readable(&problem));
        };
        let problem = match similar_field(message, parent, name) {
            Some(similar) => format!("unknown field; did you mean `{similar}`?"),
            None => "unknown field".to_owned(),
        };
        let separator = if parent.is_empty() { "" } else { "." };
        status::invalid_field(&format!("{parent}{separator}{name}"), &problem)
    })
}

/// The error of the parser of integers names no expectation.
fn readable(problem: &str) -> &str {
    let of_integers = ["invalid digit found in string", "cannot parse integer from empty string"];
    if of_integers.iter().any(|known| problem.starts_with(known)) {
        "expected an integer"
    } else {
        problem
    }
}

/// The field with a similar name, of the message at a path such as `changes[1].setLifecycle`.
fn similar_field(message: &MessageDescriptor, path: &str, name: &str) -> Option<String> {
    let mut message = message.clone();
    for segment in path.split('.').filter(|segment| !segment.is_empty()) {
        let field = segment.split('[').next()?;
        let field =
            message.get_field_by_json_name(field).or_else(|| message.get_field_by_name(field))?;
        let Kind::Message(inner) = field.kind() else { return None };
        message = inner;
    }
    let names: Vec<_> = message.fields().map(|field| field.json_name().to_owned()).collect();
    closest(name, names.iter().map(String::as_str)).map(str::to_owned)
}

/// The path of a field with two values, as `page_size` and as `pageSize`. `prost-reflect` keeps the last value.
fn repeated_field(message: &MessageDescriptor, value: &serde_json::Value) -> Option<String> {
    let members = value.as_object()?;
    members.iter().find_map(|(name, member)| {
        let field = message.get_field_by_json_name(name);
        let field = field.or_else(|| message.get_field_by_name(name))?;
        if field.json_name() != name && members.contains_key(field.json_name()) {
            return Some(name.clone());
        }
        let Kind::Message(inner) = field.kind() else { return None };
        match member.as_array() {
            Some(items) => items.iter().enumerate().find_map(|(index, item)| {
                repeated_field(&inner, item).map(|path| format!("{name}[{index}].{path}"))
            }),
            None => repeated_field(&inner, member).map(|path| format!("{name}.{path}")),
        }
    })
}

/// The body of a response for the only frame of a gRPC response.
pub(super) fn unframed(
    message: &MessageDescriptor,
    encoding: Encoding,
    mut frame: Bytes,
) -> Result<Bytes, Status> {
    // The server compresses no response to a request that accepts no compression.
    let length = match *frame {
        [0, a, b, c, d, ..] => u32::from_be_bytes([a, b, c, d]) as usize,
        _ => return Err(status::untranslatable(&"a response without an uncompressed message")),
    };
    let encoded = frame.split_off(FRAME_HEADER_BYTES);
    if encoded.len() != length {
        return Err(status::untranslatable(&"a response with more or less than one message"));
    }
    match encoding {
        Encoding::Proto => Ok(encoded),
        Encoding::Json => {
            let message = DynamicMessage::decode(message.clone(), encoded)
                .map_err(|error| status::untranslatable(&error))?;
            let json = serde_json::to_vec(&message);
            json.map(Bytes::from).map_err(|error| status::untranslatable(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tonic::Code;
    use tonic_types::StatusExt as _;

    use super::*;

    fn message(name: &str) -> MessageDescriptor {
        let messages = Messages::load().unwrap();
        messages.pool.get_message_by_name(&format!("registry.v1.{name}")).unwrap()
    }

    fn round_trip(name: &str, json: &Value) -> Value {
        let message = message(name);
        let frame = frame(&message, Encoding::Json, json.to_string().as_bytes()).unwrap();
        serde_json::from_slice(&unframed(&message, Encoding::Json, frame).unwrap()).unwrap()
    }

    fn rejected(name: &str, body: &str) -> (Code, Vec<String>) {
        let status = frame(&message(name), Encoding::Json, body.as_bytes()).unwrap_err();
        let details = status.get_details_bad_request().into_iter();
        let violations = details.flat_map(|details| details.field_violations);
        (status.code(), violations.map(|violation| violation.field).collect())
    }

    #[test]
    fn message_round_trips_as_json() {
        let message = json!({
            "key": { "kind": "ENTITY_KIND_TOOL", "name": "fetch", "version": "1.0.0" },
            "minRevision": "18446744073709551615",
        });
        assert_eq!(round_trip("GetEntityRequest", &message), message);
        let loose = json!({ "key": { "kind": 2 }, "min_revision": 7, "includeDocument": null });
        let strict = json!({ "key": { "kind": "ENTITY_KIND_SERVER" }, "minRevision": "7" });
        assert_eq!(round_trip("GetEntityRequest", &loose), strict);
    }

    #[test]
    fn invalid_json_names_the_remedy() {
        let problem = |name: &str, body: &str| {
            let status = frame(&message(name), Encoding::Json, body.as_bytes()).unwrap_err();
            status.message().to_owned()
        };
        for (name, body, expected) in [
            ("ListEntitiesRequest", r#"{ "pageSize": "many" }"#, "expected an integer"),
            ("ListEntitiesRequest", r#"{ "pageSze": 1 }"#, "did you mean `pageSize`?"),
            ("GetEntityRequest", r#"{ "key": { "nam": "a" } }"#, "did you mean `name`?"),
            (
                "ApplyChangesRequest",
                r#"{ "changes": [{ "setLifecycle": { "mesage": "a" } }] }"#,
                "did you mean `message`?",
            ),
        ] {
            let found = problem(name, body);
            assert!(found.contains(expected), "{body}: {found}");
        }
        assert!(!problem("ListEntitiesRequest", r#"{ "x": 1 }"#).contains('?'));
    }

    #[test]
    fn invalid_json_names_its_field() {
        for (body, field) in [
            (r#"{ "kind": 1 }"#, "kind"),
            (r#"{ "key": { "kin": 1 } }"#, "key.kin"),
            (r#"{ "key": { "kind": "TOOL" } }"#, "key.kind"),
            (r#"{ "key": { "name": 1 } }"#, "key.name"),
            (r#"{ "key": [] }"#, "key"),
            (r#"{ "minRevision": -1 }"#, "minRevision"),
            (r#"{ "includeDocument": "yes" }"#, "includeDocument"),
        ] {
            let found = rejected("GetEntityRequest", body);
            assert_eq!(found, (Code::InvalidArgument, vec![field.to_owned()]), "{body}");
        }
        let changes = r#"{ "changes": [{}, { "registerEntity": { "schema": { "x": 1 } } }] }"#;
        let (_, fields) = rejected("ApplyChangesRequest", changes);
        assert_eq!(fields, ["changes[1].registerEntity.schema.x"]);
        for (name, body, field) in [
            ("GetEntityRequest", r#"{ "minRevision": 1, "min_revision": 2 }"#, "min_revision"),
            (
                "ApplyChangesRequest",
                r#"{ "changes": [{}, { "setLifecycle": { "sunsetDate": "", "sunset_date": "" } }] }"#,
                "changes[1].setLifecycle.sunset_date",
            ),
        ] {
            let found = rejected(name, body);
            assert_eq!(found, (Code::InvalidArgument, vec![field.to_owned()]), "{body}");
        }
        for body in ["", "{", "[]", "1", r#"{ "minRevision": 1, "minRevision": 2 }"#] {
            assert_eq!(
                rejected("GetEntityRequest", body),
                (Code::InvalidArgument, vec![]),
                "{body}"
            );
        }
        let both = r#"{ "setLifecycle": {}, "registerEntity": {} }"#;
        assert_eq!(rejected("EntityChange", both).0, Code::InvalidArgument);
        let binary = frame(&message("GetEntityRequest"), Encoding::Proto, b"\xff");
        assert_eq!(binary.unwrap_err().code(), Code::InvalidArgument);
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(rejected("GetEntityRequest", &deep).0, Code::InvalidArgument);
    }
}
