//! One tool version as the gateway serves it: where it leads, what is filled in and what is hidden.
//!
//! An offer holds everything that it was made of (all shared with the catalog), so that it can say
//! whether it is still current and can render itself at any time. A projection that cannot be read
//! makes no offer, because without it the result would show what was to be left out. Deliberately
//! absent: composed tools.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, OnceLock},
};

use registry_core::{
    Catalog, Document, Entity, Key, Kind, Name, Record,
    entity::Tool,
    rules,
    spec::Mappings,
    tool_schema::{self, hide::HiddenField},
};
use serde_json::{Map, Value, value::RawValue};

use super::{
    Input, Snapshot,
    input::{self, Schema},
};
use crate::{
    config::Checks,
    contract::{Contracts, Observed},
    upstream::Tools,
};

/// One tool version that can be served.
#[derive(Debug)]
pub struct Offer {
    document: Arc<Document>,
    schemas: Vec<Arc<Document>>,
    live: Option<Arc<Tools>>,
    server: Key,
    upstream_tool: Arc<str>,
    hidden: Vec<HiddenField>,
    projection: Option<Mappings>,
    fingerprint: u64,
    checks: Checks,
    observed: Arc<Observed>,
    /// At which moment it was quarantined, if it is.
    quarantined: Option<u64>,
    input: OnceLock<Box<Input>>,
    output: OnceLock<Option<Box<Schema>>>,
}

impl Offer {
    /// What a registered tool offers; `None` if it is no tool that can be served, or its upstream
    /// lists it in a way that forbids to use it.
    pub(super) fn new(snapshot: &Snapshot, record: &Record, contracts: &Contracts) -> Option<Self> {
        let document = record.document.clone();
        let tool = servable(&document)?;
        let source = tool.source()?;
        let projection = tool.output_transform.as_ref().map(Mappings::parse).transpose().ok()?;
        let server = source.server_key();
        let live = snapshot.definitions.find(&server).cloned();
        if live.as_ref().is_some_and(|tools| tools.has_left_out(&source.tool)) {
            return None;
        }
        let schemas = schemas_of(&snapshot.catalog, &document);
        let mut hasher = DefaultHasher::new();
        document.digest().hash(&mut hasher);
        for schema in &schemas {
            schema.digest().hash(&mut hasher);
        }
        text_in(live.as_ref(), &source.tool).hash(&mut hasher);
        let is_quarantined = contracts.is_quarantined(&snapshot.catalog, record, live.as_ref());
        Some(Self {
            upstream_tool: source.tool.as_str().into(),
            hidden: tool_schema::hidden(tool),
            projection,
            server,
            live,
            schemas,
            fingerprint: hasher.finish(),
            checks: contracts.checks(document.key()),
            observed: contracts.observed(document.key()),
            quarantined: is_quarantined.then_some(snapshot.serial),
            input: OnceLock::new(),
            output: OnceLock::new(),
            document,
        })
    }

    /// Whether everything that it was made of is still the same.
    pub(super) fn is_current(&self, snapshot: &Snapshot, record: &Record) -> bool {
        let is_same = |old: &Arc<Document>, new: &Arc<Document>| {
            Arc::ptr_eq(old, new) || old.digest() == new.digest()
        };
        // What a person accepts meanwhile shows at the next moment.
        self.quarantined.is_none_or(|serial| serial == snapshot.serial)
            && is_same(&self.document, &record.document)
            && self.is_live_as(snapshot.definitions.find(&self.server))
            && self.schemas.iter().all(|schema| {
                let found = snapshot.catalog.find(schema.key());
                found.is_some_and(|record| is_same(schema, &record.document))
            })
    }

    /// By identity, not by text: an offer that outlived its list would keep the whole list.
    fn is_live_as(&self, tools: Option<&Arc<Tools>>) -> bool {
        match (tools, &self.live) {
            (Some(new), Some(old)) => Arc::ptr_eq(new, old),
            (new, old) => new.is_none() && old.is_none(),
        }
    }

    /// Its registered document.
    pub fn tool(&self) -> &Tool {
        servable(&self.document).expect("an offer is only made of a tool")
    }

    /// Its name and version.
    pub fn key(&self) -> &Key {
        self.document.key()
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.document.key().name
    }

    /// The registered server behind it.
    pub fn server(&self) -> &Key {
        &self.server
    }

    /// The tool's name on that server.
    pub fn upstream_tool(&self) -> &Arc<str> {
        &self.upstream_tool
    }

    /// What the upstream itself says about the tool, if it is known yet.
    pub fn live(&self) -> Option<&RawValue> {
        self.live.as_ref()?.find(&self.upstream_tool)
    }

    /// Whether it is registered as changing nothing. What the upstream says of itself does not count.
    pub fn is_read_only(&self) -> bool {
        let annotations = self.tool().annotations.as_ref();
        annotations.and_then(|all| all.get("readOnlyHint")) == Some(&Value::Bool(true))
    }

    /// What a call costs as its registration says (`metadata.cost`), in whatever unit its owners
    /// count in.
    pub fn cost(&self) -> Option<f64> {
        self.tool().metadata.as_ref()?.get("cost")?.as_f64()
    }

    /// Whether it is registered as a tool that may be called twice without harm.
    pub fn is_repeatable(&self) -> bool {
        let annotations = self.tool().annotations.as_ref();
        let says =
            |hint: &str| annotations.and_then(|all| all.get(hint)) == Some(&Value::Bool(true));
        says("readOnlyHint") || says("idempotentHint")
    }

    /// Values for arguments that the caller leaves out.
    pub fn defaults(&self) -> Option<&Map<String, Value>> {
        self.tool().source().and_then(|source| source.defaults.as_ref())
    }

    /// Arguments that callers neither see nor may send.
    pub fn hidden(&self) -> &[HiddenField] {
        &self.hidden
    }

    /// What callers get of its results, if that is not all.
    pub fn projection(&self) -> Option<&Mappings> {
        self.projection.as_ref()
    }

    /// What is checked of its calls.
    pub fn checks(&self) -> Checks {
        self.checks
    }

    /// What was seen of its calls.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Whether it is neither listed nor called, for what its server says of it.
    pub fn is_quarantined(&self) -> bool {
        self.quarantined.is_some()
    }

    /// Equal fingerprints mean equal definitions.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// About how many bytes its definition takes.
    pub(super) fn weight_bytes(&self) -> usize {
        let schemas: usize = self.schemas.iter().map(|schema| schema.bytes().len()).sum();
        let live = self.live().map_or(0, |definition| definition.get().len());
        self.document.bytes().len() + schemas + live
    }

    /// The input schema as callers see it, worked out at the first call.
    pub fn input(&self) -> &Input {
        self.input.get_or_init(|| Box::new(input::input_of(self)))
    }

    /// The output schema, worked out at the first call that needs it.
    pub fn output(&self) -> Option<&Schema> {
        self.output.get_or_init(|| input::output_of(self).map(Box::new)).as_deref()
    }

    /// The JSON Schema of a registered schema that this tool needs.
    pub(super) fn schema(&self, key: &Key) -> Option<&Value> {
        let document = self.schemas.iter().find(|document| document.key() == key)?;
        match document.entity() {
            Entity::Schema(schema) => Some(&schema.schema),
            Entity::Server(_) | Entity::Tool(_) | Entity::Agent(_) => None,
        }
    }
}

/// The text of one tool's definition.
fn text_in<'a>(tools: Option<&'a Arc<Tools>>, tool: &str) -> Option<&'a str> {
    tools?.find(tool).map(RawValue::get)
}

/// The tool in a document, if the gateway can serve it.
fn servable(document: &Document) -> Option<&Tool> {
    match document.entity() {
        Entity::Tool(tool) if tool.source().is_some() => Some(tool),
        _ => None,
    }
}

/// Every registered schema behind a document, each once, in the order in which they are met.
pub(crate) fn schemas_of(catalog: &Catalog, document: &Document) -> Vec<Arc<Document>> {
    let mut found: Vec<Arc<Document>> = Vec::new();
    let mut waiting = rules::edges(document.entity());
    while let Some(key) = waiting.pop() {
        let is_new = key.kind == Kind::Schema && found.iter().all(|known| *known.key() != key);
        let Some(record) = catalog.find(&key).filter(|_| is_new) else { continue };
        waiting.extend(rules::edges(record.document.entity()));
        found.push(record.document.clone());
    }
    found
}
