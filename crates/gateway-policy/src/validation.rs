//! The configured responses to violations.

/// The response to a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValidationMode {
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
    pub input_validation: ValidationMode,
    /// Results that violate the output schema.
    pub output_validation: ValidationMode,
    /// Upstream definitions that differ from the registered or first seen one; `Error` is written
    /// `quarantine`.
    pub contract_drift: ValidationMode,
    /// Callers that are not registered agents.
    pub unknown_caller: Access,
    /// Calls of registered agents outside their declared dependencies, or whose dependency is retired.
    pub undeclared_dependency: Access,
}

impl Default for RuntimeValidation {
    fn default() -> Self {
        Self {
            input_validation: ValidationMode::Warn,
            output_validation: ValidationMode::Ignore,
            contract_drift: ValidationMode::Warn,
            unknown_caller: Access::Allow,
            undeclared_dependency: Access::Warn,
        }
    }
}
