//! `agent.heartbeat`: reports the health of a data agent.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::{failure::Failure, fields::Fields, registration::AgentId};

/// The method.
pub const METHOD: &str = "agent.heartbeat";

const ACTIVE: &str = "active";
const STATUS_CHARACTERS: usize = 64;

/// The parameters.
#[derive(Debug, Clone)]
pub struct Heartbeat<'a> {
    /// The agent.
    pub agent_id: AgentId,
    /// The status that the agent reports.
    pub status: Cow<'a, str>,
}

impl<'a> Heartbeat<'a> {
    /// Reads the parameters.
    pub fn read(params: Option<&'a RawValue>) -> Result<Self, Failure> {
        let fields = Fields::params(params, &["agent_id", "status"])?;
        let agent_id = AgentId::read(&fields)?;
        let status = fields.required_printable("status", STATUS_CHARACTERS)?;
        Ok(Self { agent_id, status })
    }

    /// Whether the agent accepts calls. Each other status means that it does not.
    pub fn is_available(&self) -> bool {
        self.status == ACTIVE
    }
}
