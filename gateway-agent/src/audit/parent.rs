//! Records of composition steps, which inherit the caller of their composition.

use gateway_protocol::mcp::Era;
use registry_core::{Key, Revision};

use super::CallRecord;
use crate::{identity::Caller, trace::Span};

/// The facts that a step's record inherits.
#[derive(Debug, Clone)]
pub struct AuditParent {
    composition: Key,
    caller: Option<Caller>,
    revision: Revision,
    era: Era,
}

impl CallRecord {
    /// The parent for the steps of a composition that this call runs.
    pub fn as_parent(&self, composition: &Key) -> AuditParent {
        AuditParent {
            composition: composition.clone(),
            caller: self.caller.clone(),
            revision: self.revision,
            era: self.era,
        }
    }
}

impl AuditParent {
    /// For the steps of a saga that continues without its caller.
    pub fn without_caller(composition: &Key, caller: Caller, revision: Revision) -> Self {
        Self { composition: composition.clone(), caller: Some(caller), revision, era: Era::Modern }
    }

    pub(crate) fn composition(&self) -> &Key {
        &self.composition
    }

    /// The registered agent that calls.
    pub(crate) fn agent(&self) -> Option<&Key> {
        self.caller.as_ref().and_then(Caller::agent)
    }

    /// Starts the record of a step.
    pub fn begin(&self, tool: &str, request_bytes: usize, span: Span) -> CallRecord {
        let mut record = CallRecord::begin("composition/step", self.era, tool, request_bytes, span);
        record.composition = Some(self.composition.clone());
        record.caller.clone_from(&self.caller);
        record.revision = self.revision;
        record
    }
}
