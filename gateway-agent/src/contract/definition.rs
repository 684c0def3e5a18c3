//! The parts of a tool's definition that callers rely on, with their digests.
//!
//! Digests are of canonical JSON, so formatting does not matter. `icons` are ignored.

use std::collections::BTreeMap;

use gateway_protocol::jsonrpc::Object;
use registry_core::{
    Digest,
    document::{canonical_bytes, parse_json},
    entity::Tool,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

/// A part of a definition that is compared on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DefinitionPart {
    /// The title for people.
    Title,
    /// The description for models.
    Description,
    /// The behavior hints.
    Annotations,
    /// The schema of the arguments.
    InputSchema,
    /// The schema of the structured result.
    OutputSchema,
    /// The task support.
    Execution,
    /// Metadata, for instance the interface of an MCP App.
    #[serde(rename = "_meta")]
    Meta,
    /// The card of an agent, which is its whole definition.
    Card,
}

impl DefinitionPart {
    /// The parts of a tool.
    pub const ALL: [Self; 7] = [
        Self::Title,
        Self::Description,
        Self::Annotations,
        Self::InputSchema,
        Self::OutputSchema,
        Self::Execution,
        Self::Meta,
    ];
    /// Parts that pins of earlier releases lack.
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
            Self::Card => "card",
        }
    }

    /// The part that contains a JSON Pointer.
    pub(super) fn at(pointer: &str) -> Option<Self> {
        let member = pointer.strip_prefix('/')?.split('/').next()?;
        Self::ALL.into_iter().find(|part| part.as_str() == member)
    }

    /// The registered value, if it is comparable: a schema with hidden fields differs from the
    /// upstream's on purpose.
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
            Self::Card => None,
        }
    }
}

/// The digests of a definition's parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(BTreeMap<DefinitionPart, Digest>);

impl Fingerprint {
    /// Computes the digests of an upstream's definition.
    pub fn from_definition(definition: &RawValue) -> Self {
        let Ok(members) = Object::parse(definition) else {
            // Its members are ambiguous, so all parts have the digest of the whole text.
            let whole = Digest::compute(definition.get().as_bytes());
            return Self(DefinitionPart::ALL.into_iter().map(|part| (part, whole)).collect());
        };
        let digest = |part: DefinitionPart| {
            let text = members.find(part.as_str())?.get();
            (text != "null").then(|| (part, digest_of(text)))
        };
        Self(DefinitionPart::ALL.into_iter().filter_map(digest).collect())
    }

    /// Computes the digest of an agent's card. Signatures can differ in each answer.
    pub(super) fn from_card(card: &Value) -> Self {
        let mut card = card.clone();
        if let Some(members) = card.as_object_mut() {
            members.remove("signatures");
        }
        Self(BTreeMap::from([(DefinitionPart::Card, digest_of_value(&card))]))
    }

    /// The digest of all parts.
    pub fn digest(&self) -> Digest {
        let parts = self.0.iter().map(|(part, digest)| format!("{} {digest}\n", part.as_str()));
        Digest::compute(parts.collect::<String>().as_bytes())
    }

    /// The fingerprint without parts that earlier releases ignored.
    pub(super) fn without_later_parts(&self) -> Self {
        let is_earlier =
            |(part, _): &(&DefinitionPart, &Digest)| !DefinitionPart::LATER.contains(part);
        Self(self.0.iter().filter(is_earlier).map(|(part, digest)| (*part, *digest)).collect())
    }

    /// Adds the parts that earlier releases ignored.
    pub(super) fn add_later_parts(&mut self, seen: &Self) {
        let later =
            DefinitionPart::LATER.into_iter().filter_map(|part| Some((part, seen.part(part)?)));
        self.0.extend(later);
    }

    /// The digest of one part. `None`: the definition does not have it.
    pub fn part(&self, part: DefinitionPart) -> Option<Digest> {
        self.0.get(&part).copied()
    }
}

/// Texts with repeated member names are ambiguous, so every change of the text counts.
fn digest_of(text: &str) -> Digest {
    match parse_json(text.as_bytes()) {
        Ok(value) => digest_of_value(&value),
        Err(_) => Digest::compute(text.as_bytes()),
    }
}

pub(super) fn digest_of_value(value: &Value) -> Digest {
    Digest::compute(&canonical_bytes(value))
}
