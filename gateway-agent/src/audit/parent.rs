//! Records of composition steps, which inherit the caller of their composition.

use std::sync::Arc;

use gateway_protocol::mcp::Era;
use policy::{ApplicablePolicies, Purpose};
use registry_core::{Key, Revision};

use super::{CallRecord, metric, verdicts::StoredVerdicts};
use crate::{graphs::RequestTrace, identity::Caller, trace::Span};

/// The facts that a step's record inherits.
#[derive(Debug, Clone)]
pub struct AuditParent {
    composition: Key,
    caller: Option<Caller>,
    revision: Revision,
    era: Era,
    trace: Option<RequestTrace>,
    /// Those of the composition's call.
    stored: Arc<StoredVerdicts>,
}

impl CallRecord {
    /// The parent for the steps of a composition that this call runs.
    pub fn as_parent(&self, composition: &Key) -> AuditParent {
        AuditParent {
            composition: composition.clone(),
            caller: self.caller.clone(),
            revision: self.revision,
            era: self.era,
            trace: self.client_trace.clone(),
            stored: Arc::clone(self.stored.get_or_init(Arc::default)),
        }
    }
}

impl AuditParent {
    /// For the steps of a saga that continues without its caller.
    pub fn without_caller(composition: &Key, caller: Caller, revision: Revision) -> Self {
        let (composition, caller) = (composition.clone(), Some(caller));
        let (era, trace, stored) = (Era::Modern, None, Arc::default());
        Self { composition, caller, revision, era, trace, stored }
    }

    pub(crate) fn composition(&self) -> &Key {
        &self.composition
    }

    /// The registered agent that calls.
    pub(crate) fn agent(&self) -> Option<&Key> {
        self.caller.as_ref().and_then(Caller::agent)
    }

    /// The trace of the composition's call.
    pub(crate) fn trace(&self) -> Option<&RequestTrace> {
        self.trace.as_ref()
    }

    /// Adds the verdicts of policies that allow the caller a tool behind a stored result to the event of
    /// the composition.
    pub(crate) fn add_stored(&self, policies: &ApplicablePolicies) {
        self.stored.add(&policies.verdicts(None, &[]));
        metric::count_policy("allow", "");
    }

    /// Starts the record of a step.
    pub fn begin(
        &self,
        tool: &str,
        purpose: Purpose,
        request_bytes: usize,
        span: Span,
    ) -> CallRecord {
        let mut record = CallRecord::begin("composition/step", self.era, tool, request_bytes, span);
        record.composition = Some(self.composition.clone());
        record.purpose = Some(purpose);
        record.caller.clone_from(&self.caller);
        record.revision = self.revision;
        record.client_trace.clone_from(&self.trace);
        record
    }
}
