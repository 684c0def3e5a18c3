//! The upstream behind a real or virtual tool, in the forms that files have it.
//!
//! Older files write `target` for `server`, and `defaults` and `hideFields` beside `source`; both are
//! read, and refused where they say something else than the newer form does.

#[cfg(test)]
mod tests;

use schema_compat::pointer::At;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    decode::{Fields, Problems},
    kind::Kind,
    name::Name,
    reference::Key,
    version::Version,
};

/// The upstream tool behind a real or virtual tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSource {
    /// The registered server.
    pub server: Name,
    /// The server's exact version.
    pub server_version: Version,
    /// The tool's name on that server.
    pub tool: String,
    /// Values for arguments that the caller leaves out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Map<String, Value>>,
    /// Arguments that callers neither see nor may send; dotted paths reach nested objects.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hide_fields: Vec<String>,
}

impl ToolSource {
    /// The server version that it points to.
    pub fn server_key(&self) -> Key {
        Key::new(Kind::Server, self.server.clone(), self.server_version.clone())
    }
}

/// `defaults` and `hideFields` where older files put them: beside `source`.
pub(super) struct Placement {
    defaults: Option<Map<String, Value>>,
    hidden: Option<Vec<String>>,
}

impl Placement {
    /// What stands beside `source`, or where it would.
    pub(super) fn read<'a>(fields: &'a Fields<'a>) -> Self {
        Self { defaults: fields.open_object("defaults"), hidden: hidden(fields) }
    }

    /// Which of them are there.
    pub(super) fn given(&self) -> impl Iterator<Item = &'static str> {
        let defaults = self.defaults.as_ref().map(|_| "defaults");
        defaults.into_iter().chain(self.hidden.as_ref().map(|_| "hideFields"))
    }
}

fn hidden<'a>(fields: &'a Fields<'a>) -> Option<Vec<String>> {
    fields.get("hideFields").map(|_| fields.strings("hideFields"))
}

impl ToolSource {
    pub(super) fn read(
        problems: &Problems,
        value: &Value,
        at: At<'_>,
        beside: Placement,
    ) -> Option<Self> {
        let fields = problems.object(value, at)?;
        let server = Self::read_server(&fields);
        let server_version = fields.version("serverVersion");
        let tool = fields.required_string("tool");
        let inside = Placement::read(&fields);
        let defaults = one_of(problems, fields.at("defaults"), inside.defaults, beside.defaults);
        let hidden = one_of(problems, fields.at("hideFields"), inside.hidden, beside.hidden);
        fields.finish();
        Some(Self {
            server: server?,
            server_version: server_version?,
            tool: tool?,
            defaults: defaults.filter(|map| !map.is_empty()),
            hide_fields: hidden.unwrap_or_default(),
        })
    }

    /// The server's name: `server`, or `target` as older files write it.
    fn read_server<'a>(fields: &'a Fields<'a>) -> Option<Name> {
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
            let message = format!("`target` says `{target}`, but `server` says `{server}`");
            fields.problems().invalid(fields.at("target"), message, "keep `server` only");
        }
        server
    }
}

/// Takes the value from inside `source` or from beside it; both must agree.
fn one_of<T: PartialEq>(
    problems: &Problems,
    at: At<'_>,
    inside: Option<T>,
    beside: Option<T>,
) -> Option<T> {
    if let (Some(inside), Some(beside)) = (&inside, &beside)
        && inside != beside
    {
        let message = "given inside `source` and beside it, with different values";
        problems.invalid(at, message, "keep the one inside `source`");
    }
    inside.or(beside)
}
