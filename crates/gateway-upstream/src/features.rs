//! The prompts, resources and resource templates of a target, under their names for callers.

use std::{borrow::Cow, collections::BTreeMap};

use gateway_protocol::{
    jsonrpc::{self, Object, ObjectWriter},
    mcp::Capabilities,
    naming::{self, Prefix},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    error::{Error, ProtocolViolation},
    handshake::UpstreamInfo,
    message::Catalogue,
};

/// Maximum number of entries of one list.
const MAX_ENTRIES: usize = 10_000;

/// The prompts, resources and resource templates of one target.
#[derive(Debug, Default)]
pub struct Features {
    prompts: FeatureEntries,
    resources: FeatureEntries,
    templates: FeatureEntries,
    about: UpstreamInfo,
    supports_tasks: bool,
    prefix: Option<Prefix>,
}

/// Definitions by their names for callers.
pub type FeatureEntries = BTreeMap<Box<str>, Box<RawValue>>;

impl PartialEq for Features {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |a: &FeatureEntries, b: &FeatureEntries| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.get() == b.1.get())
        };
        is_same(&self.prompts, &other.prompts)
            && is_same(&self.resources, &other.resources)
            && is_same(&self.templates, &other.templates)
            && self.about.capabilities.as_json() == other.about.capabilities.as_json()
            && self.about.instructions == other.about.instructions
            && self.info().map(RawValue::get) == other.info().map(RawValue::get)
            && self.prefix == other.prefix
    }
}

impl Features {
    pub(super) fn new(about: UpstreamInfo, prefix: Prefix) -> Self {
        let supports_tasks = about.capabilities.supports_tasks();
        Self { about, supports_tasks, prefix: Some(prefix), ..Self::default() }
    }

    /// The prefix of the target.
    pub(super) fn prefix(&self) -> Option<&Prefix> {
        self.prefix.as_ref()
    }

    /// The interfaces of MCP Apps, under the target's own URIs.
    pub fn interfaces(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        let all = self.resources.iter().map(|(uri, raw)| (&**uri, &**raw));
        all.filter(|(uri, _)| naming::is_interface(uri))
    }

    /// The prompts.
    pub fn prompts(&self) -> &FeatureEntries {
        &self.prompts
    }

    /// The resources. Interfaces of MCP Apps have the target's own URIs, because their names for
    /// callers depend on other targets.
    pub fn resources(&self) -> &FeatureEntries {
        &self.resources
    }

    /// The templates of resources.
    pub fn templates(&self) -> &FeatureEntries {
        &self.templates
    }

    /// The `instructions` of the target.
    pub fn instructions(&self) -> Option<&str> {
        self.about.instructions.as_deref()
    }

    /// The target's `serverInfo`.
    pub fn info(&self) -> Option<&RawValue> {
        self.about.info.as_deref()
    }

    /// Whether tool calls can be tasks of 2025-11-25.
    pub fn supports_tasks(&self) -> bool {
        self.supports_tasks
    }

    /// The declared capabilities: `completions`, `logging` …
    pub fn capabilities(&self) -> &Capabilities {
        &self.about.capabilities
    }

    /// Adds a page of a list and returns the cursor of the next one. Entries without an unambiguous
    /// name are dropped.
    pub(super) fn add_page(
        &mut self,
        what: Catalogue,
        page: &RawValue,
    ) -> Result<Option<String>, Error> {
        let prefix = self.prefix.clone().unwrap_or_default();
        let shape = || ProtocolViolation::Shape("a list");
        let (entries, list, key) = match what {
            Catalogue::Tools => return Err(shape().into()),
            Catalogue::Prompts => (&mut self.prompts, "prompts", "name"),
            Catalogue::Resources => (&mut self.resources, "resources", "uri"),
            Catalogue::Templates => (&mut self.templates, "resourceTemplates", "uriTemplate"),
        };
        let page = Object::parse(page).map_err(|_| shape())?;
        let listed: Vec<&RawValue> = page
            .find(list)
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .ok_or_else(shape)?;
        for definition in listed {
            if let Some((name, definition)) = known(definition, key, &prefix) {
                entries.entry(name).or_insert(definition);
            }
        }
        if entries.len() > MAX_ENTRIES {
            return Err(ProtocolViolation::EndlessList.into());
        }
        let cursor = page.find("nextCursor").filter(|raw| raw.get() != "null");
        cursor.map(|raw| serde_json::from_str(raw.get()).map_err(|_| shape().into())).transpose()
    }
}

/// A definition under its name for callers.
fn known(definition: &RawValue, key: &str, prefix: &Prefix) -> Option<(Box<str>, Box<RawValue>)> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let members = Object::parse(definition).ok()?;
    let Text(own) = serde_json::from_str(members.find(key)?.get()).ok()?;
    let name = match key {
        "name" => Cow::Owned(prefix.prompt(&own)),
        "uri" if naming::is_interface(&own) => Cow::Borrowed(&*own),
        _ => prefix.uri(&own)?,
    };
    if name == own {
        return Some((name.into(), definition.to_owned()));
    }
    let renamed = renamed(&members, key, &name)?;
    Some((name.into(), renamed))
}

/// A definition with another name in the member `key`.
pub fn renamed(members: &Object<'_>, key: &str, name: &str) -> Option<Box<RawValue>> {
    let mut text = Vec::new();
    jsonrpc::write_string(&mut text, name);
    let text = String::from_utf8(text).ok()?;
    let mut renamed = ObjectWriter::with_capacity(text.len() + 256);
    for member in members.members() {
        let value = if member.name == key { &text } else { member.value.get() };
        renamed.member(&member.name, value);
    }
    RawValue::from_string(renamed.finish_string()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn definition_names_have_the_target_prefix() {
        let of =
            |prefix: &str| Features::new(UpstreamInfo::default(), Prefix::parse(prefix).unwrap());
        let mut features = of("docs");
        let page = raw(r#"{"prompts":[{"title":"T","name":"a"},{"x":1},5],"nextCursor":"n"}"#);
        let next = features.add_page(Catalogue::Prompts, &page).unwrap();
        assert_eq!(next.as_deref(), Some("n"));
        assert_eq!(features.prompts()["docs/a"].get(), r#"{"title":"T","name":"docs/a"}"#);
        let page = raw(
            r#"{"resourceTemplates":[{"uriTemplate":"t://{id}"},{"uriTemplate":"ui://x/{id}"}]}"#,
        );
        assert_eq!(features.add_page(Catalogue::Templates, &page).unwrap(), None);
        assert!(features.templates().contains_key("docs+t://{id}"));
        assert!(features.templates().contains_key("ui://docs+x/{id}"));
        let page = raw(r#"{"resources":[{"uri":"ui://x/a"},{"uri":"u:1"},{"uri":"z:1"}]}"#);
        features.add_page(Catalogue::Resources, &page).unwrap();
        let interfaces: Vec<_> = features.interfaces().map(|(uri, _)| uri).collect();
        assert_eq!(interfaces, ["ui://x/a"]);
        let mut features = of("");
        let page = raw(r#"{"resources":[ {"uri":"a:1", "x":1.0}, {"uri":"git+a:1"}]}"#);
        features.add_page(Catalogue::Resources, &page).unwrap();
        assert_eq!(features.resources()["a:1"].get(), r#"{"uri":"a:1", "x":1.0}"#);
        assert_eq!(features.resources().len(), 1);
        assert!(features.add_page(Catalogue::Resources, &raw("{}")).is_err());
    }
}
