//! The OpenAPI 3.1 document of the API over Connect, from the descriptors and their comments.

mod schema;

use std::collections::{BTreeMap, HashMap};

use prost_reflect::{
    DescriptorPool, FileDescriptor, MessageDescriptor, MethodDescriptor, ServiceDescriptor,
};
use serde_json::{Map, Value, json};

use super::{
    call::{is_safe, is_streaming},
    error::CODES,
    messages,
};

const PACKAGE: &str = "registry.v1";

const DESCRIPTION: &str = "The API of the registry as JSON over HTTP: the unary protocol of Connect. Messages are in \
    the JSON form of protocol buffers. Requests may write 64-bit integers as numbers, and enums by number; unknown \
    members are errors. Responses omit empty members. Newer servers add members and values of enums.";

/// The comments of declarations, by their path in a file.
struct Comments(HashMap<(String, Vec<i32>), String>);

impl Comments {
    fn of(pool: &DescriptorPool) -> Self {
        let comments = pool.files().flat_map(|file| {
            let locations = file.file_descriptor_proto().source_code_info.clone();
            let name = file.name().to_owned();
            locations.unwrap_or_default().location.into_iter().filter_map(move |location| {
                let comment = location.leading_comments?;
                let paragraphs = comment.split("\n\n").map(|paragraph| {
                    paragraph.lines().map(str::trim).collect::<Vec<_>>().join(" ")
                });
                let text = paragraphs.collect::<Vec<_>>().join("\n\n").trim().to_owned();
                Some(((name.clone(), location.path), text))
            })
        });
        Self(comments.collect())
    }

    /// The comment of a declaration; empty if it has none.
    fn get(&self, file: &FileDescriptor, path: &[i32]) -> &str {
        let key = (file.name().to_owned(), path.to_owned());
        self.0.get(&key).map(String::as_str).unwrap_or_default()
    }
}

/// The document as JSON.
pub(super) fn document(pool: &DescriptorPool) -> Vec<u8> {
    let comments = Comments::of(pool);
    let mut services: Vec<_> = pool.services().filter(|s| s.package_name() == PACKAGE).collect();
    services.sort_by(|a, b| a.name().cmp(b.name()));
    let mut used = BTreeMap::new();
    let (mut tags, mut paths) = (Vec::new(), Map::new());
    for service in &services {
        let text = comments.get(&service.parent_file(), service.path());
        tags.push(json!({ "name": service.name(), "description": text }));
        for method in service.methods() {
            paths.insert(messages::path(&method), path_item(service, &method, &comments));
            if !is_streaming(&method) {
                collect(&method.input(), &mut used);
                collect(&method.output(), &mut used);
            }
        }
    }
    let mut schemas = schema::all(&used, &comments);
    schemas.insert("Error".to_owned(), error_schema());
    let document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Registry API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
        },
        // Servers without authentication accept requests without a token.
        "security": [{ "bearer": [] }, {}],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas,
            "parameters": {
                "Timeout": {
                    "name": "Connect-Timeout-Ms",
                    "in": "header",
                    "description": "The deadline of the call in milliseconds, at most that of the server.",
                    "schema": { "type": "integer", "minimum": 0, "maximum": 9_999_999_999_u64 },
                },
                "Version": {
                    "name": "Connect-Protocol-Version",
                    "in": "header",
                    "schema": { "const": "1" },
                },
            },
            "responses": {
                "Error": {
                    "description": "An error. Its code determines the HTTP status.",
                    "content": { "application/json": { "schema": reference("Error") } },
                },
            },
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API token of the registry, or a token of the identity provider.",
                },
            },
        },
    });
    document.to_string().into_bytes()
}

/// Adds a message and all messages in it.
fn collect(message: &MessageDescriptor, used: &mut BTreeMap<String, MessageDescriptor>) {
    let name = message.full_name();
    if !name.starts_with(PACKAGE) || used.contains_key(name) {
        return;
    }
    used.insert(name.to_owned(), message.clone());
    for field in message.fields() {
        if let Some(inner) = field.kind().as_message() {
            collect(inner, used);
        }
    }
}

/// The name of a type in the document.
fn local(full_name: &str) -> &str {
    full_name.strip_prefix(PACKAGE).map_or(full_name, |name| name.trim_start_matches('.'))
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn path_item(service: &ServiceDescriptor, method: &MethodDescriptor, comments: &Comments) -> Value {
    let text = comments.get(&service.parent_file(), method.path());
    if is_streaming(method) {
        let text = format!("{text}\n\nThe method has a stream: call it over gRPC or gRPC-web.");
        return json!({ "summary": "Not available over Connect", "description": text });
    }
    let message = |message: &MessageDescriptor| json!({ "application/json": { "schema": reference(local(message.full_name())) } });
    let parameter = |name: &str| json!({ "$ref": format!("#/components/parameters/{name}") });
    let id = format!("{}_{}", service.name(), method.name());
    let operation = |id: &str, mut parameters: Vec<Value>| {
        parameters.push(parameter("Timeout"));
        json!({
            "operationId": id,
            "tags": [service.name()],
            "description": text,
            "parameters": parameters,
            "responses": {
                "200": { "description": "The result.", "content": message(&method.output()) },
                "default": { "$ref": "#/components/responses/Error" },
            },
        })
    };
    let mut post = operation(&id, vec![parameter("Version")]);
    post["requestBody"] = json!({ "required": true, "content": message(&method.input()) });
    let mut item = json!({ "post": post });
    if is_safe(method) {
        let query = |name: &str, value: &str| {
            let schema = json!({ "const": value });
            json!({ "name": name, "in": "query", "required": true, "schema": schema })
        };
        let body = json!({
            "name": "message", "in": "query", "required": true, "content": message(&method.input()),
        });
        let parameters = vec![query("connect", "v1"), query("encoding", "json"), body];
        item["get"] = operation(&format!("{id}_get"), parameters);
    }
    item
}

fn error_schema() -> Value {
    let codes = CODES.map(|(_, name, _)| name);
    json!({
        "type": "object",
        "required": ["code"],
        "properties": {
            "code": { "type": "string", "enum": codes },
            "message": { "type": "string", "description": "For people; it may change." },
            "details": {
                "type": "array",
                "description": "The first has the type google.rpc.ErrorInfo and a stable reason.",
                "items": {
                    "type": "object",
                    "required": ["type", "value"],
                    "properties": {
                        "type": { "type": "string", "description": "The name of a message." },
                        "value": {
                            "type": "string",
                            "contentEncoding": "base64",
                            "description": "The encoded message.",
                        },
                        "debug": { "description": "The message as JSON." },
                    },
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::{super::messages::Messages, *};

    /// All values of the members `$ref` in a document.
    fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    fn parsed() -> Value {
        serde_json::from_slice(&document(&Messages::load().unwrap().pool)).unwrap()
    }

    #[test]
    fn references_of_the_document_resolve() {
        let document = parsed();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 200, "{}", found.len());
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn each_unary_method_is_an_operation() {
        let document = parsed();
        let pool = Messages::load().unwrap().pool;
        let services = pool.services().filter(|service| service.package_name() == PACKAGE);
        let methods: Vec<_> =
            services.flat_map(|service| service.methods().collect::<Vec<_>>()).collect();
        assert!(methods.len() > 40);
        let mut ids = Vec::new();
        for method in methods {
            let item = &document["paths"][messages::path(&method)];
            assert!(item["description"].is_string() || item["post"]["description"].is_string());
            assert_eq!(item["post"].is_object(), !is_streaming(&method), "{}", method.name());
            assert_eq!(item["get"].is_object(), is_safe(&method), "{}", method.name());
            for operation in [&item["post"], &item["get"]].into_iter().filter(|o| o.is_object()) {
                ids.push(operation["operationId"].as_str().unwrap());
                assert!(operation["responses"]["200"].is_object());
            }
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "ids of operations are unique");
    }

    #[test]
    fn only_unary_methods_without_side_effects_are_safe() {
        let pool = Messages::load().unwrap().pool;
        let services = pool.services().filter(|service| service.package_name() == PACKAGE);
        for method in services.flat_map(|service| service.methods().collect::<Vec<_>>()) {
            let reads = ["Get", "List", "BatchGet", "Search", "Find", "Query", "Explain"];
            let others = [
                "AnalyzeImpact",
                "BlameEntity",
                "CompareRevisions",
                "ExportCatalog",
                "ResolveVersions",
                "WhoAmI",
            ];
            let name = method.name();
            let is_read =
                reads.iter().any(|start| name.starts_with(start)) || others.contains(&name);
            assert_eq!(is_safe(&method), is_read, "{name}");
            assert!(!(is_safe(&method) && is_streaming(&method)), "{name}");
        }
    }
}
