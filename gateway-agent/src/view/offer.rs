//! One tool version as the gateway serves it: where it leads, what is filled in and what is hidden.
//!
//! An offer holds everything that it was made of (all shared with the catalog), so that it can say
//! whether it is still current and can render itself at any time. A projection that cannot be read
//! makes no offer, because without it the result would show hidden members. A composition with an
//! unusable part makes none either.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use gateway_policy::{Checks, Mode};
use gateway_protocol::mcp::Method;
use gateway_upstream::Route;
use registry_core::{
    Document, Entity, Key, Name, Record,
    entity::{Dependency, Tool},
    spec::Mappings,
    tool_schema::{self, hide::HiddenField},
};
use serde_json::{Map, Value, value::RawValue};

use super::{
    Composed, Input, Snapshot, TaskSupport,
    input::{self, Schema},
    pages::Place,
    way::{Backing, Way},
};
use crate::contract::{Contracts, Observed, schemas_of};

/// One tool version that can be served, or one skill of an agent version, for compositions.
#[derive(Debug)]
pub struct Offer {
    document: Arc<Document>,
    /// The skill as a tool, where it is one.
    skill: Option<Box<Tool>>,
    schemas: Vec<Arc<Document>>,
    way: Way,
    hidden: Vec<HiddenField>,
    projection: Option<Mappings>,
    fingerprint: u64,
    checks: Checks,
    observed: Arc<Observed>,
    /// Whether calls are refused for what its server lists.
    is_quarantined: bool,
    /// Whether it is not what the target of a lower version lists.
    is_undeployed: bool,
    /// The only moment of its validity, if the next one can differ.
    only_at: Option<u64>,
    place: Place,
    /// The latest moment at which it was seen to be current.
    current_at: AtomicU64,
    input: OnceLock<Box<Input>>,
    output: OnceLock<Option<Box<Schema>>>,
}

impl Offer {
    /// What a registered tool offers; `None` if it cannot be served. The parts of a composition are
    /// other offers.
    pub(super) fn new(
        snapshot: &Snapshot,
        record: &Record,
        contracts: &Contracts,
        part: impl FnMut(&Dependency) -> Option<Arc<Self>>,
    ) -> Option<Self> {
        let tool = record.document.entity().as_tool()?;
        let way = Way::of(snapshot, tool, part)?;
        let quarantined = way.is_quarantined(snapshot, record, contracts);
        let undeployed = way.is_undeployed(snapshot, record, contracts);
        let projection = tool.output_transform.as_ref().map(Mappings::parse).transpose().ok()?;
        // Definitions that a person accepts or that are judged meanwhile show at the next moment.
        let is_passing =
            quarantined.is_so || quarantined.is_provisional || undeployed.is_provisional;
        let only_at = is_passing.then_some(snapshot.serial);
        let (is_quarantined, is_undeployed) = (quarantined.is_so, undeployed.is_so);
        let hidden = tool_schema::hidden(tool);
        let place = Place::of(&snapshot.catalog, tool);
        let plain = Self::plain(snapshot, record, contracts, way);
        Some(Self { hidden, projection, is_quarantined, is_undeployed, only_at, place, ..plain })
    }

    /// What a registered agent offers with a skill, for compositions.
    pub(super) fn of_skill(
        snapshot: &Snapshot,
        record: &Record,
        contracts: &Contracts,
        skill: &str,
    ) -> Option<Self> {
        let Entity::Agent(agent) = record.document.entity() else { return None };
        let skill = agent.skill(skill)?;
        let way = Way::to_skill(snapshot, record.document.key(), (agent, skill));
        let plain = Self::plain(snapshot, record, contracts, way);
        Some(Self { skill: Some(Box::new(skill.as_tool(agent))), ..plain })
    }

    fn plain(snapshot: &Snapshot, record: &Record, contracts: &Contracts, way: Way) -> Self {
        let document = record.document.clone();
        let schemas = schemas_of(&snapshot.catalog, &document);
        let mut hasher = DefaultHasher::new();
        document.digest().hash(&mut hasher);
        for schema in &schemas {
            schema.digest().hash(&mut hasher);
        }
        way.hash(&mut hasher);
        Self {
            skill: None,
            hidden: Vec::new(),
            projection: None,
            way,
            schemas,
            fingerprint: hasher.finish(),
            checks: contracts.checks(document.key()),
            observed: contracts.observed(document.key()),
            is_quarantined: false,
            is_undeployed: false,
            only_at: None,
            place: Place::default(),
            current_at: AtomicU64::new(snapshot.serial),
            input: OnceLock::new(),
            output: OnceLock::new(),
            document,
        }
    }

    /// Whether everything that it was made of is still the same.
    pub(super) fn is_current(
        &self,
        snapshot: &Snapshot,
        record: &Record,
        part: impl FnMut(&Dependency) -> Option<Arc<Self>>,
    ) -> bool {
        // Parts of compositions are shared, and each is looked at once a moment.
        if self.current_at.load(Ordering::Relaxed) == snapshot.serial {
            return true;
        }
        let is_current = self.is_made_of(snapshot, record, part);
        if is_current {
            self.current_at.store(snapshot.serial, Ordering::Relaxed);
        }
        is_current
    }

    fn is_made_of(
        &self,
        snapshot: &Snapshot,
        record: &Record,
        part: impl FnMut(&Dependency) -> Option<Arc<Self>>,
    ) -> bool {
        let is_same = |old: &Arc<Document>, new: &Arc<Document>| {
            Arc::ptr_eq(old, new) || old.digest() == new.digest()
        };
        self.only_at.is_none_or(|serial| serial == snapshot.serial)
            && is_same(&self.document, &record.document)
            && self.way.is_current(snapshot, part)
            && self.schemas.iter().all(|schema| {
                let found = snapshot.catalog.find(schema.key());
                found.is_some_and(|record| is_same(schema, &record.document))
            })
    }

    /// What is registered of it.
    pub fn tool(&self) -> &Tool {
        let registered = self.skill.as_deref().or_else(|| self.document.entity().as_tool());
        registered.expect("an offer is only made of a tool or a skill")
    }

    /// Its place in a list.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// The callers' URI of an interface of an MCP App in its `_meta`.
    pub(super) fn interface(&self, own: &str) -> Option<&str> {
        self.backing()?.interfaces.get(own).map(|known| &**known)
    }

    /// Its name and version.
    pub fn key(&self) -> &Key {
        self.document.key()
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.document.key().name
    }

    /// The registered server or agent behind it; none behind a composition.
    pub fn server(&self) -> Option<&Key> {
        self.backing().map(|backing| &backing.server)
    }

    /// That server, and the tool's name there; or that agent, and the skill's id.
    pub fn upstream(&self) -> Option<(&Key, &Arc<str>)> {
        self.backing().map(|backing| (&backing.server, &backing.tool))
    }

    /// How it is asked for there.
    pub fn method(&self) -> Method {
        self.backing().map_or(Method::CallTool, |backing| backing.method)
    }

    /// Whether it is a skill that takes text rather than data.
    pub fn takes_text(&self) -> bool {
        matches!(self.method(), Method::SendMessage { takes_text: true, .. })
    }

    /// How it is composed, if it is.
    pub fn composed(&self) -> Option<&Arc<Composed>> {
        match &self.way {
            Way::Upstream(_) => None,
            Way::Composed(composed) => Some(composed),
        }
    }

    fn backing(&self) -> Option<&Backing> {
        match &self.way {
            Way::Upstream(backing) => Some(backing),
            Way::Composed(_) => None,
        }
    }

    /// The target that it is called at; none for a composition.
    pub fn route(&self) -> Option<&Route> {
        self.backing()?.route.as_ref()
    }

    /// The first registered server or agent behind it without a target. The tool is then not listed,
    /// and a call fails before anything is sent.
    pub fn missing_target(&self) -> Option<&Key> {
        self.way.missing_target()
    }

    /// What the upstream itself says about the tool, if it is known yet.
    pub fn live(&self) -> Option<&RawValue> {
        let Backing { live, tool, .. } = self.backing()?;
        live.as_ref()?.find(tool)
    }

    /// Whether it is registered as changing nothing. What the upstream says of itself does not count,
    /// nor what a composition says: only what its parts do.
    pub fn is_read_only(&self) -> bool {
        match self.composed() {
            Some(composed) => composed.is_read_only(),
            None => self.says("readOnlyHint"),
        }
    }

    fn says(&self, hint: &str) -> bool {
        let annotations = self.tool().annotations.as_ref();
        annotations.and_then(|all| all.get(hint)) == Some(&Value::Bool(true))
    }

    /// Whether it is called as a task of 2025-11-25.
    pub fn task_support(&self) -> TaskSupport {
        let support = self.backing().map(|backing| backing.tasks).unwrap_or_default();
        match support {
            // The result of a task would come past the projection.
            TaskSupport::Optional if self.projection.is_some() => TaskSupport::Forbidden,
            support => support,
        }
    }

    /// Whether a client can call it that knows tasks of 2025-11-25, or does not.
    pub(super) fn is_callable_by(&self, takes_tasks: bool) -> bool {
        let is_task = self.task_support() == TaskSupport::Required;
        !is_task || (takes_tasks && self.projection.is_none())
    }

    /// What a call costs as its registration says (`metadata.cost`), in whatever unit its owners
    /// count in.
    pub fn cost(&self) -> Option<f64> {
        self.tool().metadata.as_ref()?.get("cost")?.as_f64()
    }

    /// Whether it is registered as a tool that may be called twice without harm.
    pub fn is_repeatable(&self) -> bool {
        match self.composed() {
            Some(composed) => composed.is_repeatable(),
            None => self.says("readOnlyHint") || self.says("idempotentHint"),
        }
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

    /// What is checked of its calls. What the gateway itself puts together is as it was promised.
    pub fn checks(&self) -> Checks {
        match self.way {
            Way::Upstream(_) => self.checks,
            Way::Composed(_) => Checks { output: Mode::Error, ..self.checks },
        }
    }

    /// What was seen of its calls.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Whether it is neither listed nor called, for what its server says of it.
    pub fn is_quarantined(&self) -> bool {
        self.is_quarantined
    }

    /// Whether it, or a part of it, is at the target of a lower version, which lists something else
    /// or was not listed yet.
    pub(super) fn is_undeployed(&self) -> bool {
        self.is_undeployed
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
