//! The members of a `server.json`, the MCP registry's description of a server, that a server entity
//! keeps in its metadata. Each member is validated and preserved unchanged. Packages and remotes
//! are not fetched.

mod argument;

use schema_compat::pointer::Location;
use serde_json::{Map, Value};

use self::argument::{arguments, inputs, variables};
use crate::{
    decode::{Fields, Problems, describe},
    diagnostic::Diagnostic,
    entity::Server,
    limits,
};

/// The member of a server's metadata with the remaining members of its `server.json`.
pub const METADATA_KEY: &str = "serverJson";
/// The only preserved member of `_meta` in a `server.json`.
pub const PUBLISHER_META: &str = "io.modelcontextprotocol.registry/publisher-provided";

/// Validates a member and returns the preserved part.
pub type Check = fn(&Problems, &Value, Location<'_>) -> Option<Value>;

/// The members of a `server.json` other than name, description and version.
pub const PARTS: &[(&str, Check)] = &[
    ("title", title),
    ("repository", repository),
    ("websiteUrl", website),
    ("icons", icons),
    ("packages", packages),
    ("remotes", remotes),
    ("_meta", meta),
];

/// The package registries that clients support.
const REGISTRY_TYPES: [&str; 6] = ["npm", "pypi", "cargo", "oci", "nuget", "mcpb"];
const ICON_TYPES: [&str; 5] =
    ["image/png", "image/jpeg", "image/jpg", "image/svg+xml", "image/webp"];

/// A copy without `null` members. Objects and lists that become empty are removed, so that the
/// result is stable when parsed again.
pub fn without_nulls(value: &Value) -> Option<Value> {
    fn deep(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(deep).collect(),
            Value::Object(map) => {
                let there = map.iter().filter(|(_, value)| !value.is_null());
                there.map(|(name, value)| (name.clone(), deep(value))).collect()
            }
            other => other.clone(),
        }
    }
    let kept = deep(value);
    let is_empty = match &kept {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    (!is_empty).then_some(kept)
}

/// Warns of members that are not in the format, and returns them.
pub fn warn_unknown<'a>(fields: &'a Fields<'_>) -> Vec<&'a str> {
    let unknown = fields.unknown();
    for name in &unknown {
        let at = fields.here();
        let shown: String = name.chars().take(64).collect();
        let help = if name.contains('_') {
            "since September 2025 all names are in camelCase, like `registryType`"
        } else {
            "check the spelling"
        };
        let message = format!("`{shown}` is not part of the format; it is preserved unchanged");
        fields.problems().warn(at.member(name), message, help);
    }
    unknown
}

/// A string of 1 to `most` characters.
pub fn text(fields: &Fields<'_>, name: &'static str, most: usize) -> Option<String> {
    let at = fields.at(name);
    let text = fields.problems().string(fields.get(name)?, at)?;
    let length = text.chars().count();
    if text.trim().is_empty() {
        fields.problems().invalid(at, format!("`{name}` is empty"), "write a text");
        return None;
    }
    if length > most {
        let message = format!("`{name}` has {length} characters; the maximum is {most}");
        fields.problems().invalid(at, message, "shorten it");
        return None;
    }
    Some(text.to_owned())
}

/// A string from a fixed list.
fn word(fields: &Fields<'_>, name: &'static str, words: &[&str]) {
    let Some(value) = fields.get(name) else { return };
    if !value.as_str().is_some_and(|text| words.contains(&text)) {
        let message = format!("`{name}` is {}", describe(value));
        fields.problems().invalid(fields.at(name), message, format!("use {}", words.join(", ")));
    }
}

/// An absolute URL, which may contain variables in braces.
fn url(problems: &Problems, value: &Value, at: Location<'_>, schemes: &[&str]) {
    let Some(text) = problems.string(value, at) else { return };
    let rest = schemes.iter().find_map(|scheme| text.strip_prefix(scheme)?.strip_prefix("://"));
    let is_host = |rest: &str| !rest.is_empty() && !rest.starts_with(['/', ':', '?', '#']);
    let is_foreign = |c: char| c.is_whitespace() || c.is_control() || "<>\"\\^`".contains(c);
    if !rest.is_some_and(is_host) || text.contains(is_foreign) {
        let shown: String = text.chars().take(80).collect();
        let accepted = format!("{}://", schemes.join(":// or "));
        let has_other_scheme = rest.is_none() && text.contains("://");
        let message = if has_other_scheme {
            format!("`{shown}` does not start with {accepted}")
        } else {
            format!("`{shown}` is not a valid URL")
        };
        let help = format!("write an absolute URL starting with {accepted}");
        problems.invalid(at, message, help);
    }
}

/// An optional URL.
fn optional_url(fields: &Fields<'_>, name: &'static str) {
    if let Some(value) = fields.get(name) {
        url(fields.problems(), value, fields.at(name), &WEB);
    }
}

const WEB: [&str; 2] = ["https", "http"];

fn title(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Value> {
    let text = problems.string(value, at)?;
    let length = text.chars().count();
    if text.trim().is_empty() || length > limits::MCP_TEXT_CHARACTERS {
        let most = limits::MCP_TEXT_CHARACTERS;
        let message = format!("`title` has {length} characters; it must have 1 to {most}");
        problems.invalid(at, message, "shorten or remove it");
    }
    Some(value.clone())
}

fn website(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Value> {
    url(problems, value, at, &WEB);
    without_nulls(value)
}

/// Published documents may have an empty object here, which is treated as absent.
fn repository(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Value> {
    let fields = problems.object(value, at)?;
    let kept = without_nulls(value)?;
    fields.require("url");
    optional_url(&fields, "url");
    fields.required_string("source");
    for optional in ["id", "subfolder"] {
        fields.optional_string(optional);
    }
    warn_unknown(&fields);
    Some(kept)
}

fn icons(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Value> {
    problems.items(value, at, |value, at| {
        let fields = problems.object(value, at)?;
        if let Some(value) = fields.require("src") {
            url(problems, value, fields.at("src"), &["https"]);
        }
        text(&fields, "src", limits::MCP_ICON_CHARACTERS);
        word(&fields, "mimeType", &ICON_TYPES);
        word(&fields, "theme", &["light", "dark"]);
        fields.list("sizes", |value, at| {
            let text = problems.string(value, at)?;
            let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let is_size = text.split_once('x').is_some_and(|(w, h)| number(w) && number(h));
            if !is_size && text != "any" {
                problems.invalid(
                    at,
                    format!("{} is not a size", describe(value)),
                    "write 48x48 or any",
                );
            }
            Some(())
        });
        warn_unknown(&fields);
        Some(())
    });
    without_nulls(value)
}

fn packages(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Value> {
    problems.items(value, at, |value, at| package(problems, value, at));
    without_nulls(value)
}

fn package(problems: &Problems, value: &Value, at: Location<'_>) -> Option<()> {
    let fields = &problems.object(value, at)?;
    let registry = fields.required_string("registryType")?;
    if !REGISTRY_TYPES.contains(&registry.as_str()) {
        let message = format!("`{registry}` is not a package registry that clients support");
        problems.warn(at.member("registryType"), message, REGISTRY_TYPES.join(", "));
    }
    optional_url(fields, "registryBaseUrl");
    fields.required_string("identifier");
    package_version(problems, fields);
    let hash = fields.optional_string("fileSha256");
    let is_hash = |hash: &String| {
        hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    match hash {
        None if registry == "mcpb" => {
            let message =
                "the required field `fileSha256` is missing; clients verify the file with it";
            problems.invalid(at, message, "add the file's SHA-256");
        }
        Some(hash) if !is_hash(&hash) => {
            let message = "`fileSha256` is not a SHA-256";
            problems.invalid(at.member("fileSha256"), message, "write 64 lower-case hex digits");
        }
        _ => {}
    }
    fields.optional_string("runtimeHint");
    if let Some(value) = fields.require("transport") {
        transport(problems, value, at.member("transport"), &["stdio", "streamable-http", "sse"]);
    }
    arguments(fields, "runtimeArguments");
    arguments(fields, "packageArguments");
    inputs(fields, "environmentVariables");
    warn_unknown(fields);
    Some(())
}

fn package_version(problems: &Problems, fields: &Fields<'_>) {
    let Some(version) = fields.optional_string("version") else { return };
    let is_range = version.starts_with(['^', '~', '>', '<', '=', '*'])
        || version.contains("||")
        || version.contains(" - ")
        || version.split('.').any(|part| matches!(part, "x" | "X" | "*"));
    if version.is_empty() || version == "latest" || is_range {
        let message = format!("`{version}` is not an exact package version");
        problems.invalid(fields.at("version"), message, "write an exact version, like `1.0.2`");
    }
}

fn remotes(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Value> {
    problems
        .items(value, at, |value, at| transport(problems, value, at, &["streamable-http", "sse"]));
    without_nulls(value)
}

fn transport(problems: &Problems, value: &Value, at: Location<'_>, types: &[&str]) -> Option<()> {
    let fields = problems.object(value, at)?;
    fields.require("type");
    word(&fields, "type", types);
    if fields.get("type")?.as_str() != Some("stdio") {
        let is_template =
            fields.get("url").and_then(Value::as_str).is_some_and(|u| u.starts_with('{'));
        fields.require("url");
        if !is_template {
            optional_url(&fields, "url");
        }
        inputs(&fields, "headers");
        variables(&fields);
    }
    warn_unknown(&fields);
    Some(())
}

/// Only publisher data is preserved in `_meta`; the rest is set by the registries.
fn meta(problems: &Problems, value: &Value, at: Location<'_>) -> Option<Value> {
    let fields = problems.object(value, at)?;
    let publisher = fields.get(PUBLISHER_META);
    for name in fields.unknown() {
        let shown: String = name.chars().take(64).collect();
        let message =
            format!("`{shown}` is omitted; only `{PUBLISHER_META}` is preserved in `_meta`");
        problems.warn(at.member(name), message, "move it into that member");
    }
    let at = at.member(PUBLISHER_META);
    let publisher = publisher?;
    problems.object(publisher, at)?;
    let size = publisher.to_string().len();
    if size > limits::MCP_PUBLISHER_BYTES {
        let most = limits::MCP_PUBLISHER_BYTES;
        problems.invalid(
            at,
            format!("the value has {size} bytes of JSON; the maximum is {most}"),
            "shorten it",
        );
    }
    Some(Value::Object(Map::from_iter([(PUBLISHER_META.to_owned(), publisher.clone())])))
}

/// The reasons why a server cannot be listed in the MCP registry API, with pointers into its
/// document.
pub fn unlistable_parts(server: &Server) -> Vec<Diagnostic> {
    let rest = server.metadata.as_ref().and_then(|metadata| metadata.get(METADATA_KEY));
    let Some(rest) = rest else { return Vec::new() };
    let problems = Problems::default();
    let metadata = Location::ROOT;
    let metadata = metadata.member("metadata");
    let at = metadata.member(METADATA_KEY);
    if problems.object(rest, at).is_some() {
        for (name, check) in PARTS {
            if let Some(value) = rest.get(name).filter(|value| !value.is_null()) {
                check(&problems, value, at.member(name));
            }
        }
    }
    problems.into_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn without_nulls_is_idempotent() {
        for (value, kept) in [
            (json!({ "a": null }), None),
            (json!([]), None),
            (json!({ "a": { "b": null }, "c": null }), Some(json!({ "a": {} }))),
            (json!([{ "a": null }]), Some(json!([{}]))),
        ] {
            assert_eq!(without_nulls(&value), kept, "{value}");
            assert_eq!(kept.as_ref().and_then(without_nulls), kept, "{value}");
        }
    }
}
