//! The upstream of a real or virtual tool, in current and older syntax.
//!
//! Older files have `target` instead of `server`, and `defaults` and `hideFields` next to `source`.
//! Both are accepted, but rejected if they contradict the current syntax.

#[cfg(test)]
mod tests;

use schema_compat::pointer::Location;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    decode::{OwnedFields, Problems},
    kind::Kind,
    name::Name,
    open_json,
    reference::Key,
    version::Version,
};

/// The upstream tool behind a real or virtual tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSource {
    /// The registered server.
    pub server: Name,
    /// The exact version of the server.
    pub server_version: Version,
    /// The name of the tool on that server.
    pub tool: String,
    /// Default values of omitted arguments.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "open_json::serialize")]
    pub defaults: Option<Map<String, Value>>,
    /// Arguments hidden from callers. Dotted paths reach nested objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hide_fields: Vec<String>,
}

impl ToolSource {
    /// The key of the server version that it refers to.
    pub fn server_key(&self) -> Key {
        Key::new(Kind::Server, self.server.clone(), self.server_version.clone())
    }
}

/// `defaults` and `hideFields` in their old location, next to `source`.
pub(super) struct Placement {
    defaults: Option<Map<String, Value>>,
    hidden: Option<Vec<String>>,
}

impl Placement {
    /// Reads the members next to or inside of `source`.
    pub(super) fn read(fields: &mut OwnedFields<'_>) -> Self {
        Self { defaults: fields.open_object("defaults"), hidden: hidden(fields) }
    }

    /// The names of the members that are present.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        let defaults = self.defaults.as_ref().map(|_| "defaults");
        defaults.into_iter().chain(self.hidden.as_ref().map(|_| "hideFields"))
    }
}

fn hidden(fields: &OwnedFields<'_>) -> Option<Vec<String>> {
    fields.get("hideFields").map(|_| fields.strings("hideFields"))
}

impl ToolSource {
    pub(super) fn read(
        problems: &Problems,
        value: Value,
        at: Location<'_>,
        outside: Placement,
    ) -> Option<Self> {
        let mut fields = problems.owned_object(value, at)?;
        let server = Self::read_server(&fields);
        let server_version = fields.version("serverVersion");
        let tool = fields.required_string("tool");
        let inside = Placement::read(&mut fields);
        let defaults = one_of(problems, fields.at("defaults"), inside.defaults, outside.defaults);
        let hidden = one_of(problems, fields.at("hideFields"), inside.hidden, outside.hidden);
        fields.finish();
        Some(Self {
            server: server?,
            server_version: server_version?,
            tool: tool?,
            defaults: defaults.filter(|map| !map.is_empty()),
            hide_fields: hidden.unwrap_or_default(),
        })
    }

    /// The server's name: `server`, or `target` in older files.
    fn read_server(fields: &OwnedFields<'_>) -> Option<Name> {
        let Some(target) = fields.get("target") else {
            return fields.name(Kind::Server, "server");
        };
        let target = fields.problems().name(Kind::Server, target, fields.at("target"));
        if fields.get("server").is_none() {
            return target;
        }
        let server = fields.name(Kind::Server, "server");
        if let (Some(server), Some(target)) = (&server, &target)
            && server != target
        {
            let message = format!("`target` is `{target}`, but `server` is `{server}`");
            fields.problems().invalid(fields.at("target"), message, "keep `server` only");
        }
        server
    }
}

/// The value from inside or next to `source`. If both are present, they must be equal.
fn one_of<T: PartialEq>(
    problems: &Problems,
    at: Location<'_>,
    inside: Option<T>,
    outside: Option<T>,
) -> Option<T> {
    if let (Some(inside), Some(outside)) = (&inside, &outside)
        && inside != outside
    {
        let message = "the values inside of `source` and next to it differ";
        problems.invalid(at, message, "keep the one inside `source`");
    }
    inside.or(outside)
}
