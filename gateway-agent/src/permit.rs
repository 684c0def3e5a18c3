//! The policy decision: who may call what. Only this module can build a [`Permit`], and no
//! upstream can be called without one.
//!
//! Deliberately absent: how the call is made.

use std::sync::Arc;

use registry_core::Key;

/// Leave to call one tool of one upstream, once.
#[derive(Debug)]
pub struct Permit {
    server: Key,
    tool: Arc<str>,
}

impl Permit {
    /// The registered server that is to be called.
    pub fn server(&self) -> &Key {
        &self.server
    }

    /// The tool's name on that server.
    pub fn tool(&self) -> &str {
        &self.tool
    }
}
