//! The declared capabilities of a client or server.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::jsonrpc::{Object, ObjectWriter};

/// Declared capabilities: the raw object, or nothing.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Capabilities(Option<Arc<RawValue>>);

impl Capabilities {
    /// The JSON text; an empty object if nothing was declared.
    pub fn as_json(&self) -> &str {
        self.0.as_deref().map_or("{}", RawValue::get)
    }

    /// Whether a capability is declared: `elicitation`, `prompts` …
    pub fn has(&self, capability: &str) -> bool {
        self.declared().is_some_and(|all| all.find(capability).is_some())
    }

    /// Whether any of these capabilities is declared.
    pub fn has_any<'n>(&self, capabilities: impl IntoIterator<Item = &'n str>) -> bool {
        let declared = self.declared();
        declared.is_some_and(|all| capabilities.into_iter().any(|one| all.find(one).is_some()))
    }

    /// Whether tool calls can be tasks of 2025-11-25.
    pub fn supports_tasks(&self) -> bool {
        let member = |raw: Box<RawValue>, name: &&str| {
            Object::parse(&raw).ok()?.find(name).map(ToOwned::to_owned)
        };
        let declared = RawValue::from_string(self.as_json().to_owned()).ok();
        let path = ["tasks", "requests", "tools", "call"];
        declared.and_then(|all| path.iter().try_fold(all, member)).is_some()
    }

    /// The capabilities without one of them.
    pub fn without_capability(&self, capability: &str) -> Self {
        let Some(all) = self.declared().filter(|all| all.find(capability).is_some()) else {
            return self.clone();
        };
        let mut kept = ObjectWriter::with_capacity(self.as_json().len());
        for member in all.members().iter().filter(|member| member.name != capability) {
            kept.member(&member.name, member.value.get());
        }
        Self(RawValue::from_string(kept.finish_string()).ok().map(Into::into))
    }

    /// Whether a protocol extension is declared.
    pub fn has_extension(&self, extension: &str) -> bool {
        let declared = self.declared();
        let extensions = declared.as_ref().and_then(|all| all.find("extensions"));
        let extensions = extensions.and_then(|raw| Object::parse(raw).ok());
        extensions.is_some_and(|all| all.find(extension).is_some())
    }

    /// The capabilities without one protocol extension.
    pub fn without_extension(&self, extension: &str) -> Self {
        if !self.has_extension(extension) {
            return self.clone();
        }
        let all = self.declared().unwrap_or_default();
        let mut kept = ObjectWriter::with_capacity(self.as_json().len());
        for member in all.members() {
            if member.name == "extensions" {
                let extensions = Object::parse(member.value).unwrap_or_default();
                let mut others = ObjectWriter::with_capacity(member.value.get().len());
                for other in extensions.members().iter().filter(|other| other.name != extension) {
                    others.member(&other.name, other.value.get());
                }
                kept.raw("extensions", &others.finish_string());
            } else {
                kept.member(&member.name, member.value.get());
            }
        }
        // An error counts as no capabilities, which is safe.
        Self(RawValue::from_string(kept.finish_string()).ok().map(Into::into))
    }

    fn declared(&self) -> Option<Object<'_>> {
        Object::parse(self.0.as_deref()?).ok()
    }
}

impl From<&RawValue> for Capabilities {
    fn from(raw: &RawValue) -> Self {
        // Stateless clients send the object with each request, and it is often empty.
        Self((raw.get() != "{}").then(|| raw.to_owned().into()))
    }
}
