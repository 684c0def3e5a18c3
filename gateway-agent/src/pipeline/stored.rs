//! Authorizes callers for the stored results of compositions: those of `idempotent`, `cache` and
//! sagas with an id. The tools behind a result ran for an earlier call, so no step authorizes them.

use std::{collections::BTreeSet, sync::Arc};

use gateway_compose::{ResultOrigin, RunScope, StepError};
use gateway_policy::Denial;
use registry_core::spec::Target;
use serde_json::value::RawValue;

use super::{Error, admit::Governed, moment::Moment, steps::Runner};
use crate::view::{Composed, ServedTool};

/// A tool or skill behind a stored result.
struct Contributor {
    name: String,
    served: Arc<ServedTool>,
    /// The number of gateways and compositions before its call.
    hops: u32,
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
        let hops = self.context.hops.unwrap_or_default();
        let mut open: Vec<_> = contributors(&composed, targets, hops).collect();
        let mut checked = BTreeSet::new();
        while let Some(contributor) = open.pop() {
            let Contributor { name, served, hops } = &contributor;
            if !checked.insert((served.key().clone(), name.clone(), *hops)) {
                continue;
            }
            self.check_contributor(&contributor, is_own, scope)?;
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
    ) -> Result<(), StepError> {
        let mut call = self.invocation(served, RawValue::NULL.to_owned(), scope);
        call.context.hops = Some(*hops);
        let moment = Moment::now(&self.gateway, &call);
        let route = moment.route(&self.gateway, &call).map_err(|error| error.to_step(name))?;
        let governed = Governed::find(&moment, &call, &route, self.parent.agent());
        let Some(governed) = governed else { return Ok(()) };
        let Err(finding) = governed.check_stored(&call, &moment, is_own) else { return Ok(()) };
        let span = self.gateway.tracer().begin(&self.context.trace);
        let mut record = self.parent.begin(name, 0, span);
        record.set_route(Some(served), None, None);
        let error = governed.denied(finding, &moment, &mut record);
        error.record_in(&mut record);
        Err(error.to_step(name))
    }
}

fn contributors<'c>(
    composed: &'c Composed,
    targets: BTreeSet<&'c Target>,
    hops: u32,
) -> impl Iterator<Item = Contributor> {
    targets.into_iter().filter_map(move |target| {
        let served = Arc::clone(composed.part(target)?);
        Some(Contributor { name: target.to_string(), served, hops })
    })
}
