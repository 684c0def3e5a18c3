//! What of a tool's definition callers rely on, part by part, known by digests.
//!
//! Equal digests mean the same JSON values, however they are written. `icons` are no part: they
//! promise nothing.

use std::collections::BTreeMap;

use gateway_protocol::jsonrpc::Object;
use registry_core::{
    Digest,
    document::{canonical_bytes, parse_json},
    entity::Tool,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// A part of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// For people.
    Title,
    /// For the model.
    Description,
    /// What a call may do.
    Annotations,
    /// What it takes.
    InputSchema,
    /// What it gives.
    OutputSchema,
    /// Whether it runs as a task.
    Execution,
    /// Metadata, such as the interface of an MCP App.
    #[serde(rename = "_meta")]
    Meta,
}

impl Part {
    /// All parts.
    pub const ALL: [Self; 7] = [
        Self::Title,
        Self::Description,
        Self::Annotations,
        Self::InputSchema,
        Self::OutputSchema,
        Self::Execution,
        Self::Meta,
    ];
    /// The parts that pins of earlier releases do not have.
    const LATER: [Self; 2] = [Self::Execution, Self::Meta];

    /// The member of a definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Title => "title",
            Self::Description => "description",
            Self::Annotations => "annotations",
            Self::InputSchema => "inputSchema",
            Self::OutputSchema => "outputSchema",
            Self::Execution => "execution",
            Self::Meta => "_meta",
        }
    }

    /// The part in which a JSON pointer into a definition leads.
    pub(super) fn at(pointer: &str) -> Option<Self> {
        let member = pointer.strip_prefix('/')?.split('/').next()?;
        Self::ALL.into_iter().find(|part| part.as_str() == member)
    }

    /// What is registered of it, if that can be compared with the upstream's: a schema that hides
    /// fields is not the upstream's.
    pub(super) fn registered(self, tool: &Tool) -> Option<Value> {
        let text = |text: &Option<String>| text.clone().map(Value::String);
        let hides = tool.source().is_some_and(|source| !source.hide_fields.is_empty());
        match self {
            Self::Title => text(&tool.title),
            Self::Description => text(&tool.description),
            Self::Annotations => tool.annotations.clone().map(Value::Object),
            Self::InputSchema => tool.input_schema.clone().filter(|_| !hides),
            Self::OutputSchema => {
                tool.output_schema.clone().filter(|_| tool.output_transform.is_none())
            }
            Self::Execution => tool.execution.clone().map(Value::Object),
            Self::Meta => tool.meta.clone().map(Value::Object),
        }
    }
}

/// A definition, known by the digests of those of its parts that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(BTreeMap<Part, Digest>);

impl Fingerprint {
    /// Of a definition as its server gives it.
    pub fn of(definition: &RawValue) -> Self {
        let Ok(members) = Object::parse(definition) else {
            // Its members cannot be told apart, so all of them are this.
            let whole = Digest::compute(definition.get().as_bytes());
            return Self(Part::ALL.into_iter().map(|part| (part, whole)).collect());
        };
        let digest = |part: Part| {
            let text = members.find(part.as_str())?.get();
            (text != "null").then(|| (part, digest_of(text)))
        };
        Self(Part::ALL.into_iter().filter_map(digest).collect())
    }

    /// The digest of all parts together.
    pub fn digest(&self) -> Digest {
        let parts = self.0.iter().map(|(part, digest)| format!("{} {digest}\n", part.as_str()));
        Digest::compute(parts.collect::<String>().as_bytes())
    }

    /// The definition as earlier releases saw it.
    pub(super) fn without_later_parts(&self) -> Self {
        let is_earlier = |(part, _): &(&Part, &Digest)| !Part::LATER.contains(part);
        Self(self.0.iter().filter(is_earlier).map(|(part, digest)| (*part, *digest)).collect())
    }

    /// Takes the parts from `seen` that earlier releases did not see.
    pub(super) fn add_later_parts(&mut self, seen: &Self) {
        let later = Part::LATER.into_iter().filter_map(|part| Some((part, seen.part(part)?)));
        self.0.extend(later);
    }

    /// The digest of one part, if there is one.
    pub fn part(&self, part: Part) -> Option<Digest> {
        self.0.get(&part).copied()
    }
}

/// A text whose names are not unique may be read in different ways: any change of it counts.
fn digest_of(text: &str) -> Digest {
    match parse_json(text.as_bytes()) {
        Ok(value) => digest_of_value(&value),
        Err(_) => Digest::compute(text.as_bytes()),
    }
}

/// The digest of a JSON value.
pub(super) fn digest_of_value(value: &Value) -> Digest {
    Digest::compute(&canonical_bytes(value))
}
