//! Self-registration of data agents: the entities of a registration, their owner, and the place where
//! they are stored: the registry, or a file of a gateway without one.
//!
//! The gateway owns the entities in the registry. `metadata.dataAgent` has the account that registered
//! the agent, and only that account may register other content.

mod content;
mod local;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

use agent_rpc::{execute, registration::Registration};
use gateway_policy::QuotaKey;
use gateway_upstream::RegisteredAgents;
use registry_core::{
    Catalog, Document, Entity, Key, Kind, LifecycleState, Name, Record, Version,
    version::ReleaseChange,
};
use registry_follow::{RegistrationBatch, RegistrationClient, RegistrationError};
use serde_json::{Map, Value};
use tokio::sync::{Mutex, OwnedMutexGuard};

use self::content::documents;
pub(crate) use self::content::{digest_of, functions};
pub use self::local::{LocalAgents, LocalRegistrations};
use crate::{
    fixed_window::FixedWindows,
    identity::account::{DATA_AGENT_METADATA, OWNER, owner_in, registration_in},
    weak_map::WeakMap,
};

/// Maximum data agents of one account.
const AGENTS_PER_ACCOUNT: usize = 100;
/// Maximum size of the definitions of an agent, in bytes of JSON.
const AGENT_BYTES: usize = 1024 * 1024;
/// Maximum size of the registered agents of one account, in bytes of JSON.
const ACCOUNT_BYTES: usize = 8 * 1024 * 1024;
/// Maximum registrations of new content of one account in [`PERIOD`].
const REGISTRATIONS: u32 = 20;
const PERIOD: Duration = Duration::from_mins(1);
/// Maximum heartbeats and registrations of one caller over HTTP in [`MESSAGES_PERIOD`]: all agents of an
/// account can send heartbeats at the shortest interval.
const MESSAGES: u32 = 100;
const MESSAGES_PERIOD: Duration = Duration::from_secs(1);

/// `agents.selfRegistration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SelfRegistration {
    /// Registrations are rejected.
    #[default]
    Off,
    /// A registration needs an approval.
    Review,
    /// Registrations are stored.
    Accept,
}

/// The settings of data agents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DataAgentSettings {
    /// Whether data agents register themselves.
    pub registration: SelfRegistration,
    /// The origins that the endpoint of a registration may have. Empty: none.
    pub endpoints: Vec<String>,
}

impl DataAgentSettings {
    /// Whether the gateway may call an endpoint.
    pub(crate) fn allows(&self, endpoint: &str) -> bool {
        origin_of(endpoint).is_some_and(|origin| self.endpoints.contains(&origin))
    }
}

/// The scheme and the authority of a URL without credentials.
fn origin_of(url: &str) -> Option<String> {
    let uri: http::Uri = url.parse().ok()?;
    let (scheme, authority) = (uri.scheme_str()?, uri.authority()?);
    let is_plain = matches!(scheme, "http" | "https") && !authority.as_str().contains('@');
    is_plain.then(|| format!("{scheme}://{authority}"))
}

/// Stores registrations.
#[derive(Debug)]
pub struct Registrations {
    store: Store,
    /// The agents that are being registered.
    in_progress: WeakMap<Name, Mutex<()>>,
    /// Serializes changes of the targets.
    targets: std::sync::Mutex<()>,
    /// The registrations of new content by the owner.
    rates: std::sync::Mutex<FixedWindows<String>>,
    /// The heartbeats and registrations over HTTP by the caller.
    messages: std::sync::Mutex<FixedWindows<QuotaKey>>,
}

#[derive(Debug)]
enum Store {
    Registry(Box<RegistrationClient>),
    Local(Arc<LocalRegistrations>),
    /// The source of the catalog takes no registrations.
    None,
}

/// Why a registration is rejected or not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRegistered {
    /// Another account, an owner of the registry or a configured target has the name.
    #[error("the {kind} name `{name}` is taken by another owner; use another agent_id")]
    Taken { kind: Kind, name: Name },
    /// Callers would confuse the agent with another one.
    #[error("the agent_id differs from the name of `{0}` only in case; use another agent_id")]
    SimilarName(Key),
    #[error("the registration of `{0}` was retired; ask its owner in the registry to restore it")]
    Retired(Name),
    #[error(
        "the account has {AGENTS_PER_ACCOUNT} data agents; retire one of them, or use another account"
    )]
    TooMany,
    /// The account registers too much.
    #[error(
        "the definitions of an agent have at most {AGENT_BYTES} bytes, and those of an account \
         {ACCOUNT_BYTES}; register fewer or smaller functions"
    )]
    TooLarge,
    #[error(
        "the account registers new content more than {REGISTRATIONS} times per minute; register again \
         later"
    )]
    TooFast,
    /// The gateway does not follow the entities.
    #[error("`{0}` is outside of the scope of this gateway; add the root `{0}` to registry.scope")]
    OutsideScope(String),
    /// The rules of the registry reject the entities.
    #[error("the registry rejects the registration: {0}")]
    Invalid(String),
    /// The credential of the gateway may not register the entities.
    #[error(
        "the gateway may not register the agent: {0}; give its token the role `publisher` for this name"
    )]
    Forbidden(String),
    #[error("the registration cannot be stored now: {0}; register again later")]
    Unavailable(String),
    /// Another commit was first. Nothing was stored.
    #[error(
        "{server} was not registered, because another commit was first: {problem}; register again"
    )]
    Conflict { server: Key, problem: String },
    #[error(
        "the source of the catalog takes no registrations; follow a registry (grpc://), or start with \
         --mcp-servers"
    )]
    NoStore,
}

/// The result of comparing a registration with the catalog.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Planned {
    /// The content is registered.
    Unchanged(Key),
    /// A new version of the server, and the key of the last one.
    Version { server: Key, last: Option<Key> },
}

/// A registration of an account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submission<'a> {
    pub(crate) registration: &'a Registration,
    /// The identity of the account.
    pub(crate) owner: &'a str,
    /// The account for the message of the commit.
    pub(crate) account: &'a str,
}

impl Registrations {
    /// Stores registrations in a registry.
    pub fn in_registry(client: RegistrationClient) -> Self {
        Self::with(Store::Registry(Box::new(client)))
    }

    /// Stores registrations in a file.
    pub fn local(store: LocalRegistrations) -> Self {
        Self::with(Store::Local(Arc::new(store)))
    }

    /// Rejects registrations.
    pub fn none() -> Self {
        Self::with(Store::None)
    }

    fn with(store: Store) -> Self {
        Self {
            store,
            in_progress: WeakMap::default(),
            targets: std::sync::Mutex::default(),
            rates: std::sync::Mutex::new(FixedWindows::new()),
            messages: std::sync::Mutex::new(FixedWindows::new()),
        }
    }

    /// Waits until no other thread changes the targets of data agents. The last change must have the
    /// newest catalog, so the catalog is read under the lock.
    pub(crate) fn lock_targets(&self) -> std::sync::MutexGuard<'_, ()> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other registration of this agent is in progress.
    pub(crate) async fn lock(&self, agent: &Name) -> OwnedMutexGuard<()> {
        self.in_progress.get_or_create(agent, Mutex::default).lock_owned().await
    }

    /// Counts a registration of new content.
    pub(crate) fn check_rate(&self, owner: &str) -> Result<(), NotRegistered> {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let is_exceeded = rates.exceeds(&owner.to_owned(), REGISTRATIONS, PERIOD);
        if is_exceeded { Err(NotRegistered::TooFast) } else { Ok(()) }
    }

    /// Counts a heartbeat or registration over HTTP. Returns whether the caller sends too many.
    pub(crate) fn is_flooding(&self, payer: &QuotaKey) -> bool {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.exceeds(payer, MESSAGES, MESSAGES_PERIOD)
    }

    /// Stores a new version.
    pub(crate) async fn store(
        &self,
        submission: Submission<'_>,
        catalog: &Catalog,
        (server, last): (&Key, Option<&Key>),
    ) -> Result<(), NotRegistered> {
        let documents = documents(submission, &server.version);
        match &self.store {
            Store::None => Err(NotRegistered::NoStore),
            Store::Local(store) => store.put(&server.name, documents).await,
            Store::Registry(client) => {
                let parsed = documents.parse()?;
                let retired = removed_tools(catalog, last, &parsed);
                let Submission { registration, account, .. } = submission;
                let agent = registration.agent_id.as_str();
                let batch = RegistrationBatch {
                    documents: &parsed,
                    retired: &retired,
                    message: format!("register the data agent {agent} of {account}"),
                };
                client.apply(batch).await.map_err(|failure| match failure {
                    RegistrationError::Rejected(why) => NotRegistered::Invalid(why),
                    RegistrationError::Forbidden(why) => NotRegistered::Forbidden(why),
                    RegistrationError::Conflict(problem) => {
                        NotRegistered::Conflict { server: server.clone(), problem }
                    }
                    RegistrationError::Unavailable(why) => NotRegistered::Unavailable(why),
                })
            }
        }
    }
}

/// Compares a registration with the catalog. `reserved`: the kind of the gateway itself or of a
/// configured target with the agent's name.
pub(crate) fn plan(
    catalog: &Catalog,
    submission: Submission<'_>,
    reserved: Option<Kind>,
) -> Result<Planned, NotRegistered> {
    let Submission { registration, owner, .. } = submission;
    let name = registration.agent_id.name();
    if !catalog.scope().has_all_versions(Kind::Server, name) {
        return Err(NotRegistered::OutsideScope(format!("{}/{name}@*", Kind::Server)));
    }
    let bytes = content::size_of(registration).ok_or(NotRegistered::TooLarge)?;
    let taken = |kind: Kind, name: &Name| NotRegistered::Taken { kind, name: name.clone() };
    for function in &registration.functions {
        // MCP clients call the functions of all agents by this name.
        if function.tool.as_str() == execute::METHOD {
            return Err(taken(Kind::Tool, &function.tool));
        }
        let is_foreign = |(_, record): (&Key, &Arc<Record>)| {
            let tool = record.document.entity().as_tool();
            tool.and_then(|tool| tool.source())
                .is_none_or(|source| source.server_key().name != *name)
        };
        if catalog.versions(Kind::Tool, &function.tool).any(is_foreign) {
            return Err(taken(Kind::Tool, &function.tool));
        }
    }
    let Some((last, record)) = catalog.versions(Kind::Server, name).last() else {
        if catalog.versions(Kind::Agent, name).next().is_some() {
            return Err(taken(Kind::Agent, name));
        }
        if let Some(kind) = reserved {
            return Err(taken(kind, name));
        }
        if let Some(similar) = find_similar(catalog, name) {
            return Err(NotRegistered::SimilarName(similar.clone()));
        }
        let used = used_by(catalog, owner, name);
        if used.agents >= AGENTS_PER_ACCOUNT {
            return Err(NotRegistered::TooMany);
        }
        used.check_room(bytes)?;
        let version = Version::parse("1.0.0").map_err(|e| NotRegistered::Invalid(e.to_string()))?;
        let server = Key::new(Kind::Server, name.clone(), version);
        return Ok(Planned::Version { server, last: None });
    };
    let marker = marker(record).ok_or_else(|| taken(Kind::Server, name))?;
    if owner_in(marker) != Some(owner) {
        return Err(taken(Kind::Server, name));
    }
    if !record.is_usable() {
        return Err(NotRegistered::Retired(name.clone()));
    }
    let content = digest_of(registration).to_string();
    if marker.get("content").and_then(Value::as_str) == Some(&content) {
        return Ok(Planned::Unchanged(last.clone()));
    }
    used_by(catalog, owner, name).check_room(bytes)?;
    let version = last.version.next(ReleaseChange::Editorial);
    let version =
        version.ok_or_else(|| NotRegistered::Invalid("no higher version exists".to_owned()))?;
    let server = Key::new(Kind::Server, name.clone(), version);
    Ok(Planned::Version { server, last: Some(last.clone()) })
}

/// A server or an agent whose name differs from this one only in case.
fn find_similar<'c>(catalog: &'c Catalog, name: &Name) -> Option<&'c Key> {
    let kinds = [Kind::Server, Kind::Agent].into_iter();
    let mut keys = kinds.flat_map(move |kind| catalog.of_kind(kind)).map(|(key, _)| key);
    keys.find(|key| key.name.as_str().eq_ignore_ascii_case(name.as_str()))
}

/// Whether an account registered this data agent.
pub(crate) fn is_owner(catalog: &Catalog, agent: &Name, owner: &str) -> bool {
    let last = catalog.versions(Kind::Server, agent).last();
    last.and_then(|(_, record)| owner_in(marker(record)?)) == Some(owner)
}

/// The registered data agents, with the transports that the settings allow.
pub(crate) fn data_agents(catalog: &Catalog, settings: &DataAgentSettings) -> RegisteredAgents {
    let is_off = settings.registration == SelfRegistration::Off;
    let mut agents = RegisteredAgents::new();
    for (key, record) in catalog.of_kind(Kind::Server).filter(|(_, it)| it.is_usable()) {
        let (Some(marker), Entity::Server(server)) = (marker(record), record.document.entity())
        else {
            continue;
        };
        let transport = content::transport(catalog, (server, marker), settings);
        // A later version may have another endpoint, or none.
        agents.insert(key.name.clone(), transport.filter(|_| !is_off));
    }
    agents
}

/// The other data agents of an account that are not retired, each in its last version.
struct UsedQuota {
    agents: usize,
    bytes: usize,
}

impl UsedQuota {
    /// Whether an agent of this size can be added.
    fn check_room(&self, bytes: usize) -> Result<(), NotRegistered> {
        let is_full = self.bytes.saturating_add(bytes) > ACCOUNT_BYTES;
        if is_full { Err(NotRegistered::TooLarge) } else { Ok(()) }
    }
}

fn used_by(catalog: &Catalog, owner: &str, except: &Name) -> UsedQuota {
    let mut sizes = BTreeMap::new();
    for (key, record) in catalog.of_kind(Kind::Server).filter(|(key, _)| key.name != *except) {
        if marker(record).and_then(owner_in) == Some(owner) {
            let size = record.is_usable().then(|| content::registered_size(catalog, record));
            sizes.insert(&key.name, size);
        }
    }
    let sizes: Vec<_> = sizes.into_values().flatten().collect();
    UsedQuota { agents: sizes.len(), bytes: sizes.iter().sum() }
}

/// The tools of the last version that a new one does not have.
fn removed_tools(catalog: &Catalog, last: Option<&Key>, new: &[Document]) -> Vec<Key> {
    let record = last.and_then(|last| catalog.find(last));
    let Some(Entity::Server(server)) = record.map(|record| record.document.entity()) else {
        return Vec::new();
    };
    let is_kept = |name: &Name| {
        new.iter().any(|document| document.key().kind == Kind::Tool && document.key().name == *name)
    };
    let removed = server.provides.iter().filter(|provided| !is_kept(&provided.tool));
    let removed = removed.flat_map(|provided| catalog.versions(Kind::Tool, &provided.tool));
    let usable = removed.filter(|(_, record)| record.lifecycle.state != LifecycleState::Retired);
    usable.map(|(key, _)| key.clone()).collect()
}

fn marker(record: &Record) -> Option<&Map<String, Value>> {
    let Entity::Server(server) = record.document.entity() else { return None };
    registration_in(server.metadata.as_ref()?)
}
