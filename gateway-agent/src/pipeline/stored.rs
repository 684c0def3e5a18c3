//! Authorizes callers for the stored results of compositions: those of `idempotent`, `cache`, sagas
//! with an id, and tasks of the gateway's own agent. The tools behind a result ran for an earlier
//! call, so no step authorizes them.

use std::{collections::BTreeSet, sync::Arc};

use gateway_compose::{ResultOrigin, RunOwner, RunScope, StepError};
use gateway_policy::Denial;
use gateway_upstream::RequestContext;
use registry_core::spec;
use serde_json::value::RawValue;

use super::{
    Error, Gateway, InputHandling, Invocation, Target, ToolCall,
    admit::Governed,
    moment::{Moment, check_scopes_of},
    route::{self, Route},
    steps::Runner,
};
use crate::{
    audit::CallRecord,
    identity::authenticator::Authentication,
    view::{Composed, ServedTool},
};

/// A tool or skill behind a stored result.
struct Contributor {
    name: String,
    served: Arc<ServedTool>,
    /// The number of gateways and compositions before its call.
    hops: u32,
}

/// Checks that a caller may receive the result of its own earlier call of a composition: the scopes
/// of the operation and of the tools, the standing of the composition, and the policies for it and
/// for each tool behind the result.
pub(crate) fn check_own_result(
    gateway: &Arc<Gateway>,
    caller: &Authentication,
    (operation, tool): (&'static str, &str),
    context: &RequestContext,
    record: &mut CallRecord,
) -> Result<(), Error> {
    let call = Invocation {
        caller: caller.clone(),
        target: Target::Tool(ToolCall {
            name: tool.into(),
            arguments: None,
            mcp_headers: None,
            takes_tasks: false,
        }),
        params: Vec::new(),
        context: context.clone(),
        client: None,
        input: InputHandling::ReturnToClient,
    };
    let moment = Moment::now(gateway, &call);
    moment.record_in(gateway, record);
    let resolved = moment.resolved(gateway, tool);
    check_scopes_of(gateway, caller, (operation, Some(tool)), resolved.as_ref().ok())?;
    let resolved = resolved?;
    let served = Arc::clone(&resolved.served);
    let route = Route::Tool(resolved);
    let governed = Governed::find(&moment, &call, &route, record.agent());
    if let Some(governed) = &governed {
        governed.conceal(record)?;
    }
    let (_, finding) = route::authorize_route(gateway.policy(), &moment.freshness, route)?;
    // The tool is not called again.
    record.set_route(None, None, finding);
    if let Some(governed) = &governed
        && let Err(finding) = governed.check_stored(&call, &moment, true)
    {
        return Err(governed.denied(finding, &moment, record));
    }
    // A tool that is no composition anymore has no tools behind it.
    let Some(composed) = served.composed() else { return Ok(()) };
    let (owner, hops) = (
        RunOwner { identity: caller.claim.clone(), quota_key: moment.principal.clone() },
        context.hops.map(|hops| hops.saturating_add(1)),
    );
    let runner = Runner {
        gateway: Arc::clone(gateway),
        composed: Arc::clone(composed),
        owner,
        context: RequestContext { hops, ..context.clone() },
        client: None,
        parent: record.as_parent(served.key()),
    };
    if moment.snapshot.governance.is_none() {
        return Ok(());
    }
    let targets = composed.plan().contributors();
    let checked = runner.check_contributors(composed, targets, true, &RunScope::default());
    checked.map_err(|(_, error)| error)
}

impl Runner {
    /// Checks that policies allow the caller each tool behind a stored result, also those of inner
    /// compositions.
    pub(super) fn check_stored(
        &self,
        origin: &ResultOrigin,
        scope: &RunScope,
    ) -> Result<(), StepError> {
        let snapshot = self.gateway.views().now();
        if snapshot.governance.is_none() {
            return Ok(());
        }
        let unknown = || Error::from(Denial::NoSuchTool).to_step(&origin.tool.to_string());
        let composed = if origin.tool == *self.parent.composition() {
            Arc::clone(&self.composed)
        } else {
            // All versions of a composition share their keys.
            let served = self.gateway.views().registered(&snapshot, &origin.tool);
            let composed = served.as_ref().and_then(|served| served.composed());
            Arc::clone(composed.ok_or_else(unknown)?)
        };
        let targets = composed.plan().contributors_at(&origin.pointer).ok_or_else(unknown)?;
        let is_own = origin.identity == self.owner.identity;
        let checked = self.check_contributors(&composed, targets, is_own, scope);
        checked.map_err(|(name, error)| error.to_step(&name))
    }

    /// Checks the tools behind a result, also those of inner compositions. An error names its tool.
    fn check_contributors(
        &self,
        composed: &Composed,
        targets: BTreeSet<&spec::Target>,
        is_own: bool,
        scope: &RunScope,
    ) -> Result<(), (String, Error)> {
        let hops = self.context.hops.unwrap_or_default();
        let mut open: Vec<_> = contributors(composed, targets, hops).collect();
        let mut checked = BTreeSet::new();
        while let Some(contributor) = open.pop() {
            let Contributor { name, served, hops } = &contributor;
            if !checked.insert((served.key().clone(), name.clone(), *hops)) {
                continue;
            }
            self.check_contributor(&contributor, is_own, scope)
                .map_err(|error| (name.clone(), error))?;
            if let Some(inner) = served.composed() {
                let targets = inner.plan().contributors();
                open.extend(contributors(inner, targets, hops.saturating_add(1)));
            }
        }
        Ok(())
    }

    fn check_contributor(
        &self,
        Contributor { name, served, hops }: &Contributor,
        is_own: bool,
        scope: &RunScope,
    ) -> Result<(), Error> {
        let mut call = self.invocation(served, RawValue::NULL.to_owned(), scope);
        call.context.hops = Some(*hops);
        let moment = Moment::now(&self.gateway, &call);
        let route = moment.route(&self.gateway, &call)?;
        let governed = Governed::find(&moment, &call, &route, self.parent.agent());
        let Some(governed) = governed else { return Ok(()) };
        let Err(finding) = governed.check_stored(&call, &moment, is_own) else { return Ok(()) };
        let span = self.gateway.tracer().begin(&self.context.trace);
        let mut record = self.parent.begin(name, 0, span);
        record.set_route(Some(served), None, None);
        let error = governed.denied(finding, &moment, &mut record);
        error.record_in(&mut record);
        Err(error)
    }
}

fn contributors<'c>(
    composed: &'c Composed,
    targets: BTreeSet<&'c spec::Target>,
    hops: u32,
) -> impl Iterator<Item = Contributor> {
    targets.into_iter().filter_map(move |target| {
        let served = Arc::clone(composed.part(target)?);
        Some(Contributor { name: target.to_string(), served, hops })
    })
}
