//! The policy decision about a caller and a route: collects the facts and asks
//! [`policy`](crate::policy) for a permit.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use registry_core::{Key, Kind, Name};

use crate::{
    freshness::Freshness,
    identity::{Caller, Identity},
    policy::{
        Authorized, Denial, Facts, Finding, Permit, RuntimeValidation, Stale, Standing, authorize,
        decide,
    },
    view::{Audience, Offer, Shown, Sight},
};

/// The standing of a caller without a matching declaration.
fn undeclared(caller: &Caller) -> Standing {
    match caller.identity() {
        Identity::Agent(_) => Standing::Undeclared,
        Identity::Retired => Standing::RetiredAgent,
        Identity::UnknownVersion => Standing::UnknownVersion,
        Identity::Unknown => Standing::UnknownCaller,
    }
}

/// Returns the audience of a caller's list: the agent's declarations, or the tools of unknown
/// callers. Undeclared tools are never listed, even if the policy allows to call them.
pub fn audience(policy: RuntimeValidation, caller: &Caller) -> Audience {
    match caller.identity() {
        Identity::Agent(agent) => Audience::Agent(agent.clone()),
        Identity::Retired | Identity::UnknownVersion | Identity::Unknown => {
            let is_allowed = decide(policy, undeclared(caller)).is_ok();
            if is_allowed { Audience::Everyone } else { Audience::Nobody }
        }
    }
}

/// An authorized call.
#[derive(Debug)]
pub struct Admission {
    /// The called tool.
    pub offer: Arc<Offer>,
    /// The violation that the policy lets pass.
    pub finding: Option<Finding>,
    /// The permit for the upstream. `None`: a composition, whose steps get their own.
    pub permit: Option<Permit>,
}

/// A tool under a name that a caller used, and the caller's standing.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) offer: Arc<Offer>,
    pub(crate) standing: Standing,
}

/// Finds the tool that a caller may call under a name. A declaration of the agent selects its exact
/// version; other callers get the newest version.
pub(crate) fn offered(
    policy: RuntimeValidation,
    caller: &Caller,
    sight: &Sight<'_>,
    tool: &str,
) -> Result<Offered, Denial> {
    let name = Name::parse(Kind::Tool, tool).map_err(|_| Denial::NoSuchTool)?;
    let declared = caller.agent().and_then(|agent| sight.declared(agent, &name));
    let standing = if declared.is_some() { Standing::Declared } else { undeclared(caller) };
    decide(policy, standing)?;
    let offer = declared.or_else(|| sight.newest(&name)).ok_or(Denial::NoSuchTool)?;
    Ok(Offered { offer, standing })
}

/// Authorizes a call.
pub fn admit(
    policy: RuntimeValidation,
    freshness: &Freshness,
    caller: &Caller,
    sight: &Sight<'_>,
    tool: &str,
) -> Result<Admission, Denial> {
    admit_offer(policy, freshness, offered(policy, caller, sight, tool)?)
}

/// Authorizes a step of a composition. The authorization of the composition covers the exact versions
/// of its tools; age and quarantine are checked as for a call.
pub fn admit_step(
    policy: RuntimeValidation,
    freshness: &Freshness,
    offer: &Arc<Offer>,
) -> Result<Admission, Denial> {
    let offered = Offered { offer: Arc::clone(offer), standing: Standing::Declared };
    admit_offer(policy, freshness, offered)
}

fn admit_offer(
    policy: RuntimeValidation,
    freshness: &Freshness,
    Offered { offer, standing }: Offered,
) -> Result<Admission, Denial> {
    let Authorized { finding, permit } = authorize(Facts {
        policy,
        standing,
        stale: stale(freshness, offer.is_read_only()),
        is_quarantined: offer.is_quarantined(),
        upstream: offer.upstream().map(|(server, tool)| (server, Arc::clone(tool))),
    })?;
    Ok(Admission { offer, finding, permit })
}

/// Authorizes a request for a prompt or resource of a server that the caller is shown.
pub fn admit_shown(
    policy: RuntimeValidation,
    freshness: &Freshness,
    shown: &Shown,
    subject: &str,
) -> Result<Permit, Denial> {
    read(policy, freshness, (Standing::Declared, &shown.server, subject)).map(|(permit, _)| permit)
}

/// Authorizes a request for a task of the caller: the caller must still be allowed to call the tool
/// that began it. `server` runs the task `id`.
pub(crate) fn admit_task(
    policy: RuntimeValidation,
    freshness: &Freshness,
    offered: &Offered,
    (server, id): (&Key, &str),
) -> Result<(Permit, Option<Finding>), Denial> {
    read(policy, freshness, (offered.standing, server, id))
}

fn read(
    policy: RuntimeValidation,
    freshness: &Freshness,
    (standing, server, subject): (Standing, &Key, &str),
) -> Result<(Permit, Option<Finding>), Denial> {
    let stale = stale(freshness, true);
    let upstream = Some((server, subject.into()));
    let facts = Facts { policy, standing, stale, is_quarantined: false, upstream };
    let Authorized { finding, permit } = authorize(facts)?;
    Ok((permit.ok_or(Denial::NoSuchTool)?, finding))
}

fn stale(freshness: &Freshness, is_read_only: bool) -> Option<Stale> {
    let is_stale = !freshness.verdict.admits(is_read_only);
    let limit = freshness.limit(is_read_only);
    is_stale.then_some(Stale { age: freshness.age, limit, is_read_only })
}
