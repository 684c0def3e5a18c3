//! A tool's entry in `tools/list`: the registered members, and the upstream's for all others, in
//! the upstream's order.
//!
//! `execution` contains the task support of this gateway for the client.

use gateway_protocol::{
    jsonrpc::{Object, ObjectWriter, write_string},
    mcp::Era,
};
use registry_core::entity::tool::{expected_annotation_type, is_reserved_meta_key};
use serde_json::{Map, Value, value::RawValue};

use super::{
    ServedTool,
    input::{input_of, output_of},
    order::arranged,
};
use crate::view::pages::Form;

/// The member of `_meta` that marks a tool whose upstream is down.
pub(crate) const AVAILABILITY: &str = "registry/availability";
/// The value of [`AVAILABILITY`]. Other tools have no such member.
pub(crate) const UNAVAILABLE: &str = "unavailable";

/// An entry. Older clients may need another form.
pub(super) struct Entry {
    pub(super) json: String,
    pub(super) is_modern_only: bool,
}

/// The entry of a tool for clients of 2026-07-28, as JSON text.
pub(crate) fn definition(served: &ServedTool) -> String {
    render(served, Form::Modern).json
}

/// Renders a tool. Before 2026-07-28, output schemas must describe objects; strict clients reject
/// a whole list with another one, so it is omitted.
pub(super) fn render(served: &ServedTool, form: Form) -> Entry {
    let era = form.era();
    let live = served.live().and_then(|live| Object::parse(live).ok()).unwrap_or_default();
    let output = output_of(served);
    let is_modern_only = output.as_ref().is_some_and(|schema| !schema.is_for_objects());
    let output = output.filter(|_| era == Era::Modern || !is_modern_only);
    let mut members = Members { served, live: &live, texts: Vec::with_capacity(8) };
    members.texts();
    members.put("inputSchema", Some(input_of(served).schema.text.into()));
    members.put("outputSchema", output.map(|schema| schema.text.into()));
    members.put("annotations", members.annotations());
    members.put("execution", members.execution(form.has_tasks()));
    members.put("icons", members.icons());
    members.put("_meta", Some(members.meta()));
    Entry { json: members.finish(), is_modern_only }
}

struct Members<'a> {
    served: &'a ServedTool,
    live: &'a Object<'a>,
    texts: Vec<(&'static str, String)>,
}

impl<'a> Members<'a> {
    fn put(&mut self, name: &'static str, text: Option<String>) {
        self.texts.extend(text.map(|text| (name, text)));
    }

    /// The upstream's member, if its text starts with `start`.
    fn inherited(&self, name: &str, start: char) -> Option<&'a RawValue> {
        self.live.find(name).filter(|raw| raw.get().starts_with(start))
    }

    fn texts(&mut self) {
        let tool = self.served.tool();
        let name = Some(self.served.listed_name().as_str());
        let registered = [
            ("name", name),
            ("title", tool.title.as_deref()),
            ("description", tool.description.as_deref()),
        ];
        for (name, registered) in registered {
            let text = match registered {
                Some(text) => Some(quoted(text)),
                None => self.inherited(name, '"').map(|raw| raw.get().to_owned()),
            };
            self.put(name, text);
        }
    }

    /// The registered, derived or upstream annotations. Those of a wrong type are omitted, because
    /// strict clients reject a whole list with one.
    fn annotations(&self) -> Option<String> {
        let live = self.inherited("annotations", '{');
        let derived = || self.served.composed().map(|composed| composed.hints().to_annotations());
        let own = self.served.tool().annotations.clone().or_else(derived);
        let (mut annotations, is_own) = match own {
            Some(own) => (own, true),
            None => (serde_json::from_str::<Map<String, Value>>(live?.get()).ok()?, false),
        };
        let before = annotations.len();
        annotations.retain(|name, value| expected_annotation_type(name, value).is_none());
        if !is_own && annotations.len() == before {
            return live.map(|raw| raw.get().to_owned());
        }
        Some(arranged(&Value::Object(annotations), live))
    }

    /// The upstream's icons, unless one has no address.
    fn icons(&self) -> Option<String> {
        let live = self.inherited("icons", '[')?.get();
        let icons: Vec<Value> = serde_json::from_str(live).ok()?;
        icons.iter().all(|icon| icon["src"].is_string()).then(|| live.to_owned())
    }

    /// `execution` with this gateway's task support.
    fn execution(&self, has_tasks: bool) -> Option<String> {
        let live = self.inherited("execution", '{');
        let own = self.served.tool().execution.clone();
        let mut execution = match own {
            Some(own) => own,
            None => serde_json::from_str(live?.get()).ok()?,
        };
        let support = self.served.task_support().as_str().filter(|_| has_tasks);
        if let Some(support) = support {
            execution.insert("taskSupport".to_owned(), support.into());
        } else if execution.get("taskSupport").is_some_and(|said| said != "forbidden") {
            execution.remove("taskSupport");
        }
        (!execution.is_empty()).then(|| arranged(&Value::Object(execution), live))
    }

    /// `_meta` without reserved keys, and with the callers' URIs of MCP Apps. A projected tool
    /// inherits none, because the upstream's `_meta` describes other results.
    fn meta(&self) -> String {
        let live = self.inherited("_meta", '{').filter(|_| self.served.projection().is_none());
        let own = self.served.tool().meta.clone();
        let mut meta = own.unwrap_or_else(|| {
            live.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
        });
        meta.retain(|key, _| !is_reserved_meta_key(key));
        let mut meta = Value::Object(meta);
        rename_interfaces(&mut meta, self.served);
        if let Value::Object(meta) = &mut meta {
            let version = self.served.tool().version.to_string();
            meta.insert("registry/version".to_owned(), version.into());
            if !self.served.is_available() {
                meta.insert(AVAILABILITY.to_owned(), UNAVAILABLE.into());
            }
        }
        arranged(&meta, live)
    }

    /// Writes the members in the upstream's order, followed by the others.
    fn finish(self) -> String {
        let Self { live, mut texts, .. } = self;
        let place = |name: &str| live.members().iter().position(|member| member.name == name);
        texts.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
        let mut entry = ObjectWriter::with_capacity(512);
        for (name, text) in &texts {
            entry.raw(name, text);
        }
        entry.finish_string()
    }
}

fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_string(&mut out, text);
    String::from_utf8(out).expect("JSON is text")
}

fn rename_interfaces(value: &mut Value, served: &ServedTool) {
    match value {
        Value::String(text) => {
            if let Some(known) = served.interface(text) {
                known.clone_into(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename_interfaces(item, served)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| rename_interfaces(member, served));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
