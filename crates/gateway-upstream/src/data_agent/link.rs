//! Calls of a data agent in the form of MCP.

use std::sync::Arc;

use agent_rpc::{Failure, Reason, execute::Execute};
use gateway_protocol::{
    jsonrpc::{ObjectWriter, read_string},
    mcp::{Era, Method, RpcError},
};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::timeout;
use uuid::Uuid;

use super::{AgentSession, DataAgents, connection::Answered};
use crate::{
    TargetId,
    error::{Error, Phase, ProtocolViolation},
    message::{Catalogue, Outgoing},
    reply::Reply,
    request::Request,
};

/// The member of `meta` with the id of the caller's task.
const TASK_ID: &str = "task_id";
/// The link to a data agent.
#[derive(Debug)]
pub(crate) struct DataAgentLink {
    server: TargetId,
    agents: Arc<DataAgents>,
}

impl DataAgentLink {
    /// The protocol of the target, for operators.
    pub(crate) const PROTOCOL: &str = agent_rpc::execute::METHOD;

    pub(crate) fn new(server: TargetId, agents: &Arc<DataAgents>) -> Self {
        Self { server, agents: Arc::clone(agents) }
    }

    /// Fails if the agent is unavailable.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.session().map(drop)
    }

    /// Answers a list from the registration, and sends a call to the agent.
    pub(crate) async fn request(&self, outgoing: &Outgoing<'_>) -> Result<(Reply, Era), Error> {
        let session = self.session()?;
        let reply = match outgoing {
            Outgoing::List { what: Catalogue::Tools, .. } => {
                Reply::Result(session.description.functions.clone())
            }
            Outgoing::Asked { subject, request, .. } if request.method == Method::CallTool => {
                let answered = self.call(&session, (*subject, request), outgoing).await?;
                in_mcp(answered)?
            }
            _ => return Err(ProtocolViolation::NoCommonVersion.into()),
        };
        Ok((reply, Era::Modern))
    }

    async fn call(
        &self,
        session: &AgentSession,
        (function, request): (&str, &Request<'_>),
        outgoing: &Outgoing<'_>,
    ) -> Result<Answered, Error> {
        let empty = RawValue::from_string("{}".to_owned()).map_err(|_| malformed())?;
        let (task_id, meta) = meta(request)?;
        let execute = Execute {
            agent_id: session.name().clone(),
            function: function.into(),
            input: request.arguments.unwrap_or(&empty),
            task_id: task_id.into(),
            meta: &meta,
        };
        let calling = session.connection.call(&self.server, (&execute, outgoing.send_state()));
        let Some(limit) = session.description.call_timeout else { return calling.await };
        let after_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let late = Error::Timeout { phase: Phase::Call, after_ms };
        timeout(limit, calling).await.unwrap_or(Err(late))
    }

    fn session(&self) -> Result<Arc<AgentSession>, Error> {
        let unavailable = |reason: String| Error::Unavailable {
            target: self.server.clone(),
            source: reason.into(),
        };
        let session = self.agents.find(&self.server.name);
        let session =
            session.ok_or_else(|| unavailable("the agent is not connected".to_owned()))?;
        match session.unavailable() {
            None => Ok(session),
            Some(reason) => Err(unavailable(reason)),
        }
    }
}

/// The id of the task and `meta`. Calls of other protocols than `agent.execute` get an id.
fn meta(request: &Request<'_>) -> Result<(String, Box<RawValue>), Error> {
    let context = request.context;
    let given = context.meta.iter().find(|param| &*param.name == TASK_ID);
    let given = given.and_then(|param| read_string(&param.value)).map(String::from);
    let task_id = given.unwrap_or_else(|| format!("call-{}", Uuid::new_v4()));
    let mut meta = ObjectWriter::with_capacity(256);
    meta.string(TASK_ID, &task_id);
    for param in context.meta.iter().filter(|param| &*param.name != TASK_ID) {
        meta.member(&param.name, param.value.get());
    }
    if let Some(parent) = &request.trace.parent {
        meta.string("traceparent", parent);
    }
    let meta = RawValue::from_string(meta.finish_string()).map_err(|_| malformed())?;
    Ok((task_id, meta))
}

/// The answer of an agent as the response to `tools/call`.
fn in_mcp(answered: Answered) -> Result<Reply, Error> {
    let result = match answered {
        Ok(result) => {
            let structured = Some(result.get()).filter(|text| text.starts_with('{'));
            tool_result(result.get(), structured, false)
        }
        Err(failure) if failure.is(Reason::ToolError) => tool_result(&failure.message, None, true),
        Err(failure) => return Ok(Reply::Error(rpc_error(&failure))),
    };
    RawValue::from_string(result).map(Reply::Result).map_err(|_| malformed())
}

fn tool_result(text: &str, structured: Option<&str>, is_error: bool) -> String {
    let mut block = ObjectWriter::with_capacity(text.len() + 64);
    block.string("type", "text").string("text", text);
    let mut result = ObjectWriter::with_capacity(2 * text.len() + 128);
    result.string("resultType", "complete");
    result.raw("content", &format!("[{}]", block.finish_string()));
    if let Some(structured) = structured {
        result.raw("structuredContent", structured);
    }
    if is_error {
        result.raw("isError", "true");
    }
    result.finish_string()
}

fn rpc_error(failure: &Failure) -> RpcError {
    let data = failure.to_value();
    RpcError {
        code: failure.code,
        message: failure.message.to_string(),
        // A value always serializes.
        data: to_raw_value(&data["data"]).ok(),
    }
}

fn malformed() -> Error {
    ProtocolViolation::Shape(DataAgentLink::PROTOCOL).into()
}
