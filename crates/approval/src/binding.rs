//! The binding of an approval to its caller, the definition of the tool, the arguments and the policies
//! that demand it.

use std::{collections::BTreeSet, fmt};

use hmac::{Hmac, KeyInit as _, Mac as _};
use registry_core::{Digest, document::exact_bytes, entity::policy::Approval};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Sha256;

/// An account at an issuer of credentials.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Principal {
    /// The issuer.
    pub issuer: String,
    /// The account. It is unique at the issuer.
    pub subject: String,
    /// The human behind the account, if the issuer names one. Several accounts can have one human.
    pub person: Option<String>,
}

/// Two accounts may belong to one person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Indistinct {
    /// The accounts are equal.
    #[error("the accounts are equal")]
    Account,
    /// The issuers name the same person.
    #[error("the accounts belong to the same person")]
    Person,
    /// Subjects of different issuers cannot be compared.
    #[error("the accounts have different issuers, whose subjects cannot be compared")]
    Issuer,
    /// The issuer names the person of one account only.
    #[error("the issuer does not name the person of this account")]
    UnknownPerson,
}

impl Principal {
    /// The issuer of agents that a gateway identifies without a subject, such as by an API key.
    pub const AGENTS: &str = "gateway-agent";

    /// Whether both are the same account.
    pub fn is_account(&self, other: &Self) -> bool {
        (&self.issuer, &self.subject) == (&other.issuer, &other.subject)
    }

    /// The identity of the account.
    pub fn key(&self) -> Digest {
        let mut text = Framed::new("approval account 1");
        text.add(self.issuer.as_bytes());
        text.add(self.subject.as_bytes());
        text.digest()
    }

    /// Whether `other` certainly belongs to another person. An account without a person, such as that
    /// of a service, differs from all people.
    pub fn check_distinct(&self, other: &Self) -> Result<(), Indistinct> {
        if self.is_account(other) {
            return Err(Indistinct::Account);
        }
        if self.issuer != other.issuer {
            return Err(Indistinct::Issuer);
        }
        match (&self.person, &other.person) {
            (Some(person), Some(other)) if person == other => Err(Indistinct::Person),
            (Some(_), None) => Err(Indistinct::UnknownPerson),
            (Some(_), Some(_)) | (None, _) => Ok(()),
        }
    }

    fn bytes(&self) -> usize {
        self.issuer.len() + self.subject.len() + self.person.as_ref().map_or(0, String::len)
    }
}

/// A policy that demands the approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Demand {
    /// The name and version: `payments@1.0.0`.
    pub policy: String,
    /// The digest of the policy.
    pub digest: Digest,
    /// The demanded approval.
    pub rule: Approval,
}

/// The call that an approval allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binding {
    /// The account that calls.
    pub caller: Principal,
    /// The name of the registered agent that calls.
    pub agent: Option<String>,
    /// The called tool or skill, or the registered agent, without its version.
    pub resource: String,
    /// The version of the resource.
    pub version: String,
    /// The digest of the definition of the resource.
    pub definition: Digest,
    /// The digest of the final arguments by [`ArgumentsKey`].
    pub arguments: Digest,
    /// The policies that demand the approval, in the order of their names.
    pub demands: Vec<Demand>,
}

impl Binding {
    /// The start of the resource of a registration, which no catalog has before its approval.
    pub const REGISTRATION: &str = "registration/";

    /// Whether it is the registration of a data agent instead of a call.
    pub fn is_registration(&self) -> bool {
        self.resource.starts_with(Self::REGISTRATION)
    }

    /// Whether the caller is a registered agent without a person, and these teams own it.
    pub(crate) fn is_owned_agent(&self, owners: &BTreeSet<String>) -> bool {
        let Principal { issuer, subject, .. } = &self.caller;
        issuer == Principal::AGENTS
            && self.agent.as_ref() == Some(subject)
            && owners.iter().any(|team| !team.is_empty())
    }

    /// The identity of the call. A change of any part is another call.
    pub fn key(&self) -> Digest {
        let mut text = Framed::new("approval key 1");
        self.frame_call(&mut text);
        text.add(self.version.as_bytes());
        text.add(self.definition.as_bytes());
        for demand in &self.demands {
            text.add(demand.policy.as_bytes());
            text.add(demand.digest.as_bytes());
        }
        text.digest()
    }

    /// The identity of the call independent of versions. A request with another key and the same call
    /// supersedes the earlier one.
    pub fn call(&self) -> Digest {
        let mut text = Framed::new("approval call 1");
        self.frame_call(&mut text);
        text.digest()
    }

    /// The length of all texts in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let agent = self.agent.as_ref().map_or(0, String::len);
        let policies: usize = self.demands.iter().map(|demand| demand.policy.len()).sum();
        self.caller.bytes() + agent + self.resource.len() + self.version.len() + policies
    }

    fn frame_call(&self, text: &mut Framed) {
        text.add(self.caller.issuer.as_bytes());
        text.add(self.caller.subject.as_bytes());
        text.add(&[u8::from(self.agent.is_some())]);
        text.add(self.agent.as_deref().unwrap_or_default().as_bytes());
        text.add(self.resource.as_bytes());
        text.add(self.arguments.as_bytes());
    }
}

/// Fields with their lengths, so that different fields have different bytes.
struct Framed(Vec<u8>);

impl Framed {
    fn new(purpose: &str) -> Self {
        let mut text = Self(Vec::with_capacity(512));
        text.add(purpose.as_bytes());
        text
    }

    fn add(&mut self, field: &[u8]) {
        self.0.extend_from_slice(&(field.len() as u64).to_be_bytes());
        self.0.extend_from_slice(field);
    }

    fn digest(&self) -> Digest {
        Digest::compute(&self.0)
    }
}

/// The key of the digests of arguments, which all gateways of a fleet share. Without it, a digest would
/// reveal short arguments by trial.
#[derive(Clone)]
pub struct ArgumentsKey(Hmac<Sha256>);

impl ArgumentsKey {
    /// A key of 32 random bytes.
    pub fn new(key: &[u8; 32]) -> Self {
        // HMAC fills a short key with zeros up to its block.
        let mut block = [0; 64];
        block[..key.len()].copy_from_slice(key);
        Self(Hmac::new(&block.into()))
    }

    /// The digest of the final arguments. `None`: a number has lost digits, so that two different calls
    /// could have one digest.
    pub fn digest(&self, arguments: &Value) -> Option<Digest> {
        let mut mac = self.0.clone();
        mac.update(&exact_bytes(arguments)?);
        Some(Digest::from_bytes(mac.finalize().into_bytes().into()))
    }
}

impl fmt::Debug for ArgumentsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArgumentsKey")
    }
}

#[cfg(test)]
mod tests;
