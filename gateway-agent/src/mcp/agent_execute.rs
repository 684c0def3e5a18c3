//! `tools/call` of `agent.execute`: the function of a data agent, in the third spelling of its calls.
//!
//! It is the call of the tool `{agent_id}.{function}`, unless a tool has the name `agent.execute`.

use agent_rpc::execute::{Execute, METHOD};
use gateway_protocol::mcp::Param;
use registry_core::{Kind, Name};
use serde_json::value::{RawValue, to_raw_value};

use super::Rejection;
use crate::pipeline::Gateway;

/// The call of a function.
pub(super) struct FunctionCall {
    pub(super) tool: String,
    pub(super) input: Box<RawValue>,
    /// The id of the caller's task.
    pub(super) task_id: Param,
}

/// Reads the function of a call. `None`: it is the call of another tool.
pub(super) fn read(
    gateway: &Gateway,
    tool: &str,
    arguments: Option<&RawValue>,
) -> Result<Option<FunctionCall>, Rejection> {
    if tool != METHOD || has_tool(gateway) {
        return Ok(None);
    }
    let invalid = Rejection::Params {
        what: "the arguments of agent.execute must be agent_id, function, input, and meta with task_id",
    };
    let Ok(Execute { agent_id, function, input, task_id, .. }) = Execute::read(arguments) else {
        return Err(invalid);
    };
    let Ok(task_id) = to_raw_value(&*task_id) else { return Err(invalid) };
    Ok(Some(FunctionCall {
        tool: format!("{agent_id}.{function}"),
        input: input.to_owned(),
        task_id: Param { name: "task_id".into(), value: task_id },
    }))
}

fn has_tool(gateway: &Gateway) -> bool {
    let name = Name::parse(Kind::Tool, METHOD);
    let snapshot = gateway.views().now();
    name.is_ok_and(|name| snapshot.catalog.versions(Kind::Tool, &name).next().is_some())
}
