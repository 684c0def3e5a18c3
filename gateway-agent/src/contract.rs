//! What tools promise: what is checked of each.
//!
//! Deliberately absent: validating a call (`pipeline/validate.rs`).

use registry_core::Key;

use crate::config::{CheckRules, Checks, RegistryConfig};

/// What is known of every tool's contract.
#[derive(Debug, Default)]
pub struct Contracts {
    rules: CheckRules,
}

impl Contracts {
    /// By these settings.
    pub fn new(config: &RegistryConfig) -> Self {
        Self { rules: config.check_rules() }
    }

    /// What is checked of a tool.
    pub fn checks(&self, tool: &Key) -> Checks {
        self.rules.of(tool)
    }
}
