//! The account of a caller, and the accounts that registered data agents.
//!
//! A data agent is the identity only of the account that registered it: a registration must not take
//! the name of another caller.

use approval::Principal;
use gateway_policy::{CallerIdentity, CredentialOrigin, Principal as Owner};
use registry_core::{Catalog, Entity, Kind, Name, Record, entity::Agent};
use serde_json::{Map, Value};

/// The member of `metadata` of a data agent's server and agent.
pub(crate) const DATA_AGENT_METADATA: &str = "dataAgent";
/// Its member with the account that registered the agent.
pub(crate) const OWNER: &str = "owner";
/// The issuers of callers without a token or an agent.
const CERTIFICATE: &str = "gateway-certificate";
const UNAUTHENTICATED: &str = "gateway";

/// The account of a caller, by the agents that count as its identity: the subject of its token, else
/// its agent, else the holder of its certificate. Callers without an identity share one account.
pub(crate) fn account_of(
    claim: &CallerIdentity,
    is_registered: impl Fn(&str) -> bool,
) -> Principal {
    let unknown = || account_at(UNAUTHENTICATED, "(unauthenticated)", None);
    known_account(claim, is_registered).unwrap_or_else(unknown)
}

/// The account of a caller. `None`: the caller cannot be distinguished from others.
pub(crate) fn known_account(
    claim: &CallerIdentity,
    is_registered: impl Fn(&str) -> bool,
) -> Option<Principal> {
    if let CallerIdentity::Verified { credentials, .. } = claim {
        let token = credentials.iter().find_map(|credential| match &credential.origin {
            CredentialOrigin::Token { issuer, subject, person } if !subject.is_empty() => {
                Some(account_at(issuer, subject, person.as_deref()))
            }
            _ => None,
        });
        if token.is_some() {
            return token;
        }
    }
    Some(match claim.principal(is_registered)? {
        Owner::Subject { issuer, subject } => account_at(issuer, subject, None),
        Owner::Agent(agent) => account_at(Principal::AGENTS, agent, None),
        Owner::Certificate(name) => account_at(CERTIFICATE, name, None),
    })
}

fn account_at(issuer: &str, subject: &str, person: Option<&str>) -> Principal {
    Principal {
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
        person: person.map(str::to_owned),
    }
}

/// The account that registers data agents. It does not depend on the catalog, because a registration
/// changes the catalog.
pub(crate) fn registering_account(claim: &CallerIdentity) -> Principal {
    account_of(claim, |_| true)
}

/// Whether an agent has any version, and is not a data agent of another account than that of the claim.
/// A retired agent counts: its tasks remain its own.
pub(crate) fn is_agent_of(catalog: &Catalog, agent: &str, claim: &CallerIdentity) -> bool {
    Name::parse(Kind::Agent, agent).is_ok_and(|name| is_name_of(catalog, &name, claim))
}

/// Whether a parsed name is that of such an agent.
pub(super) fn is_name_of(catalog: &Catalog, agent: &Name, claim: &CallerIdentity) -> bool {
    let last = catalog.versions(Kind::Agent, agent).last();
    last.is_some_and(|(_, record)| {
        let owner = agent_in(record).and_then(registered_by);
        owner.is_none_or(|owner| registering_account(claim).key().to_string() == owner)
    })
}

/// The account that registered a data agent. `None`: the agent is no data agent.
pub(super) fn registered_by(agent: &Agent) -> Option<&str> {
    owner_in(registration_in(agent.metadata.as_ref()?)?)
}

/// The registration in the metadata of a data agent's server or agent.
pub(crate) fn registration_in(metadata: &Map<String, Value>) -> Option<&Map<String, Value>> {
    metadata.get(DATA_AGENT_METADATA)?.as_object()
}

/// The account in a registration.
pub(crate) fn owner_in(registration: &Map<String, Value>) -> Option<&str> {
    registration.get(OWNER)?.as_str()
}

fn agent_in(record: &Record) -> Option<&Agent> {
    match record.document.entity() {
        Entity::Agent(agent) => Some(agent),
        _ => None,
    }
}
