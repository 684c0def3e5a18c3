//! The opening of a request: the answer to a call that needs an approval.

use std::collections::BTreeSet;

use registry_core::Timestamp;

use super::{
    Request, State,
    grant::StandingGrant,
    transition::{Actor, Changed, Transition},
};
use crate::{
    binding::Binding,
    id::RequestId,
    limits::{DEMANDS, OPEN_PER_CALLER, PREVIEW_BYTES, STORED, STORED_PER_CALLER, TEXT_BYTES},
};

/// A call that needs an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The identity of the request if it is new.
    pub id: RequestId,
    /// The call.
    pub binding: Binding,
    /// The teams that own the agent.
    pub owners: BTreeSet<String>,
    /// The redacted arguments as JSON text.
    pub preview: String,
}

/// The ways to sign in that prove which person decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignIns {
    /// The issuer of the identity provider. `None`: there is no provider.
    pub issuer: Option<String>,
    /// Whether client certificates are accepted.
    pub has_certificates: bool,
}

impl Wanted {
    /// Whether a person that signs in like this can be another one than the caller, if a policy demands
    /// this.
    pub fn is_decidable(&self, sign_ins: &SignIns) -> bool {
        let SignIns { issuer, has_certificates } = sign_ins;
        if !self.binding.demands.iter().any(|demand| demand.rule.four_eyes) {
            return true;
        }
        if self.binding.is_owned_agent(&self.owners) {
            return issuer.is_some() || *has_certificates;
        }
        issuer.as_ref() == Some(&self.binding.caller.issuer)
    }
}

/// The content of the store at the time of the call, read under a lock of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation<'a> {
    /// All requests of the caller.
    pub requests: &'a [&'a Request],
    /// All standing grants of the caller.
    pub grants: &'a [&'a StandingGrant],
    /// The number of stored requests of all callers that make no room for new ones.
    pub kept: usize,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The request: pending, approved, or denied less than a day ago.
    pub request: Request,
    /// The step of a new request.
    pub transition: Option<Transition>,
    /// Requests that it replaces.
    pub superseded: Vec<Changed>,
    /// Ended requests of the caller that the store deletes for it.
    pub displaced: Vec<RequestId>,
}

/// No request is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// No policy demands an approval, or too many do.
    #[error("an approval needs 1 to {DEMANDS} demanding policies")]
    Demands,
    /// The texts are too long.
    #[error(
        "the request is too large: at most {TEXT_BYTES} bytes of names and {PREVIEW_BYTES} bytes of \
         preview"
    )]
    TooLarge,
    /// The id is used.
    #[error("the id of the request is used; create another one")]
    UsedId,
    /// The caller has too many open requests.
    #[error(
        "the caller has {OPEN_PER_CALLER} open approval requests; use, cancel or await one of them"
    )]
    TooManyOpen,
    /// The caller has too many requests that make no room.
    #[error(
        "the caller has {STORED_PER_CALLER} approval requests that are open, in progress, denied \
         today, or have an unknown outcome and a standing grant that could repeat the call; retry after \
         one ends, or revoke the grant (`registryctl approvals revoke ID`)"
    )]
    TooManyStored,
    /// No person can approve the call.
    #[error(
        "no person can approve the call: with `fourEyes`, the caller must be a registered agent that \
         has an owner, or have a token of the identity provider of the registry (`--oidc-issuer`), and \
         approvers must sign in with this provider or a client certificate"
    )]
    Undecidable,
    /// The store is full.
    #[error(
        "the store has {STORED} approval requests that are open, in progress, denied today, or have \
         an unknown outcome and a caller with a standing grant; retry later, or revoke grants"
    )]
    Full,
}

/// Finds the request of a call, or creates one. The store writes the result in one transaction.
pub fn open(wanted: Wanted, situation: Situation<'_>, now: Timestamp) -> Result<Opened, OpenError> {
    check_size(&wanted)?;
    let key = wanted.binding.key();
    let same_key = situation.requests.iter().filter(|request| request.key() == key);
    let blocks =
        |request: &&&Request| request.state_at(now).is_open() || request.is_cooling_down(now);
    // A denial counts more than an open request: only a race creates both.
    let known = same_key.filter(blocks).max_by_key(|request| request.state);
    if let Some(known) = known {
        let request = Request::clone(known);
        let (superseded, displaced) = (Vec::new(), Vec::new());
        return Ok(Opened { request, transition: None, superseded, displaced });
    }
    if situation.requests.iter().any(|request| request.id == wanted.id) {
        return Err(OpenError::UsedId);
    }
    let call = wanted.binding.call();
    let earlier = situation.requests.iter().filter(|request| request.binding.call() == call);
    let superseded: Vec<_> =
        earlier.clone().filter_map(|request| request.supersede(wanted.id, now)).collect();
    check_room(situation, superseded.len(), now)?;
    let uncertain = earlier.filter(|request| request.is_uncertain(now));
    let uncertain = uncertain.max_by_key(|request| request.changed_at).map(|request| request.id);
    // The repetition of a call that may have been executed needs a decision of its own.
    let grant = match uncertain {
        None => situation.grants.iter().find(|grant| grant.covers(&wanted.binding, now)),
        Some(_) => None,
    };
    let (request, transition) = create(wanted, grant.copied(), uncertain, now);
    let displaced = displaced(situation, now);
    Ok(Opened { request, transition: Some(transition), superseded, displaced })
}

fn create(
    wanted: Wanted,
    grant: Option<&StandingGrant>,
    uncertain: Option<RequestId>,
    now: Timestamp,
) -> (Request, Transition) {
    let Wanted { id, binding, owners, preview } = wanted;
    let (state, deadline, by) = match grant {
        Some(grant) => (
            State::Approved,
            Some(Request::use_end(&binding, now).min(grant.ends_at)),
            Actor::Grant { origin: grant.origin },
        ),
        None => (
            State::Pending,
            Request::wait_end(&binding, now),
            Actor::Caller { principal: binding.caller.clone() },
        ),
    };
    let request = Request {
        id,
        revision: 1,
        binding,
        owners,
        preview: Some(preview),
        uncertain,
        state,
        created_at: now,
        changed_at: now,
        deadline,
        confirmed_at: None,
        decisions: Vec::new(),
        granted_by: grant.map(|grant| grant.origin),
        uses: Vec::new(),
    };
    let transition = Transition { request: id, at: now, from: None, to: state, by, reason: None };
    (request, transition)
}

fn check_size(wanted: &Wanted) -> Result<(), OpenError> {
    let demands = &wanted.binding.demands;
    let is_ordered = demands.is_sorted_by(|a, b| a.policy < b.policy);
    if demands.is_empty() || demands.len() > DEMANDS || !is_ordered {
        return Err(OpenError::Demands);
    }
    let owners: usize = wanted.owners.iter().map(String::len).sum();
    let is_large = wanted.binding.bytes().saturating_add(owners) > TEXT_BYTES
        || wanted.preview.len() > PREVIEW_BYTES;
    if is_large { Err(OpenError::TooLarge) } else { Ok(()) }
}

fn check_room(
    situation: Situation<'_>,
    superseded: usize,
    now: Timestamp,
) -> Result<(), OpenError> {
    let requests = situation.requests.iter();
    let open = requests.clone().filter(|request| request.state_at(now).is_open()).count();
    if open - superseded >= OPEN_PER_CALLER {
        return Err(OpenError::TooManyOpen);
    }
    let kept = requests.filter(|request| !request.makes_room(situation.grants, now)).count();
    if kept >= STORED_PER_CALLER {
        return Err(OpenError::TooManyStored);
    }
    if situation.kept >= STORED { Err(OpenError::Full) } else { Ok(()) }
}

/// The oldest ended requests of the caller, so that one more fits. Unknown outcomes are the last.
fn displaced(situation: Situation<'_>, now: Timestamp) -> Vec<RequestId> {
    let Situation { requests, grants, .. } = situation;
    let excess = (requests.len() + 1).saturating_sub(STORED_PER_CALLER);
    let ended = requests.iter().filter(|request| request.makes_room(grants, now));
    let mut ended: Vec<_> = ended.map(|request| request.displacement()).collect();
    ended.sort_unstable();
    ended.into_iter().take(excess).map(|(.., id)| id).collect()
}

impl Request {
    /// Whether its call may be executed without a known outcome.
    fn is_uncertain(&self, now: Timestamp) -> bool {
        match self.state_at(now) {
            State::Unknown => true,
            // A gateway that crashed reports no outcome.
            State::Consumed => self.uses.last().is_some_and(|last| last.outcome.is_none()),
            _ => false,
        }
    }

    /// Whether a store may delete it for a new one. A call with an unknown outcome stays while one of
    /// the grants of its caller could repeat it.
    pub(crate) fn makes_room(&self, grants: &[&StandingGrant], now: Timestamp) -> bool {
        match self.state {
            State::Unknown => !grants.iter().any(|grant| grant.may_repeat(&self.binding, now)),
            _ => self.makes_room_at().is_some_and(|start| start <= now),
        }
    }

    /// The order of deletions for new requests: unknown outcomes are the last, because a later grant
    /// must find them.
    pub(crate) fn displacement(&self) -> (bool, Timestamp, RequestId) {
        (self.state == State::Unknown, self.changed_at, self.id)
    }

    /// The time when it starts to make room. Denials stay until their cool-down ends. `None`: it has not
    /// ended, or its outcome is unknown, which depends on grants.
    pub fn makes_room_at(&self) -> Option<Timestamp> {
        match self.state {
            State::Denied => Some(self.cool_down_end()),
            State::Unknown => None,
            _ => self.ended_at(),
        }
    }
}
