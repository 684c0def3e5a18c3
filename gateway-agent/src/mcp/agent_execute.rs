//! `tools/call` of `agent.execute`: the function of a data agent, in the third spelling of its calls.
//!
//! It is the call of the tool `{agent_id}.{function}`, unless a usable tool has the name
//! `agent.execute`.

use std::time::Instant;

use agent_rpc::{
    Failure,
    execute::{Execute, Execution, METHOD},
};
use gateway_policy::Denial;
use registry_core::{Kind, Name};
use serde_json::value::RawValue;

use super::Rejection;
use crate::{
    identity::authenticator::Authentication,
    pipeline::{Directory, Error, Gateway},
};

/// A running call of a function.
pub(super) struct FunctionCall {
    agent_id: Name,
    function: Box<str>,
    task_id: Box<str>,
    started: Instant,
}

impl FunctionCall {
    /// Starts a call.
    pub(super) fn begin(call: &Execute<'_>) -> Self {
        Self {
            agent_id: call.agent_id.clone(),
            function: call.function.as_ref().into(),
            task_id: call.task_id.as_ref().into(),
            started: Instant::now(),
        }
    }

    /// The execution, for `_meta` of the result.
    pub(super) fn execution(&self, is_error: bool) -> String {
        let execution = Execution { task_id: &self.task_id, duration: self.started.elapsed() };
        execution.write(if is_error { "error" } else { "success" })
    }

    /// The error of a function that the caller may not use. `None`: the call has another error.
    pub(super) fn unknown(
        &self,
        gateway: &Gateway,
        caller: &Authentication,
        error: &Error,
    ) -> Option<Failure> {
        let Error::Denied(denial) = error else { return None };
        if matches!(denial, Denial::Quarantined | Denial::Stale(_)) {
            return None;
        }
        let directory = Directory::of(gateway, caller);
        Some(directory.unknown_function(self.agent_id.as_str(), &self.function))
    }
}

/// Reads the function of a call. `None`: it is the call of another tool.
pub(super) fn read<'a>(
    gateway: &Gateway,
    tool: &str,
    arguments: Option<&'a RawValue>,
) -> Result<Option<Execute<'a>>, Rejection> {
    if tool != METHOD || has_tool(gateway) {
        return Ok(None);
    }
    Ok(Some(Execute::read(arguments).map_err(Box::new)?))
}

fn has_tool(gateway: &Gateway) -> bool {
    let name = Name::parse(Kind::Tool, METHOD);
    let snapshot = gateway.views().now();
    name.is_ok_and(|name| !snapshot.catalog.preferred_versions(Kind::Tool, &name).is_empty())
}
