//! Decides calls with the policies of one catalog, by the code of gateways.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use policy::{
    ApplicablePolicies, CallContext, Called, Caller, Explanation, PoliciesInForce, Purpose,
};
use registry_core::{
    Catalog, Document, Entity, Key, Kind, Name, PointInTime, Record, Timestamp, Version,
    entity::{Agent, Dependency, DependencyTarget, Tool},
    suggest::closest,
};
use serde_json::{Map, Value};

use super::arguments::FinalArguments;
use crate::{
    cli::{AsOfArgs, CatalogArgs, FactsArgs},
    clock,
    commands::{Session, validate},
    failure::Failure,
    point_in_time, suggest,
};

/// The policies in force in one catalog.
pub(in crate::commands) struct Decider {
    catalog: Catalog,
    policies: PoliciesInForce,
}

/// Finds one version of a name.
type FindVersion = fn(&Decider, Kind, &str) -> Result<Arc<Record>, String>;

/// The registered caller and target of a call in the past.
pub(super) struct EarlierCall {
    /// `None`: an unregistered caller.
    pub(super) caller: Option<Key>,
    pub(super) target: Target,
}

/// A registered tool, or a skill of a registered agent.
#[derive(Debug, Clone)]
pub(in crate::commands) struct Target {
    document: Arc<Document>,
    skill: Option<Arc<str>>,
}

/// The context of a call.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) issuer: String,
    pub(super) subject: String,
    pub(super) method: String,
    pub(super) scopes: BTreeSet<String>,
    pub(super) purpose: Purpose,
    pub(super) hops: u32,
    pub(super) time: SystemTime,
}

/// The current catalog of the registry, or that of a point in history.
pub(super) async fn fetch(session: &Session, as_of: &AsOfArgs) -> Result<Catalog, Failure> {
    let client = session.connect().await?;
    let at = match as_of.at {
        Some(at) => at,
        None => PointInTime::Revision(client.head().await?),
    };
    point_in_time::fetch(&client, at).await
}

impl Decider {
    /// Reads the catalog of the arguments.
    pub(in crate::commands) async fn open(
        session: &Session,
        CatalogArgs { files, against, as_of }: &CatalogArgs,
    ) -> Result<Self, Failure> {
        Ok(Self::new(match files.as_slice() {
            [] => fetch(session, as_of).await?,
            files => validate::catalog_of(session.screen, files, against.as_deref())?,
        }))
    }

    pub(super) fn new(catalog: Catalog) -> Self {
        let policies = PoliciesInForce::new(&catalog, None);
        Self { catalog, policies }
    }

    pub(in crate::commands) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Finds the usable agent of a claim: `NAME` or `NAME@VERSION`.
    pub(super) fn caller(&self, text: &str) -> Result<Key, String> {
        let record = self.usable(Kind::Agent, text.strip_prefix("agent/").unwrap_or(text))?;
        Ok(record.document.key().clone())
    }

    /// Finds a usable tool or skill. Without a version, it is the one that gateways serve: the one
    /// that the caller declares, or the first of [`Catalog::usable_versions`].
    pub(in crate::commands) fn target(
        &self,
        text: &str,
        caller: Option<&Key>,
    ) -> Result<Target, String> {
        self.find_target(text, caller, Self::usable)
    }

    /// Finds the caller and the target of an earlier call, which may be retired since.
    pub(super) fn earlier_call(&self, caller: Option<&str>, tool: &str) -> Option<EarlierCall> {
        let agent = |text: &str| {
            let record = self.registered(Kind::Agent, text.strip_prefix("agent/").unwrap_or(text));
            Some(record.ok()?.document.key().clone())
        };
        let caller = match caller {
            Some(text) => Some(agent(text)?),
            None => None,
        };
        Some(EarlierCall { caller, target: self.find_target(tool, None, Self::registered).ok()? })
    }

    /// Finds a tool or skill whose version `find` selects.
    fn find_target(
        &self,
        text: &str,
        caller: Option<&Key>,
        find: FindVersion,
    ) -> Result<Target, String> {
        let (text, is_tool) = match text.strip_prefix("tool/") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let tool = match caller.and_then(|caller| self.declared(caller, text)) {
            Some(record) => Ok(record),
            None => find(self, Kind::Tool, text),
        };
        match tool {
            Ok(record) => Ok(Target::new(&record, None)),
            Err(problem) => self.skill(text, caller, find).ok_or_else(|| {
                // Names of tools have no `/`.
                if is_tool || !text.contains('/') { problem } else { self.unknown_skill(text) }
            }),
        }
    }

    /// The reason why a text with a `/` is no skill.
    fn unknown_skill(&self, text: &str) -> String {
        let text = text.strip_prefix("agent/").unwrap_or(text);
        if self.registered(Kind::Agent, text).is_ok() {
            return format!("agent/{text} is an agent; write AGENT/SKILL");
        }
        let (agent, skill) = text.rsplit_once('/').unwrap_or((text, ""));
        let record = match self.usable(Kind::Agent, agent) {
            Ok(record) => record,
            Err(problem) => return problem,
        };
        let skills = match record.document.entity() {
            Entity::Agent(agent) => agent.skills.as_slice(),
            _ => &[],
        };
        let similar = closest(skill, skills.iter().map(|skill| skill.id.as_str()));
        let problem = format!("{} has no skill `{skill}`", record.document.key());
        suggest::with_suggestion(problem, similar)
    }

    fn skill(&self, text: &str, caller: Option<&Key>, find: FindVersion) -> Option<Target> {
        let (agent, skill) = text.strip_prefix("agent/").unwrap_or(text).rsplit_once('/')?;
        let declared = caller.and_then(|caller| {
            let (depends, _) = self.agent(caller)?.depends();
            self.find_usable(&depends.iter().find(|one| is_skill(one, agent, skill))?.key())
        });
        let record = declared.or_else(|| find(self, Kind::Agent, agent).ok())?;
        let Entity::Agent(entity) = record.document.entity() else { return None };
        entity.skill(skill)?;
        Some(Target::new(&record, Some(skill.into())))
    }

    /// The version of a tool that an agent declares, unless it is retired.
    fn declared(&self, caller: &Key, name: &str) -> Option<Arc<Record>> {
        let (depends, _) = self.agent(caller)?.depends();
        let declared = depends.iter().find(|dependency| {
            dependency.target == DependencyTarget::Tool && dependency.name.as_str() == name
        });
        self.find_usable(&declared?.key())
    }

    fn find_usable(&self, key: &Key) -> Option<Arc<Record>> {
        self.catalog.find(key).filter(|record| self.catalog.is_callable(record)).cloned()
    }

    fn agent(&self, key: &Key) -> Option<&Agent> {
        match self.catalog.find(key)?.document.entity() {
            Entity::Agent(agent) => Some(agent),
            _ => None,
        }
    }

    /// Whether an agent declares a dependency on this tool or skill.
    pub(in crate::commands) fn declares(&self, caller: &Key, target: &Target) -> bool {
        let key = target.document.key();
        self.agent(caller).is_some_and(|agent| {
            agent.depends().0.iter().any(|dependency| {
                dependency.key() == *key && dependency.skill.as_deref() == target.skill.as_deref()
            })
        })
    }

    /// All registered versions of a tool or skill.
    pub(in crate::commands) fn versions_of(&self, named: &Target) -> Vec<Target> {
        let Key { kind, name, .. } = named.key();
        let versions = self.catalog.versions(*kind, name);
        versions.map(|(_, record)| Target::new(record, named.skill.clone())).collect()
    }

    /// A registered version of a tool.
    pub(in crate::commands) fn tool(&self, key: &Key) -> Option<Target> {
        Some(Target::new(self.catalog.find(key)?, None))
    }

    /// The registered tools of other names with the same upstream tool, in all versions.
    pub(in crate::commands) fn aliases_of(&self, target: &Target) -> Vec<Target> {
        let Some(upstream) = target.document.entity().as_tool().and_then(Tool::source) else {
            return Vec::new();
        };
        let is_alias = |key: &Key, record: &Record| {
            let source = record.document.entity().as_tool().and_then(Tool::source);
            key.name != target.key().name
                && source.is_some_and(|source| {
                    (&source.server, &source.tool) == (&upstream.server, &upstream.tool)
                })
        };
        let tools = self.catalog.of_kind(Kind::Tool);
        let aliases = tools.filter(|(key, record)| is_alias(key, record));
        aliases.map(|(_, record)| Target::new(record, None)).collect()
    }

    /// The same as [`Self::registered`], but gateways must accept calls of it.
    fn usable(&self, kind: Kind, text: &str) -> Result<Arc<Record>, String> {
        let record = self.registered(kind, text)?;
        if self.catalog.is_callable(&record) {
            return Ok(record);
        }
        let key = record.document.key();
        Err(match kind {
            _ if record.is_usable() => {
                format!("the server of {key} is retired; gateways do not serve its tools")
            }
            Kind::Agent => format!("{key} is retired; gateways reject its calls and its skills"),
            _ => format!("{key} is retired; gateways do not serve it"),
        })
    }

    /// Whether gateways accept calls of a target.
    pub(in crate::commands) fn is_usable(&self, target: &Target) -> bool {
        self.find_usable(target.key()).is_some()
    }

    /// One version of a name: `NAME@VERSION`; for `NAME` the one that gateways select, or the
    /// highest if they serve none.
    fn registered(&self, kind: Kind, text: &str) -> Result<Arc<Record>, String> {
        let (text, version) = match text.rsplit_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let name = Name::parse(kind, text).map_err(|e| e.to_string())?;
        let records: Vec<_> = self.catalog.versions(kind, &name).map(|(_, one)| one).collect();
        let Some(&last) = records.last() else { return Err(self.unknown(kind, text)) };
        let Some(version) = version else {
            let mut usable = self.catalog.usable_versions(kind, &name).into_iter();
            let callable = usable.find(|record| self.catalog.is_callable(record));
            return Ok(Arc::clone(callable.unwrap_or(last)));
        };
        let version = Version::parse(version).map_err(|e| e.to_string())?;
        let found = records.iter().find(|record| record.document.key().version == version);
        found.copied().cloned().ok_or_else(|| {
            let last = &last.document.key().version;
            format!("{kind}/{name}@{version} is not registered; the newest version is {last}")
        })
    }

    fn unknown(&self, kind: Kind, name: &str) -> String {
        let mut names: Vec<String> =
            self.catalog.of_kind(kind).map(|(key, _)| key.name.to_string()).collect();
        if kind == Kind::Tool {
            for (key, record) in self.catalog.of_kind(Kind::Agent) {
                let Entity::Agent(agent) = record.document.entity() else { continue };
                names.extend(agent.skills.iter().map(|skill| format!("{}/{}", key.name, skill.id)));
            }
        }
        let similar = closest(name, names.iter().map(String::as_str));
        suggest::with_suggestion(format!("{kind}/{name} is not registered"), similar)
    }

    /// The arguments of a call as the server receives them. Fails if a default of the tool needs
    /// another variable of the gateway.
    pub(super) fn final_arguments(
        &self,
        (caller, target): (Option<&Key>, &Target),
        sent: &Map<String, Value>,
        variables: &BTreeMap<String, String>,
    ) -> Result<FinalArguments, String> {
        let policies = self.applicable_policies(caller, target);
        let must_conform = policies.is_some_and(|policies| policies.reads_arguments());
        FinalArguments::new(&self.catalog, &target.tool(), sent, variables, must_conform)
    }

    /// Explains the decision about a call. The arguments are those that the server receives.
    pub(super) fn explain(
        &self,
        (agent, target): (Option<&Key>, &Target),
        arguments: &Map<String, Value>,
        facts: &Facts,
    ) -> Explanation {
        let principal = Caller::registered(&self.catalog, agent);
        let called = target.called();
        let resource = called.resource(&self.catalog).expect("the target is registered");
        let types = called.arguments(&self.catalog);
        policy::explain(
            &self.policies,
            &principal,
            &resource,
            called.action(),
            &facts.context(),
            &types,
            arguments,
        )
    }

    /// The policies that apply to calls.
    pub(in crate::commands) fn applicable_policies(
        &self,
        caller: Option<&Key>,
        target: &Target,
    ) -> Option<ApplicablePolicies> {
        let caller = Caller::registered(&self.catalog, caller);
        self.policies.applicable_to(&self.catalog, &caller, target.called())
    }
}

fn is_skill(dependency: &Dependency, agent: &str, skill: &str) -> bool {
    dependency.target == DependencyTarget::Agent
        && dependency.name.as_str() == agent
        && dependency.skill.as_deref() == Some(skill)
}

impl Target {
    fn new(record: &Record, skill: Option<Arc<str>>) -> Self {
        Self { document: Arc::clone(&record.document), skill }
    }

    pub(in crate::commands) fn called(&self) -> Called<'_> {
        match (&self.skill, self.document.entity().as_tool()) {
            (Some(skill), _) => Called::Skill(&self.document, skill),
            (None, Some(tool)) => Called::Tool(&self.document, tool),
            (None, None) => unreachable!("a target is a tool or a skill"),
        }
    }

    /// The tool, or the skill as a tool.
    fn tool(&self) -> Cow<'_, Tool> {
        let entity = self.document.entity();
        let skill = match (entity, &self.skill) {
            (Entity::Agent(agent), Some(id)) => agent.skill(id).map(|skill| skill.as_tool(agent)),
            _ => None,
        };
        let tool = skill.map(Cow::Owned).or_else(|| entity.as_tool().map(Cow::Borrowed));
        tool.expect("a target is a tool or a skill")
    }

    /// `tool/NAME@VERSION`, or `agent/NAME@VERSION` of a skill.
    pub(in crate::commands) fn key(&self) -> &Key {
        self.document.key()
    }

    /// The skill of an agent; `None` for a tool.
    pub(in crate::commands) fn skill(&self) -> Option<&str> {
        self.skill.as_deref()
    }

    /// The tools and skills that the steps of a composition call.
    pub(in crate::commands) fn steps(&self) -> Vec<String> {
        let composition = self.document.entity().as_tool().filter(|tool| tool.source().is_none());
        let depends = composition.map(|tool| tool.depends.as_slice()).unwrap_or_default();
        let text = |step: &Dependency| match &step.skill {
            Some(skill) => format!("{} skill {skill}", step.key()),
            None => step.key().to_string(),
        };
        depends.iter().map(text).collect()
    }

    /// The note that the decision about a composition does not include its steps, with a remedy.
    pub(super) fn note_of_steps(&self, remedy: &str) -> Option<String> {
        let steps = self.steps();
        let (key, names) = (self.key(), steps.join(", "));
        (!steps.is_empty())
            .then(|| format!("note: gateways also decide each step of {key}; {remedy}: {names}"))
    }

    /// The key, with the skill.
    pub(in crate::commands) fn text(&self) -> String {
        match &self.skill {
            Some(skill) => format!("{} skill {skill}", self.key()),
            None => self.key().to_string(),
        }
    }
}

impl From<FactsArgs> for Facts {
    fn from(args: FactsArgs) -> Self {
        let FactsArgs { method, issuer, subject, scopes, purpose, hops, time } = args;
        let time = time.map_or_else(clock::now, system_time);
        Self { issuer, subject, method, scopes: scopes.into_iter().collect(), purpose, hops, time }
    }
}

/// Times before 1970 become 1970.
pub(super) fn system_time(time: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or_default())
}

impl Facts {
    pub(super) fn context(&self) -> CallContext<'_> {
        let Self { issuer, subject, method, scopes, purpose, hops, time } = self;
        let (purpose, hops, time) = (*purpose, *hops, *time);
        CallContext { issuer, subject, method, scopes, purpose, hops, time }
    }
}
