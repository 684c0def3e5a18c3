//! The policy decision: who may call what. Only this module can build a [`Permit`], and no
//! upstream can be called without one. Lists and calls ask the same [`decide`], and the same verdict on
//! the catalog's age.
//!
//! Deliberately absent: how the call is made, and how a denial is answered.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use registry_core::{Key, Kind, Name};

use crate::{
    freshness::Freshness,
    identity::{Caller, Identity},
    pipeline::Task,
    policy::{Access, RuntimeValidation},
    view::{Audience, Offer, Shown, Sight},
};

/// Leave to ask one thing of one upstream, once.
#[derive(Debug)]
pub struct Permit {
    server: Key,
    subject: Arc<str>,
}

impl Permit {
    /// The registered server that is to be asked.
    pub fn server(&self) -> &Key {
        &self.server
    }

    /// What it is asked about, as that server calls it: a tool, a prompt, a URI, a task.
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

/// How a caller stands to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A registered agent that declared it.
    Declared,
    /// A registered agent that did not.
    Undeclared,
    /// A registered agent in a version that is retired.
    RetiredAgent,
    /// A registered agent in a version that is not registered.
    UnknownVersion,
    /// Nobody that is registered.
    UnknownCaller,
}

impl Standing {
    /// How a caller stands who has nothing, or nothing fitting, declared.
    fn of(caller: &Caller) -> Self {
        match caller.identity() {
            Identity::Agent(_) => Self::Undeclared,
            Identity::Retired => Self::RetiredAgent,
            Identity::UnknownVersion => Self::UnknownVersion,
            Identity::Unknown => Self::UnknownCaller,
        }
    }
}

/// What is let through, but noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// The agent did not declare the tool.
    UndeclaredDependency,
    /// The caller is not registered.
    UnknownCaller,
}

impl Finding {
    /// As audit and metrics write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UndeclaredDependency => "undeclared-dependency",
            Self::UnknownCaller => "unknown-caller",
        }
    }
}

/// Why a call is refused. The caller is told the same in every case but the last two: the tool is
/// unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// There is no such tool, or none that can be served.
    #[error("no such tool is registered, or none that can be served")]
    NoSuchTool,
    /// The agent did not declare it.
    #[error("the agent does not declare the tool")]
    UndeclaredDependency,
    /// The agent must not be used any more.
    #[error("this version of the agent is retired")]
    RetiredAgent,
    /// The agent has no such version.
    #[error("this version of the agent is not registered")]
    UnknownVersion,
    /// The caller is not registered.
    #[error("the caller is not a registered agent")]
    UnknownCaller,
    /// Its server says something else of it than was registered or first seen.
    #[error("the tool is quarantined: nobody has accepted what its server says of it now")]
    Quarantined,
    /// It could be called, but nobody knows any more whether it still may be.
    #[error(transparent)]
    Stale(#[from] Stale),
}

/// The catalog is too old for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the catalog is too old: its age is {}, the limit {}", told(*.age), told(*.limit))]
pub struct Stale {
    /// How long ago it was known to be the registry's latest; `None`: nobody knows.
    pub age: Option<Duration>,
    /// From which age on the tool is refused.
    pub limit: Option<Duration>,
    /// Whether the tool only reads.
    pub is_read_only: bool,
}

/// A time in seconds.
pub(crate) fn told(time: Option<Duration>) -> String {
    time.map_or_else(|| "an unknown time".to_owned(), |time| format!("{} s", time.as_secs()))
}

impl Denial {
    /// As audit and metrics write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoSuchTool => "no-such-tool",
            Self::UndeclaredDependency => "undeclared-dependency",
            Self::RetiredAgent => "retired-agent",
            Self::UnknownVersion => "unknown-version",
            Self::UnknownCaller => "unknown-caller",
            Self::Quarantined => "quarantined",
            Self::Stale(_) => "stale-catalog",
        }
    }
}

/// The decision itself.
pub fn decide(policy: &RuntimeValidation, standing: Standing) -> Result<Option<Finding>, Denial> {
    let (access, finding, denial) = match standing {
        Standing::Declared => return Ok(None),
        // Whatever the modes: a retired agent must not fall back to what unknown callers may.
        Standing::RetiredAgent => return Err(Denial::RetiredAgent),
        Standing::UnknownVersion => return Err(Denial::UnknownVersion),
        Standing::Undeclared => (
            policy.undeclared_dependency,
            Finding::UndeclaredDependency,
            Denial::UndeclaredDependency,
        ),
        Standing::UnknownCaller => {
            (policy.unknown_caller, Finding::UnknownCaller, Denial::UnknownCaller)
        }
    };
    match access {
        Access::Allow => Ok(None),
        Access::Warn => Ok(Some(finding)),
        Access::Deny => Err(denial),
    }
}

/// Whose list a caller sees: its own declarations, or what unknown callers may see. What an agent
/// could call without declaring it is never listed.
pub fn audience(policy: &RuntimeValidation, caller: &Caller) -> Audience {
    match caller.identity() {
        Identity::Agent(agent) => Audience::Agent(agent.clone()),
        Identity::Retired | Identity::UnknownVersion | Identity::Unknown => {
            let is_let_in = decide(policy, Standing::of(caller)).is_ok();
            if is_let_in { Audience::Everyone } else { Audience::Nobody }
        }
    }
}

/// A call that may go on.
#[derive(Debug)]
pub struct Admission {
    /// What is called.
    pub offer: Arc<Offer>,
    /// What there is to note.
    pub finding: Option<Finding>,
    /// The leave to call it; there is none for a composition, whose steps get theirs.
    pub permit: Option<Permit>,
}

/// Decides one call: an agent's own declaration names the exact version, everything else that the
/// policy lets through goes to the newest version. The age of the catalog comes last, so that it
/// says nothing about tools that the caller may not know.
pub fn admit(
    policy: &RuntimeValidation,
    freshness: &Freshness,
    caller: &Caller,
    sight: &Sight<'_>,
    tool: &str,
) -> Result<Admission, Denial> {
    let (offer, finding) = offered(*policy, caller, sight, tool)?;
    admit_offer(freshness, offer, finding)
}

/// Decides about a step of a composition. Whether its caller may call the composition was decided, and
/// that names the exact version of each of its tools; everything else that holds for a call of the
/// tool holds for a step, too.
pub fn admit_step(freshness: &Freshness, offer: &Arc<Offer>) -> Result<Admission, Denial> {
    admit_offer(freshness, Arc::clone(offer), None)
}

fn admit_offer(
    freshness: &Freshness,
    offer: Arc<Offer>,
    finding: Option<Finding>,
) -> Result<Admission, Denial> {
    let is_read_only = offer.is_read_only();
    if !freshness.verdict.admits(is_read_only) {
        let limit = freshness.limit(is_read_only);
        return Err(Stale { age: freshness.age, limit, is_read_only }.into());
    }
    if offer.is_quarantined() {
        return Err(Denial::Quarantined);
    }
    let upstream = offer.upstream();
    let permit =
        upstream.map(|(server, tool)| Permit { server: server.clone(), subject: tool.clone() });
    Ok(Admission { offer, finding, permit })
}

/// What a caller may call, and what is noted of that.
type Admitted = (Arc<Offer>, Option<Finding>);

/// What a caller may call under a tool's name.
pub(crate) fn offered(
    policy: RuntimeValidation,
    caller: &Caller,
    sight: &Sight<'_>,
    tool: &str,
) -> Result<Admitted, Denial> {
    let name = Name::parse(Kind::Tool, tool).map_err(|_| Denial::NoSuchTool)?;
    let declared = caller.agent().and_then(|agent| sight.declared(agent, &name));
    let standing = if declared.is_some() { Standing::Declared } else { Standing::of(caller) };
    let finding = decide(&policy, standing)?;
    let offer = declared.or_else(|| sight.newest(&name)).ok_or(Denial::NoSuchTool)?;
    Ok((offer, finding))
}

/// Decides about what a server has besides tools: who is shown it may ask for it, as long as what
/// only reads is served.
pub fn admit_shown(freshness: &Freshness, shown: &Shown, subject: &str) -> Result<Permit, Denial> {
    read(freshness, &shown.server, subject)
}

/// Decides about a task of the caller's own: who may still call the tool that began it may ask for
/// it, as long as what only reads is served.
pub fn admit_task(
    policy: &RuntimeValidation,
    freshness: &Freshness,
    (caller, sight): (&Caller, &Sight<'_>),
    task: &Task,
) -> Result<(Permit, Admitted), Denial> {
    let admitted = offered(*policy, caller, sight, &task.tool)?;
    Ok((read(freshness, &task.server, &task.id)?, admitted))
}

fn read(freshness: &Freshness, server: &Key, subject: &str) -> Result<Permit, Denial> {
    if !freshness.verdict.admits(true) {
        let limit = freshness.limit(true);
        return Err(Stale { age: freshness.age, limit, is_read_only: true }.into());
    }
    Ok(Permit { server: server.clone(), subject: subject.into() })
}
