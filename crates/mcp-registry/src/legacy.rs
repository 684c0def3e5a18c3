//! The format of `server.json` before September 2025: names in snake case, `version_detail`, and
//! packages by `registry_name`.

use registry_core::diagnostic::{Code, Diagnostic};
use serde_json::{Map, Value, json};

use crate::detail::SCHEMA;

/// Members of the old format with their current names.
const RENAMED: [(&str, &str); 16] = [
    ("environment_variables", "environmentVariables"),
    ("file_sha256", "fileSha256"),
    ("is_repeated", "isRepeated"),
    ("is_required", "isRequired"),
    ("is_secret", "isSecret"),
    ("mime_type", "mimeType"),
    ("package_arguments", "packageArguments"),
    ("registry_base_url", "registryBaseUrl"),
    ("registry_name", "registryType"),
    ("registry_type", "registryType"),
    ("runtime_arguments", "runtimeArguments"),
    ("runtime_hint", "runtimeHint"),
    ("transport_type", "type"),
    ("value_hint", "valueHint"),
    ("website_url", "websiteUrl"),
    ("package_name", "identifier"),
];

/// Members of the old format that registries added, not the publisher.
const OF_REGISTRIES: [&str; 5] = ["id", "status", "created_at", "updated_at", "version_detail"];

/// The document in the current format with a warning; `None` if it is not in the old format.
pub(super) fn converted(value: &Value) -> Option<(Value, Diagnostic)> {
    let old = value.as_object().filter(|old| is_old(old))?;
    let status = old.get("status").and_then(Value::as_str).filter(|status| *status != "active");
    let mut new = Map::new();
    for (name, member) in old {
        if !OF_REGISTRIES.contains(&name.as_str()) {
            let value = if name == "_meta" { member.clone() } else { renamed(member) };
            new.insert(name_of(name).to_owned(), value);
        }
    }
    if new.contains_key("$schema") {
        new.insert("$schema".to_owned(), SCHEMA.into());
    }
    if let Some(version) = old.get("version_detail").and_then(|detail| detail.get("version")) {
        new.entry("version").or_insert_with(|| version.clone());
    }
    for package in new.get_mut("packages").and_then(Value::as_array_mut).into_iter().flatten() {
        package.as_object_mut().into_iter().for_each(convert_package);
    }
    for remote in new.get_mut("remotes").and_then(Value::as_array_mut).into_iter().flatten() {
        if matches!(remote["type"].as_str(), Some("streamable" | "http" | "streamable_http")) {
            remote["type"] = "streamable-http".into();
        }
    }
    let withdrawn = status.map(|status| format!("; its status was `{status}`")).unwrap_or_default();
    let message = format!("the format from before September 2025 was converted{withdrawn}");
    let found = Diagnostic::warning(Code::DocumentInvalid, "", message);
    Some((Value::Object(new), found.with_help("review the result before registering it")))
}

fn is_old(document: &Map<String, Value>) -> bool {
    let list = |name: &str| document.get(name).and_then(Value::as_array).into_iter().flatten();
    let has_old_name = |part: &Value| {
        part.as_object().is_some_and(|part| part.keys().any(|name| name_of(name) != name))
    };
    document.contains_key("version_detail")
        || list("packages").chain(list("remotes")).any(has_old_name)
}

fn name_of(name: &str) -> &str {
    RENAMED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

fn renamed(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(renamed).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (name_of(name).to_owned(), renamed(member)))
            .collect(),
        other => other.clone(),
    }
}

/// A package without a transport used stdio, and an image had its tag in `version`.
fn convert_package(package: &mut Map<String, Value>) {
    if !package.contains_key("identifier")
        && let Some(name) = package.remove("name")
    {
        package.insert("identifier".to_owned(), name);
    }
    if package.get("registryType").is_some_and(|of| of == "docker") {
        package.insert("registryType".to_owned(), "oci".into());
        let image =
            package.get("identifier").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_tagged = image.rsplit('/').next().is_some_and(|last| last.contains([':', '@']));
        if let Some(Value::String(tag)) = package.remove("version").filter(|_| !is_tagged) {
            package.insert("identifier".to_owned(), format!("{image}:{tag}").into());
        }
    }
    let transport = match package.remove("type") {
        Some(Value::String(kind)) => kind,
        _ => "stdio".to_owned(),
    };
    package.entry("transport").or_insert_with(|| json!({ "type": transport }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_format_is_converted() {
        let old = json!({
            "id": "7", "name": "io.github.a/files", "description": "Files", "status": "deprecated",
            "$schema": "https://static.modelcontextprotocol.io/schemas/2025-07-09/server.schema.json",
            "repository": { "url": "https://github.com/a/files", "source": "github" },
            "version_detail": { "version": "1.0.2", "release_date": "2025-07-01T00:00:00Z", "is_latest": true },
            "packages": [
                { "registry_name": "npm", "name": "@a/files", "version": "1.0.2", "runtime_hint": "npx",
                    "environment_variables": [{ "name": "KEY", "is_required": true, "is_secret": true }],
                    "package_arguments": [{ "type": "positional", "value_hint": "dir" }] },
                { "registry_name": "docker", "name": "a/files", "version": "1.0.2" },
            ],
            "remotes": [{ "transport_type": "streamable", "url": "https://files.example/mcp" }],
        });
        let (new, found) = converted(&old).unwrap();
        assert_eq!(
            new,
            json!({
                "name": "io.github.a/files", "description": "Files", "version": "1.0.2", "$schema": SCHEMA,
                "repository": { "url": "https://github.com/a/files", "source": "github" },
                "packages": [
                    { "registryType": "npm", "identifier": "@a/files", "version": "1.0.2", "runtimeHint": "npx",
                        "environmentVariables": [{ "name": "KEY", "isRequired": true, "isSecret": true }],
                        "packageArguments": [{ "type": "positional", "valueHint": "dir" }],
                        "transport": { "type": "stdio" } },
                    { "registryType": "oci", "identifier": "a/files:1.0.2", "transport": { "type": "stdio" } },
                ],
                "remotes": [{ "type": "streamable-http", "url": "https://files.example/mcp" }],
            })
        );
        insta::assert_snapshot!(
            found.message,
            @"the format from before September 2025 was converted; its status was `deprecated`"
        );
        assert_eq!(converted(&new), None);
    }
}
