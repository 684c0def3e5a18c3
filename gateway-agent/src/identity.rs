//! Who is calling: what a request claims, how much of that is believed, and which registered agent
//! it comes to.
//!
//! A claim that leads to no registered name (or cannot be read) makes an unknown caller. One that
//! names a registered agent, but no version of it that may be used, does not: retiring an agent must
//! not give it what unknown callers may. A weaker claim is never tried after a stronger one failed.

pub mod certificate;
pub mod challenge;
pub mod doorkeeper;
pub(crate) mod proof;
mod refused;
mod scope;
pub mod settings;
#[cfg(test)]
mod tests;

use std::{cmp::Reverse, sync::Arc};

use gateway_policy::{Evidence, HeaderClaim, Named, Principal};
use gateway_protocol::jsonrpc;
use http::HeaderMap;
use registry_core::{Catalog, Key, Kind, LifecycleState, Name, Record, Version};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::settings::IdentityConfig;

const AGENT_NAME: &str = "x-agent-name";
const AGENT_VERSION: &str = "x-agent-version";
/// Longest part of a self-reported text that is kept.
const KEPT_CHARS: usize = 128;

/// Reads the claim of the headers, if the deployment trusts them.
pub(crate) fn read_claim(config: IdentityConfig, headers: &HeaderMap) -> HeaderClaim {
    if !config.trust_headers {
        return HeaderClaim::Absent;
    }
    match (only(headers, AGENT_NAME), only(headers, AGENT_VERSION)) {
        (Ok(None), Ok(None)) => HeaderClaim::Absent,
        (Ok(Some(name)), Ok(version)) => {
            HeaderClaim::Agent { name: name.into(), version: version.map(Into::into) }
        }
        _ => HeaderClaim::Unreadable,
    }
}

/// The one value of a header, without surrounding space.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(|text| Some(text.trim())).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// What an MCP client says that it is; for attribution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl ClientInfo {
    /// Reads `clientInfo`; one that is malformed counts as none, for it is only self-reported.
    pub fn read(raw: &RawValue) -> Option<Self> {
        let info: Self = jsonrpc::read_object(raw)?;
        // Copies: a text that is only truncated keeps its memory for as long as the session.
        Some(Self { name: kept(&info.name).into(), version: kept(&info.version).into() })
    }
}

fn kept(text: &str) -> &str {
    text.char_indices().nth(KEPT_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// Whom a claim comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// A registered agent that may be used.
    Agent(Key),
    /// A registered agent, but the version is retired; or all are, and none was named.
    Retired,
    /// A registered agent without such a version.
    UnknownVersion,
    /// Nobody that is registered.
    Unknown,
}

/// A caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    identity: Identity,
    claimed: Option<Box<str>>,
    told: Option<Box<str>>,
    evidence: Evidence,
    client: Option<Arc<ClientInfo>>,
}

impl Caller {
    /// Whom it comes to.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The registered agent, if it may be used.
    pub fn agent(&self) -> Option<&Key> {
        match &self.identity {
            Identity::Agent(agent) => Some(agent),
            Identity::Retired | Identity::UnknownVersion | Identity::Unknown => None,
        }
    }

    /// What the claim names, shortened, where that is no agent that may be used.
    pub fn claimed(&self) -> Option<&str> {
        self.claimed.as_deref()
    }

    /// Who it is by what it has proved, whatever agent it is.
    pub fn told(&self) -> Option<&str> {
        self.told.as_deref()
    }

    /// How it was recognised, or what was tried.
    pub fn evidence(&self) -> Evidence {
        self.evidence
    }

    /// Against whose share it counts: that of a registered agent, or of somebody who has proved who
    /// it is. All others, whatever they call themselves, have one together.
    pub(crate) fn principal(&self, claim: &HeaderClaim) -> Principal {
        let is_only_said = matches!(claim, HeaderClaim::Agent { .. }) && self.agent().is_none();
        if is_only_said { None } else { claim.apart() }
    }

    /// What the client says that it is.
    pub fn client(&self) -> Option<&ClientInfo> {
        self.client.as_deref()
    }
}

/// Decides who is calling.
pub fn identify(
    config: IdentityConfig,
    catalog: &Catalog,
    claim: &HeaderClaim,
    client: Option<Arc<ClientInfo>>,
) -> Caller {
    let (identity, evidence) = match (claim, &client) {
        (HeaderClaim::Proven { named: Some(Named { name, version }), evidence, .. }, _) => {
            (find_agent(catalog, name, version.as_deref()), *evidence)
        }
        (HeaderClaim::Proven { named: None, evidence, .. }, _) => (Identity::Unknown, *evidence),
        (HeaderClaim::Agent { name, version }, _) => {
            (find_agent(catalog, name, version.as_deref()), Evidence::Headers)
        }
        (HeaderClaim::Unreadable, _) => (Identity::Unknown, Evidence::Headers),
        (HeaderClaim::Absent, Some(client)) if config.scope_by_client_info => {
            (find_client(catalog, client), Evidence::ClientInfo)
        }
        (HeaderClaim::Absent, _) => (Identity::Unknown, Evidence::Nothing),
    };
    let claimed = match claim {
        HeaderClaim::Agent { name, .. }
        | HeaderClaim::Proven { named: Some(Named { name, .. }), .. }
            if !matches!(identity, Identity::Agent(_)) =>
        {
            Some(kept(name).into())
        }
        _ => None,
    };
    let told = match claim {
        HeaderClaim::Proven { told, .. } => told.clone(),
        _ => None,
    };
    Caller { identity, claimed, told, evidence, client }
}

fn find_agent(catalog: &Catalog, name: &str, version: Option<&str>) -> Identity {
    let Ok(name) = Name::parse(Kind::Agent, name) else { return Identity::Unknown };
    let Some(version) = version else {
        let newest = usable_versions(catalog, Kind::Agent, &name).into_iter().next();
        let key = newest.map(|record| record.document.key().clone());
        return key.map_or_else(|| missing(catalog, &name, Identity::Retired), Identity::Agent);
    };
    let key = Version::parse(version).map(|version| Key::new(Kind::Agent, name.clone(), version));
    match key.ok().and_then(|key| Some((catalog.find(&key)?, key))) {
        Some((record, key)) if is_usable(record) => Identity::Agent(key),
        Some(_) => Identity::Retired,
        None => missing(catalog, &name, Identity::UnknownVersion),
    }
}

/// The agent that `clientInfo` names. Its version is that of a program: where no version of the agent
/// is registered under it, the newest active one is meant.
fn find_client(catalog: &Catalog, client: &ClientInfo) -> Identity {
    match find_agent(catalog, &client.name, Some(&client.version)) {
        Identity::UnknownVersion => find_agent(catalog, &client.name, None),
        found => found,
    }
}

/// What it is where an agent has no version that will do: this, or nobody, if it has none at all.
fn missing(catalog: &Catalog, name: &Name, registered: Identity) -> Identity {
    if catalog.versions(Kind::Agent, name).next().is_some() {
        registered
    } else {
        Identity::Unknown
    }
}

/// Whether an entity may still be used: deprecated ones may, retired ones may not.
pub(crate) fn is_usable(record: &Record) -> bool {
    record.lifecycle.state != LifecycleState::Retired
}

/// The versions that a bare name may mean, the best first: active before deprecated, so that a
/// deprecation alone breaks no caller, releases before prereleases, and newer before older.
pub(crate) fn usable_versions<'a>(
    catalog: &'a Catalog,
    kind: Kind,
    name: &'a Name,
) -> Vec<&'a Arc<Record>> {
    let usable = catalog.versions(kind, name).filter(|(_, record)| is_usable(record));
    let mut usable: Vec<_> = usable.collect();
    usable.sort_by_cached_key(|(key, record)| {
        Reverse((record.is_active(), !key.version.is_prerelease(), key.version.clone()))
    });
    usable.into_iter().map(|(_, record)| record).collect()
}
