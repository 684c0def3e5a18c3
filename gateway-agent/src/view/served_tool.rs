//! One tool version as the gateway serves it: its backend, defaults and hidden fields.
//!
//! A served tool contains all its inputs (shared with the catalog), so that it can check whether it
//! is current, and render itself at any time. An invalid projection yields no served tool, because
//! results would reveal hidden members. The same holds for a composition with an unusable part.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use gateway_policy::{ValidationMode, ValidationModes};
use gateway_protocol::mcp::Method;
use gateway_upstream::Route;
use policy::{ApplicablePolicies, Called};
use registry_core::{
    Digest, Document, Entity, Key, Name, Record,
    entity::{Agent, Dependency, Tool},
    spec::Mappings,
    tool_schema::{self, hide::HiddenField},
};
use serde_json::{Map, Value, value::RawValue};

use super::{
    Composed, InputSchema, Snapshot, TaskSupport,
    backend::{Backend, UpstreamBinding},
    input::{self, ServedSchema},
    pages::ListPosition,
    skill_name,
};
use crate::{
    contract::{Contracts, ViolationCounter, schemas_of},
    governance::Governance,
};

/// A tool version, or a skill of an agent version, that can be called.
#[derive(Debug)]
pub struct ServedTool {
    document: Arc<Document>,
    /// The skill as a tool, if it is one.
    skill: Option<Box<Tool>>,
    /// The name of the skill as a tool. `None`: it is too long, or it is no skill.
    skill_name: Option<Name>,
    schemas: Vec<Arc<Document>>,
    backend: Backend,
    hidden: Vec<HiddenField>,
    projection: Option<Mappings>,
    fingerprint: u64,
    checks: ValidationModes,
    observed: Arc<ViolationCounter>,
    /// Whether the tool's live definition was not accepted.
    is_quarantined: bool,
    /// Whether the target of a lower version lists another definition.
    is_undeployed: bool,
    /// The only serial of its validity, if the next snapshot can change it.
    only_at: Option<u64>,
    list_position: ListPosition,
    /// `SERVER/TOOL` of an upstream tool.
    name_in_counts: OnceLock<Box<str>>,
    /// The latest snapshot serial that the tool was current for.
    current_at: AtomicU64,
    input: OnceLock<Box<InputSchema>>,
    output: OnceLock<Option<Box<ServedSchema>>>,
}

impl ServedTool {
    /// Creates the served tool of a registered tool. `None` if it cannot be served. `part` resolves
    /// the parts of compositions.
    pub(super) fn new(
        snapshot: &Snapshot,
        record: &Record,
        contracts: &Contracts,
        part: impl FnMut(&Dependency) -> Option<Arc<Self>>,
    ) -> Option<Self> {
        let tool = record.document.entity().as_tool()?;
        let backend = Backend::new(snapshot, tool, part)?;
        let quarantined = backend.is_quarantined(snapshot, record, contracts);
        let undeployed = backend.is_undeployed(snapshot, record, contracts);
        let projection = tool.output_transform.as_ref().map(Mappings::parse).transpose().ok()?;
        // The next snapshot can contain accepted definitions or completed comparisons.
        let is_passing =
            quarantined.holds || quarantined.is_provisional || undeployed.is_provisional;
        let only_at = is_passing.then_some(snapshot.serial);
        let (is_quarantined, is_undeployed) = (quarantined.holds, undeployed.holds);
        let hidden = tool_schema::hidden(tool);
        let list_position = ListPosition::new(&snapshot.catalog, tool);
        let plain = Self::plain(snapshot, record, contracts, backend);
        Some(Self {
            hidden,
            projection,
            is_quarantined,
            is_undeployed,
            only_at,
            list_position,
            ..plain
        })
    }

    /// Creates the served tool of an agent's skill.
    pub(super) fn of_skill(
        snapshot: &Snapshot,
        record: &Record,
        contracts: &Contracts,
        skill: &str,
    ) -> Option<Self> {
        let Entity::Agent(agent) = record.document.entity() else { return None };
        let skill = agent.skill(skill)?;
        let backend = Backend::to_skill(snapshot, record.document.key(), (agent, skill));
        let quarantined = backend.is_quarantined(snapshot, record, contracts);
        let is_quarantined = quarantined.holds;
        // The next snapshot can contain an accepted card or a completed comparison.
        let only_at = (is_quarantined || quarantined.is_provisional).then_some(snapshot.serial);
        let plain = Self::plain(snapshot, record, contracts, backend);
        let skill_name = skill_name::of(&agent.name, &skill.id);
        let skill = Some(Box::new(skill.as_tool(agent)));
        Some(Self { skill, skill_name, is_quarantined, only_at, ..plain })
    }

    fn plain(
        snapshot: &Snapshot,
        record: &Record,
        contracts: &Contracts,
        backend: Backend,
    ) -> Self {
        let document = record.document.clone();
        let schemas = schemas_of(&snapshot.catalog, &document);
        let mut hasher = DefaultHasher::new();
        document.digest().hash(&mut hasher);
        for schema in &schemas {
            schema.digest().hash(&mut hasher);
        }
        backend.hash(&mut hasher);
        Self {
            skill: None,
            skill_name: None,
            hidden: Vec::new(),
            projection: None,
            backend,
            schemas,
            fingerprint: hasher.finish(),
            checks: contracts.checks(document.key()),
            observed: contracts.observed(document.key()),
            is_quarantined: false,
            is_undeployed: false,
            only_at: None,
            list_position: ListPosition::default(),
            name_in_counts: OnceLock::new(),
            current_at: AtomicU64::new(snapshot.serial),
            input: OnceLock::new(),
            output: OnceLock::new(),
            document,
        }
    }

    /// Whether all inputs are unchanged.
    pub(super) fn is_current(
        &self,
        snapshot: &Snapshot,
        record: &Record,
        part: impl FnMut(&Dependency) -> Option<Arc<Self>>,
    ) -> bool {
        // Parts are shared by compositions, so each is checked once per snapshot.
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
            && self.backend.is_current(snapshot, part)
            && self.schemas.iter().all(|schema| {
                let found = snapshot.catalog.find(schema.key());
                found.is_some_and(|record| is_same(schema, &record.document))
            })
    }

    /// The registered tool or skill.
    pub fn tool(&self) -> &Tool {
        let registered = self.skill.as_deref().or_else(|| self.document.entity().as_tool());
        registered.expect("a served tool comes from a tool or a skill")
    }

    /// The position in a list.
    pub(super) fn list_position(&self) -> &ListPosition {
        &self.list_position
    }

    /// The callers' URI of an MCP Apps interface in its `_meta`.
    pub(super) fn interface(&self, own: &str) -> Option<&str> {
        self.binding()?.interfaces.get(own).map(|known| &**known)
    }

    /// The tool version, or the agent version of a skill.
    pub fn key(&self) -> &Key {
        self.document.key()
    }

    /// The digest of the registered document.
    pub fn digest(&self) -> Digest {
        self.document.digest()
    }

    /// The registered name, or that of a skill's agent.
    pub fn name(&self) -> &Name {
        &self.document.key().name
    }

    /// The name in lists and calls of tools.
    pub fn listed_name(&self) -> &Name {
        self.skill_name.as_ref().unwrap_or(self.name())
    }

    /// The name after the name of a data agent and a dot. `None`: the tool is no function of the agent.
    pub fn function_of(&self, agent: &str) -> Option<&str> {
        self.name().as_str().strip_prefix(agent)?.strip_prefix('.')
    }

    /// The name of a skill as a tool, if it can be one.
    pub(super) fn skill_name(&self) -> Option<&Name> {
        self.skill_name.as_ref()
    }

    /// The registered server or agent. `None` for compositions.
    pub fn server(&self) -> Option<&Key> {
        self.binding().map(|binding| &binding.server)
    }

    /// The server and the tool's name there, or the agent and the skill's id.
    pub fn upstream(&self) -> Option<(&Key, &Arc<str>)> {
        self.binding().map(|binding| (&binding.server, &binding.tool))
    }

    /// The name that rates and budgets per tool count. Aliases of one upstream tool share it.
    pub fn name_in_counts(&self) -> &str {
        let Some((server, tool)) = self.upstream() else { return self.name().as_str() };
        self.name_in_counts.get_or_init(|| format!("{}/{tool}", server.name).into())
    }

    /// The upstream method.
    pub fn method(&self) -> Method {
        self.binding().map_or(Method::CallTool, |binding| binding.method)
    }

    /// The agent and the skill's id, if it is a skill.
    pub fn skill(&self) -> Option<(&Agent, &str)> {
        let Entity::Agent(agent) = self.document.entity() else { return None };
        Some((agent, &self.binding()?.tool))
    }

    /// Whether it is a skill that accepts text instead of data.
    pub fn takes_text(&self) -> bool {
        matches!(self.method(), Method::SendMessage { takes_text: true, .. })
    }

    /// The tool or skill as policies see it.
    pub fn called(&self) -> Called<'_> {
        match (&self.skill, self.binding()) {
            (Some(_), Some(binding)) => Called::Skill(&self.document, &binding.tool),
            _ => Called::Tool(&self.document, self.tool()),
        }
    }

    /// The policies that apply to calls by an agent.
    pub fn policies(
        &self,
        governance: &Governance,
        agent: Option<&Key>,
    ) -> Option<Arc<ApplicablePolicies>> {
        governance.applicable_policies(agent, self.called())
    }

    /// The upstream or composition that runs the tool.
    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The composition. `None`: the tool is not composed.
    pub fn composed(&self) -> Option<&Arc<Composed>> {
        match &self.backend {
            Backend::Upstream(_) => None,
            Backend::Composed(composed) => Some(composed),
        }
    }

    fn binding(&self) -> Option<&UpstreamBinding> {
        match &self.backend {
            Backend::Upstream(binding) => Some(binding),
            Backend::Composed(_) => None,
        }
    }

    /// The target. `None` for compositions.
    pub fn route(&self) -> Option<&Route> {
        self.binding()?.route.as_ref()
    }

    /// The first registered server or agent without a target. The tool is then not listed, and
    /// calls fail before anything is sent.
    pub fn missing_target(&self) -> Option<&Key> {
        self.backend.missing_target()
    }

    /// Whether its target, or that of each part, is not known to be down. An unavailable tool stays
    /// in lists and is marked there.
    pub fn is_available(&self) -> bool {
        self.backend.is_available()
    }

    /// Whether an operator stopped its target. The tool is then not listed. A composition stays
    /// listed, because it can handle the failure of a part.
    pub(super) fn is_stopped(&self) -> bool {
        self.binding().is_some_and(|binding| binding.is_stopped)
    }

    /// The upstream's definition, if it was listed.
    pub fn live(&self) -> Option<&RawValue> {
        let UpstreamBinding { live, tool, .. } = self.binding()?;
        live.as_ref()?.find(tool)
    }

    /// Whether it is registered as read-only. Claims of upstreams do not count, and a composition
    /// depends on its parts.
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

    /// The support for tasks of 2025-11-25.
    pub fn task_support(&self) -> TaskSupport {
        let support = self.binding().map(|binding| binding.tasks).unwrap_or_default();
        match support {
            // Results of tasks would bypass the projection.
            TaskSupport::Optional if self.projection.is_some() => TaskSupport::Forbidden,
            support => support,
        }
    }

    /// Whether clients with or without tasks can call it.
    pub(super) fn is_callable_by(&self, takes_tasks: bool) -> bool {
        let is_task = self.task_support() == TaskSupport::Required;
        !is_task || (takes_tasks && self.projection.is_none())
    }

    /// The registered cost of a call (`metadata.cost`), in the unit of its owners.
    pub fn cost(&self) -> Option<f64> {
        self.tool().metadata.as_ref()?.get("cost")?.as_f64()
    }

    /// Whether it is registered as idempotent.
    pub fn is_repeatable(&self) -> bool {
        match self.composed() {
            Some(composed) => composed.is_repeatable(),
            None => self.says("readOnlyHint") || self.says("idempotentHint"),
        }
    }

    /// Defaults of absent arguments.
    pub fn defaults(&self) -> Option<&Map<String, Value>> {
        self.tool().source().and_then(|source| source.defaults.as_ref())
    }

    /// Arguments that callers can neither see nor send.
    pub fn hidden(&self) -> &[HiddenField] {
        &self.hidden
    }

    /// The projection of results.
    pub fn projection(&self) -> Option<&Mappings> {
        self.projection.as_ref()
    }

    /// The checks of calls. The output of a composition is always checked.
    pub fn checks(&self) -> ValidationModes {
        match self.backend {
            Backend::Upstream(_) => self.checks,
            Backend::Composed(_) => {
                ValidationModes { output: ValidationMode::Error, ..self.checks }
            }
        }
    }

    /// The schema violations of calls.
    pub fn observed(&self) -> &ViolationCounter {
        &self.observed
    }

    /// Whether it is neither listed nor callable because its live definition was not accepted.
    pub fn is_quarantined(&self) -> bool {
        self.is_quarantined
    }

    /// Whether it, or a part, uses the target of a lower version that lists another definition or
    /// was not listed yet.
    pub(super) fn is_undeployed(&self) -> bool {
        self.is_undeployed
    }

    /// Equal fingerprints mean equal definitions.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The approximate size of the definition, in bytes.
    pub(super) fn weight_bytes(&self) -> usize {
        let schemas: usize = self.schemas.iter().map(|schema| schema.bytes().len()).sum();
        let live = self.live().map_or(0, |definition| definition.get().len());
        self.document.bytes().len() + schemas + live
    }

    /// The input schema for callers, computed on first use.
    pub fn input(&self) -> &InputSchema {
        self.input.get_or_init(|| Box::new(input::input_of(self)))
    }

    /// The output schema for callers, computed on first use.
    pub fn output(&self) -> Option<&ServedSchema> {
        self.output.get_or_init(|| input::output_of(self).map(Box::new)).as_deref()
    }

    /// A registered schema that this tool refers to.
    pub(super) fn schema(&self, key: &Key) -> Option<&Value> {
        let document = self.schemas.iter().find(|document| document.key() == key)?;
        document.entity().as_schema()
    }
}
