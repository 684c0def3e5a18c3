//! Standing grants: approvals of later calls, with an end.

use registry_core::{Digest, Timestamp};
use serde::{Deserialize, Serialize};

use super::{
    Request, State,
    decision::{Choice, StandingWish},
};
use crate::{
    binding::{Binding, Principal},
    id::RequestId,
};

/// The calls that a standing grant allows, from the narrowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GrantScope {
    /// The same call: with the same arguments.
    Arguments,
    /// Calls of the same definition with any arguments.
    Tool,
}

/// An approval of later calls of one caller. It ends with its time, with a new version of the tool or
/// of a demanding policy, or by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StandingGrant {
    /// The request that created it.
    pub origin: RequestId,
    /// The allowed calls.
    pub scope: GrantScope,
    /// The call of the request.
    pub binding: Binding,
    /// The people that approved.
    pub granted_by: Vec<Principal>,
    /// The start.
    pub starts_at: Timestamp,
    /// The end.
    pub ends_at: Timestamp,
}

impl StandingGrant {
    /// Whether it allows a call.
    pub fn covers(&self, call: &Binding, now: Timestamp) -> bool {
        self.ends_at > now && self.covered_key(call) == call.key()
    }

    /// Whether it could approve the repetition of a call: the caller, the agent and the resource are
    /// the same.
    pub(crate) fn may_repeat(&self, call: &Binding, now: Timestamp) -> bool {
        self.ends_at > now
            && self.binding.resource == call.resource
            && self.binding.agent == call.agent
            && self.binding.caller.is_account(&call.caller)
    }

    /// The key of the calls that it allows. With [`GrantScope::Tool`], the arguments are those of `call`.
    fn covered_key(&self, call: &Binding) -> Digest {
        match self.scope {
            GrantScope::Arguments => self.binding.key(),
            GrantScope::Tool => Binding { arguments: call.arguments, ..self.binding.clone() }.key(),
        }
    }
}

impl Request {
    /// The standing grant of an approved request: if all its approvers wished one, with the narrowest
    /// scope and the earliest end.
    pub fn standing_grant(&self) -> Option<StandingGrant> {
        if self.state != State::Approved || self.granted_by.is_some() || self.decisions.is_empty() {
            return None;
        }
        let wish = |choice: &Choice| match choice {
            Choice::Approve { standing } => *standing,
            Choice::Deny { .. } => None,
        };
        let wishes: Option<Vec<StandingWish>> =
            self.decisions.iter().map(|decision| wish(&decision.choice)).collect();
        let wishes = wishes?;
        Some(StandingGrant {
            origin: self.id,
            scope: wishes.iter().map(|wish| wish.scope).min()?,
            binding: self.binding.clone(),
            granted_by: self.decisions.iter().map(|decision| decision.by.clone()).collect(),
            starts_at: self.changed_at,
            ends_at: wishes.iter().map(|wish| wish.until).min()?,
        })
    }
}
