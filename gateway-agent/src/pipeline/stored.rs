//! Authorizes callers for the stored results of compositions: those of `idempotent`, `cache`, sagas
//! with an id, and tasks of the gateway's own agent. The tools behind a result ran for an earlier
//! call, so no step authorizes them.

use std::{collections::BTreeSet, sync::Arc};

use gateway_compose::{Effects, ResultOrigin, RunOwner, RunScope, StepError};
use gateway_policy::{CallOutcome, Standing};
use gateway_upstream::RequestContext;
use policy::Finding;
use registry_core::{Key, Revision, spec};
use serde_json::value::RawValue;

use super::{
    Error, Gateway, Invocation, Target, ToolCall,
    admit::Governed,
    moment::{Moment, check_scopes_of},
    route::{self, ResolvedTool, Route},
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

/// A denial of a stored result.
struct Withheld {
    finding: Finding,
    governed: Governed,
    moment: Moment,
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
    let target = Target::Tool(ToolCall::new(tool, None));
    let call = Invocation::new(caller.clone(), target, context.clone());
    let moment = Moment::now(gateway, &call);
    moment.record_in(gateway, record);
    let resolved = moment.resolved_of_task(gateway, tool);
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
    // A task keeps the policies of its call.
    let revision = moment.snapshot.catalog.revision();
    if let Some(governed) = &governed
        && let Err(finding) = governed.check_stored(&call, &moment, Some(revision))
    {
        return Err(governed.denied(finding, &moment, record));
    }
    if moment.snapshot.governance.is_none() {
        return Ok(());
    }
    // A tool that is no composition anymore has no tools behind it.
    let Some(composed) = served.composed() else { return Ok(()) };
    let hops = context.hops.map(|hops| hops.saturating_add(1));
    let runner = Runner {
        gateway: Arc::clone(gateway),
        composed: Arc::clone(composed),
        owner: RunOwner {
            identity: (*caller.claim).clone(),
            quota_key: moment.principal.clone(),
            revision,
        },
        context: RequestContext { hops, ..context.clone() },
        client: None,
        parent: record.as_parent(served.key()),
        approved: Arc::default(),
    };
    let all = runner.contributors(composed, composed.plan().contributors());
    let checked = runner.check_contributors(&all, Some(revision), &RunScope::default());
    checked.map_err(|(contributor, withheld)| runner.deny(contributor, *withheld))
}

impl Runner {
    /// Checks that policies allow the caller each tool behind a stored result, also those of inner
    /// compositions.
    pub(super) fn check_stored(
        &self,
        origin: &ResultOrigin,
        scope: &RunScope,
    ) -> Result<(), StepError> {
        if self.gateway.views().now().governance.is_none() {
            return Ok(());
        }
        let all = self.contributors_of(origin).ok_or_else(|| unknown_origin(&origin.tool))?;
        let checked = self.check_contributors(&all, self.own_since(origin), scope);
        checked.map_err(|(contributor, withheld)| {
            self.deny(contributor, *withheld).to_step(&contributor.name)
        })
    }

    /// Makes the same check without a record of a denial.
    pub(super) fn may_reuse_stored(&self, origin: &ResultOrigin, scope: &RunScope) -> bool {
        if self.gateway.views().now().governance.is_none() {
            return true;
        }
        let all = self.contributors_of(origin);
        all.is_some_and(|all| self.check_contributors(&all, self.own_since(origin), scope).is_ok())
    }

    /// The revision of the catalog at the call that produced a result, if it was this caller's.
    fn own_since(&self, origin: &ResultOrigin) -> Option<Revision> {
        (origin.identity == self.owner.identity).then_some(origin.revision)
    }

    /// The tools behind a result. `None`: the gateway does not know them.
    fn contributors_of(&self, origin: &ResultOrigin) -> Option<Vec<Contributor>> {
        let composed = if origin.tool == *self.parent.composition() {
            Arc::clone(&self.composed)
        } else {
            // All versions of a composition share their keys.
            let views = self.gateway.views();
            Arc::clone(views.registered(&views.now(), &origin.tool)?.composed()?)
        };
        let targets = composed.plan().contributors_at(&origin.pointer)?;
        Some(self.contributors(&composed, targets))
    }

    /// The tools behind a result, also those of inner compositions.
    fn contributors(
        &self,
        composed: &Composed,
        targets: BTreeSet<&spec::Target>,
    ) -> Vec<Contributor> {
        let hops = self.context.hops.unwrap_or_default();
        let mut open: Vec<_> = contributors(composed, targets, hops).collect();
        let (mut known, mut found) = (BTreeSet::new(), Vec::new());
        while let Some(contributor) = open.pop() {
            let Contributor { name, served, hops } = &contributor;
            if !known.insert((served.key().clone(), name.clone(), *hops)) {
                continue;
            }
            if let Some(inner) = served.composed() {
                let targets = inner.plan().contributors();
                open.extend(contributors(inner, targets, hops.saturating_add(1)));
            }
            found.push(contributor);
        }
        found
    }

    /// Checks the tools behind a result, and adds the verdicts to the event of the composition.
    fn check_contributors<'c>(
        &self,
        all: &'c [Contributor],
        own_since: Option<Revision>,
        scope: &RunScope,
    ) -> Result<(), (&'c Contributor, Box<Withheld>)> {
        let mut allowed = Vec::new();
        for contributor in all {
            let found = self.check_contributor(contributor, own_since, scope);
            allowed.extend(found.map_err(|withheld| (contributor, withheld))?);
        }
        for governed in allowed {
            self.parent.add_stored(governed.policies());
        }
        Ok(())
    }

    /// Returns the policies that allow it.
    fn check_contributor(
        &self,
        Contributor { served, hops, .. }: &Contributor,
        own_since: Option<Revision>,
        scope: &RunScope,
    ) -> Result<Option<Governed>, Box<Withheld>> {
        let mut call = self.invocation(served, RawValue::NULL.to_owned(), scope);
        call.context.hops = Some(*hops);
        let moment = Moment::now(&self.gateway, &call);
        let (served, standing) = (Arc::clone(served), Standing::Declared);
        let route = Route::Tool(ResolvedTool { served, standing });
        let governed = Governed::find(&moment, &call, &route, self.parent.agent());
        let Some(governed) = governed else { return Ok(None) };
        match governed.check_stored(&call, &moment, own_since) {
            Ok(()) => Ok(Some(governed)),
            Err(finding) => Err(Box::new(Withheld { finding, governed, moment })),
        }
    }

    /// Records a denial.
    fn deny(&self, contributor: &Contributor, withheld: Withheld) -> Error {
        let Withheld { finding, governed, moment } = withheld;
        let span = self.gateway.tracer().begin(&self.context.trace);
        let mut record = self.parent.begin(&contributor.name, governed.purpose(), 0, span);
        record.set_route(Some(&contributor.served), None, None);
        let error = governed.denied(finding, &moment, &mut record);
        error.record_in(&mut record);
        error
    }
}

/// The error of a stored result whose composition left the catalog. Its call is not repeated.
fn unknown_origin(tool: &Key) -> StepError {
    let message = format!(
        "the result of an earlier call of {tool} with this key is withheld: the gateway cannot check \
         policies, because its catalog lacks {tool} or a tool that it calls; the earlier call was made \
         and is not repeated; add {tool} to the scope of the gateway"
    );
    StepError {
        outcome: CallOutcome::Denied,
        detail: message.clone(),
        message,
        effects: Effects::None,
        retry_after: None,
        rejects_result: false,
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
