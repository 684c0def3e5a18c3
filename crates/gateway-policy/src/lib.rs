//! The decisions of the gateway about callers and requests: authorization, validation rules and
//! quotas.
//!
//! The crate is pure: it performs no I/O and reads no clock. Only [`authorize`] creates a
//! [`Permit`].

mod buffers;
mod identity;
mod outcome;
mod permit;
mod rules;
mod quota;
mod subject;

pub use self::{
    buffers::{BufferReservation, BufferPool},
    identity::{AuthMethod, CallerIdentity, AgentReference},
    outcome::CallOutcome,
    permit::{
        Authorized, Denial, Facts, Finding, Permit, StaleCatalog, Standing, authorize,
        authorize_composition, check_standing, format_age,
    },
    rules::{ValidationRules, ValidationModes, ToolSelector, ToolValidation},
    quota::{QuotaExceeded, QuotaKey, QuotaKind, QuotaGuard, Quotas},
    subject::SubjectToken,
};

/// The response to a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Does not check.
    Ignore,
    /// Lets the violation pass, logs and counts it.
    Warn,
    /// Rejects.
    Error,
}

/// The response to an unregistered caller or an undeclared call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Allows the call.
    Allow,
    /// Allows the call, records it as a finding in the audit and counts it.
    Warn,
    /// Rejects the call with the answer for an unknown tool.
    Deny,
}

/// `registry.validation.runtime`.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeValidation {
    /// Arguments that violate the input schema; `Error` is written `deny`.
    pub input_validation: Mode,
    /// Results that violate the output schema.
    pub output_validation: Mode,
    /// Upstream definitions that differ from the registered or first seen one; `Error` is written
    /// `quarantine`.
    pub contract_drift: Mode,
    /// Callers that are not registered agents.
    pub unknown_caller: Access,
    /// Calls of registered agents outside their declared dependencies.
    pub undeclared_dependency: Access,
}

impl Default for RuntimeValidation {
    fn default() -> Self {
        Self {
            input_validation: Mode::Warn,
            output_validation: Mode::Ignore,
            contract_drift: Mode::Warn,
            unknown_caller: Access::Allow,
            undeclared_dependency: Access::Warn,
        }
    }
}
