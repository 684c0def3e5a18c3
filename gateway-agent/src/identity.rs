//! Who is calling: what a request claims, how much of that is believed, and which registered agent
//! it comes to.
//!
//! A claim that leads to no usable agent (unknown name, unknown or retired version, unreadable
//! headers) makes an unknown caller; a weaker claim is never tried after a stronger one failed.
//! Deliberately absent: what the caller may do (`permit.rs`), and proof by certificates or tokens.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::HeaderMap;
use registry_core::{Catalog, Key, Kind, LifecycleState, Name, Record, Version};
use serde::Deserialize;

use crate::config::IdentityConfig;

const AGENT_NAME: &str = "x-agent-name";
const AGENT_VERSION: &str = "x-agent-version";
/// Longest part of a self-reported text that is kept.
const KEPT_CHARS: usize = 128;

/// What the headers of a request say about its sender. A session is bound to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderClaim {
    /// Nothing, or nothing that this deployment believes.
    Absent,
    /// Something that cannot be read: repeated, not text, or a version without a name.
    Unreadable,
    /// An agent.
    Agent {
        /// Its name.
        name: Box<str>,
        /// Its version; without one the newest.
        version: Option<Box<str>>,
    },
}

impl HeaderClaim {
    /// Reads the claim, if the deployment says that headers can be trusted.
    pub fn read(config: IdentityConfig, headers: &HeaderMap) -> Self {
        if !config.trust_headers {
            return Self::Absent;
        }
        match (only(headers, AGENT_NAME), only(headers, AGENT_VERSION)) {
            (Ok(None), Ok(None)) => Self::Absent,
            (Ok(Some(name)), Ok(version)) => {
                Self::Agent { name: name.into(), version: version.map(Into::into) }
            }
            _ => Self::Unreadable,
        }
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
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ClientInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl ClientInfo {
    /// Reads `clientInfo`; one that is malformed counts as none, for it is only self-reported.
    pub fn read(raw: &str) -> Option<Self> {
        let mut info: Self = serde_json::from_str(raw).ok()?;
        for text in [&mut info.name, &mut info.version] {
            text.truncate(kept(text).len());
        }
        Some(info)
    }
}

fn kept(text: &str) -> &str {
    text.char_indices().nth(KEPT_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// How a caller was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// By headers that the deployment trusts.
    Headers,
    /// By MCP `clientInfo`.
    ClientInfo,
    /// Not at all.
    Nothing,
}

impl Evidence {
    /// As the audit writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Headers => "headers",
            Self::ClientInfo => "client-info",
            Self::Nothing => "nothing",
        }
    }
}

/// A caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    agent: Option<Key>,
    claimed: Option<Box<str>>,
    evidence: Evidence,
    client: Option<Arc<ClientInfo>>,
}

impl Caller {
    /// The registered agent; `None` for an unknown caller.
    pub fn agent(&self) -> Option<&Key> {
        self.agent.as_ref()
    }

    /// The agent that an unknown caller's headers name, shortened.
    pub fn claimed(&self) -> Option<&str> {
        self.claimed.as_deref()
    }

    /// How it was recognised, or what was tried.
    pub fn evidence(&self) -> Evidence {
        self.evidence
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
    let (agent, evidence) = match (claim, &client) {
        (HeaderClaim::Agent { name, version }, _) => {
            (find_agent(catalog, name, version.as_deref()), Evidence::Headers)
        }
        (HeaderClaim::Unreadable, _) => (None, Evidence::Headers),
        (HeaderClaim::Absent, Some(client)) if config.scope_by_client_info => {
            (find_agent(catalog, &client.name, Some(&client.version)), Evidence::ClientInfo)
        }
        (HeaderClaim::Absent, _) => (None, Evidence::Nothing),
    };
    let claimed = match claim {
        HeaderClaim::Agent { name, .. } if agent.is_none() => Some(kept(name).into()),
        _ => None,
    };
    Caller { agent, claimed, evidence, client }
}

fn find_agent(catalog: &Catalog, name: &str, version: Option<&str>) -> Option<Key> {
    let name = Name::parse(Kind::Agent, name).ok()?;
    let Some(version) = version else {
        return newest_usable(catalog, Kind::Agent, &name)
            .map(|record| record.document.key().clone());
    };
    let key = Key::new(Kind::Agent, name, Version::parse(version).ok()?);
    catalog.find(&key).filter(|record| is_usable(record)).map(|_| key)
}

/// Whether an entity may still be used: deprecated ones may, retired ones may not.
pub(crate) fn is_usable(record: &Record) -> bool {
    record.lifecycle.state != LifecycleState::Retired
}

/// The version that a bare name stands for: the newest active one or, so that a deprecation alone
/// breaks nobody, the newest deprecated one.
pub(crate) fn newest_usable<'a>(
    catalog: &'a Catalog,
    kind: Kind,
    name: &'a Name,
) -> Option<&'a Arc<Record>> {
    catalog.newest_active(kind, name).or_else(|| {
        catalog
            .versions(kind, name)
            .filter(|(_, record)| is_usable(record))
            .max_by_key(|(key, _)| (!key.version.is_prerelease(), key.version.clone()))
            .map(|(_, record)| record)
    })
}
