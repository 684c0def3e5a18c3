//! The identity of callers: the claim of a request, its verification, and the registered agent that
//! it names.
//!
//! A claim without a registered name makes the caller unknown. A claim of a registered agent
//! without a usable version does not: retiring an agent must not give it the permissions of unknown
//! callers. A failed claim never falls back to a weaker one.

mod accepted;
pub(crate) mod account;
pub(crate) mod agent_urls;
mod audit_events;
pub mod authenticator;
mod card_security;
pub mod certificate;
pub mod challenge;
pub(crate) mod credential;
mod scope;
pub(crate) mod sender;
pub mod settings;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use gateway_policy::{AgentReference, AuthMethod, CallerIdentity, QuotaKey};
use gateway_protocol::jsonrpc;
use http::{HeaderMap, HeaderName};
use registry_core::{Catalog, Key, Kind, Name, Version};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use self::settings::IdentityConfig;

const AGENT_NAME: HeaderName = HeaderName::from_static("x-agent-name");
/// The name or the card URL of the calling agent.
const CALLER_AGENT: HeaderName = HeaderName::from_static("x-caller-agent");
const AGENT_VERSION: HeaderName = HeaderName::from_static("x-agent-version");
/// Maximum length of a stored self-description, in characters.
const KEPT_CHARS: usize = 128;

/// The claim of headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderClaim<'a> {
    /// No headers, or headers that the configuration does not trust.
    Anonymous,
    /// Repeated headers, headers that are not text, or a version without a name.
    Malformed,
    /// An agent.
    Agent { name: &'a str, version: Option<&'a str> },
}

impl<'a> HeaderClaim<'a> {
    /// The claim that led to this identity. `None`: the caller was authenticated.
    fn of(identity: &'a CallerIdentity) -> Option<Self> {
        match identity {
            CallerIdentity::Anonymous => Some(Self::Anonymous),
            CallerIdentity::Malformed => Some(Self::Malformed),
            CallerIdentity::Asserted { name, version } => {
                Some(Self::Agent { name, version: version.as_deref() })
            }
            CallerIdentity::Verified { .. } => None,
        }
    }
}

impl From<HeaderClaim<'_>> for CallerIdentity {
    fn from(claim: HeaderClaim<'_>) -> Self {
        match claim {
            HeaderClaim::Anonymous => Self::Anonymous,
            HeaderClaim::Malformed => Self::Malformed,
            HeaderClaim::Agent { name, version } => {
                Self::Asserted { name: name.into(), version: version.map(Into::into) }
            }
        }
    }
}

/// Reads the claim of the headers, if the configuration trusts them.
pub(crate) fn read_claim(config: IdentityConfig, headers: &HeaderMap) -> HeaderClaim<'_> {
    if !config.trust_headers {
        return HeaderClaim::Anonymous;
    }
    let agent = match (single_value(headers, &AGENT_NAME), single_value(headers, &CALLER_AGENT)) {
        (Ok(agent), Ok(None)) | (Ok(None), Ok(agent)) => Ok(agent),
        _ => Err(()),
    };
    match (agent, single_value(headers, &AGENT_VERSION)) {
        (Ok(None), Ok(None)) => HeaderClaim::Anonymous,
        (Ok(Some(name)), Ok(version)) => HeaderClaim::Agent { name, version },
        _ => HeaderClaim::Malformed,
    }
}

/// The only value of a header, trimmed.
fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(|text| Some(text.trim())).map_err(|_| ()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// The self-description of an MCP client (unverified).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientInfo {
    /// Name of the program.
    pub name: String,
    /// Version of the program.
    pub version: String,
}

impl ClientInfo {
    /// Reads `clientInfo`. A malformed one is ignored, since it is unverified.
    pub fn read(raw: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Sent<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
            #[serde(borrow)]
            version: Cow<'a, str>,
        }
        let Sent { name, version } = jsonrpc::read_object(raw)?;
        Some(Self { name: shortened(&name).into(), version: shortened(&version).into() })
    }
}

fn shortened(text: &str) -> &str {
    text.char_indices().nth(KEPT_CHARS).map_or(text, |(end, _)| &text[..end])
}

/// The registered agent of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// A registered agent with a usable version.
    Agent(Key),
    /// A registered agent whose claimed version, or every version, is retired.
    Retired,
    /// A registered agent without the claimed version, or without a claimed version in a scope that
    /// lacks versions of it.
    UnknownVersion,
    /// No registered agent.
    Unknown,
}

/// A caller, resolved with one catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    identity: Identity,
    claimed: Option<Box<str>>,
    log_name: Option<Box<str>>,
    auth_method: AuthMethod,
    client: Option<Arc<ClientInfo>>,
}

impl Caller {
    /// The registered agent, or why there is none.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The registered agent, if usable.
    pub fn agent(&self) -> Option<&Key> {
        match &self.identity {
            Identity::Agent(agent) => Some(agent),
            Identity::Retired | Identity::UnknownVersion | Identity::Unknown => None,
        }
    }

    /// The shortened name of the claim, if it is not a usable agent.
    pub fn claimed(&self) -> Option<&str> {
        self.claimed.as_deref()
    }

    /// The owner of the verified credentials, independent of the agent.
    pub fn log_name(&self) -> Option<&str> {
        self.log_name.as_deref()
    }

    /// The authentication method.
    pub fn auth_method(&self) -> AuthMethod {
        self.auth_method
    }

    /// The quota key: of a registered agent or a verified caller. All others share one.
    pub(crate) fn principal(&self, claim: &CallerIdentity) -> QuotaKey {
        if self.has_own_quota(claim) { claim.quota_key() } else { None }
    }

    /// Whether the claim selects a quota. An unverified name must be that of a registered agent.
    pub(crate) fn has_own_quota(&self, claim: &CallerIdentity) -> bool {
        self.agent().is_some() || !matches!(claim, CallerIdentity::Asserted { .. })
    }

    /// The caller without a data agent of another account. `raw`: the claim of the request.
    pub(crate) fn without_agents_of_others(
        self,
        catalog: &Catalog,
        raw: &CallerIdentity,
        named: &CallerIdentity,
    ) -> Self {
        if self.identity == Identity::Unknown {
            return self;
        }
        let claimed = match named {
            CallerIdentity::Asserted { name, .. }
            | CallerIdentity::Verified { agent: Some(AgentReference { name, .. }), .. } => {
                Some(&**name)
            }
            _ => None,
        };
        let agent = claimed.or_else(|| self.client.as_ref().map(|client| &*client.name));
        let is_own = match (&self.identity, agent) {
            (Identity::Agent(key), _) => account::is_name_of(catalog, &key.name, raw),
            (_, Some(agent)) => account::is_agent_of(catalog, agent, raw),
            (_, None) => true,
        };
        if is_own {
            return self;
        }
        let claimed = claimed.map(|name| shortened(name).into());
        Self { identity: Identity::Unknown, claimed, ..self }
    }

    /// The self-description of the client.
    pub fn client(&self) -> Option<&ClientInfo> {
        self.client.as_deref()
    }
}

/// Resolves the caller of a claim.
pub fn identify(
    config: IdentityConfig,
    catalog: &Catalog,
    claim: &CallerIdentity,
    client: Option<Arc<ClientInfo>>,
) -> Caller {
    let (identity, auth_method) = match (claim, &client) {
        (
            CallerIdentity::Verified {
                agent: Some(AgentReference { name, version }),
                auth_method,
                ..
            },
            _,
        ) => (find_agent(catalog, name, version.as_deref()), *auth_method),
        (CallerIdentity::Verified { agent: None, auth_method, .. }, _) => {
            (Identity::Unknown, *auth_method)
        }
        (CallerIdentity::Asserted { name, version }, _) => {
            (find_agent(catalog, name, version.as_deref()), AuthMethod::Headers)
        }
        (CallerIdentity::Malformed, _) => (Identity::Unknown, AuthMethod::Headers),
        (CallerIdentity::Anonymous, Some(client)) if config.scope_by_client_info => {
            (find_client(catalog, client), AuthMethod::ClientInfo)
        }
        (CallerIdentity::Anonymous, _) => (Identity::Unknown, AuthMethod::None),
    };
    let claimed = match claim {
        CallerIdentity::Asserted { name, .. }
        | CallerIdentity::Verified { agent: Some(AgentReference { name, .. }), .. }
            if !matches!(identity, Identity::Agent(_)) =>
        {
            Some(shortened(name).into())
        }
        _ => None,
    };
    Caller { identity, claimed, log_name: claim.log_name(), auth_method, client }
}

/// Resolves a claimed agent. Without a version, the newest one counts.
pub(crate) fn find_agent(catalog: &Catalog, name: &str, version: Option<&str>) -> Identity {
    let Ok(name) = Name::parse(Kind::Agent, name) else { return Identity::Unknown };
    let Some(version) = version else {
        if let Some(newest) = catalog.preferred_versions(Kind::Agent, &name).first() {
            return Identity::Agent(newest.document.key().clone());
        }
        return if catalog.usable_versions(Kind::Agent, &name).is_empty() {
            without_version(catalog, &name, Identity::Retired)
        } else {
            Identity::UnknownVersion
        };
    };
    let key = Version::parse(version).map(|version| Key::new(Kind::Agent, name.clone(), version));
    match key.ok().and_then(|key| Some((catalog.find(&key)?, key))) {
        Some((record, key)) if record.is_usable() => Identity::Agent(key),
        Some(_) => Identity::Retired,
        None => without_version(catalog, &name, Identity::UnknownVersion),
    }
}

/// Finds the agent named by `clientInfo`. The version is that of a program, so an unregistered one
/// selects the newest active version.
fn find_client(catalog: &Catalog, client: &ClientInfo) -> Identity {
    match find_agent(catalog, &client.name, Some(&client.version)) {
        Identity::UnknownVersion => find_agent(catalog, &client.name, None),
        found => found,
    }
}

/// `registered` if the agent has any version, else unknown.
fn without_version(catalog: &Catalog, name: &Name, registered: Identity) -> Identity {
    if catalog.versions(Kind::Agent, name).next().is_some() {
        registered
    } else {
        Identity::Unknown
    }
}
