//! Calls of a data agent in the form of MCP.

use std::{sync::Arc, time::Duration};

use agent_rpc::{
    Failure, Reason,
    execute::{Execute, TASK_ID},
};
use gateway_protocol::{
    jsonrpc::ObjectWriter,
    mcp::{Era, Method, RpcError},
    trace_context::Parent,
};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::timeout;
use uuid::Uuid;

use super::{
    AgentConnection, AgentEndpoint, AgentSession, DataAgents, connection::Answered,
    endpoint::EndpointLink,
};
use crate::{
    TargetId,
    error::{Error, Phase, ProtocolViolation},
    events::EventPublisher,
    http::{Client, InvalidAddress},
    message::{Catalogue, Outgoing},
    reply::Reply,
    request::Request,
};

/// The link to a data agent.
#[derive(Debug)]
pub(crate) struct DataAgentLink {
    server: TargetId,
    agents: Arc<DataAgents>,
    /// `None`: the agent is called on the connection that it opened.
    endpoint: Option<Box<EndpointLink>>,
}

/// An available agent.
enum ReachedAgent<'a> {
    Connected(Arc<AgentSession>, Arc<AgentConnection>),
    Endpoint(&'a EndpointLink),
}

impl DataAgentLink {
    /// The protocol of the target, for operators.
    pub(crate) const PROTOCOL: &str = agent_rpc::execute::METHOD;

    /// Creates a link without connecting. Must be called inside a Tokio runtime.
    pub(crate) fn new(
        (publisher, server): (&Arc<EventPublisher>, &TargetId),
        (agents, endpoint): (&Arc<DataAgents>, Option<&Arc<AgentEndpoint>>),
        client: &Client,
    ) -> Result<Self, InvalidAddress> {
        let link = |endpoint| EndpointLink::new((publisher, server), endpoint, client);
        let endpoint = endpoint.map(link).transpose()?.map(Box::new);
        Ok(Self { server: server.clone(), agents: Arc::clone(agents), endpoint })
    }

    /// Fails if the agent is unavailable.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.reach().map(drop)
    }

    /// Answers a list from the registration, and sends a call to the agent.
    pub(crate) async fn request(&self, outgoing: &Outgoing<'_>) -> Result<(Reply, Era), Error> {
        let agent = self.reach()?;
        let reply = match outgoing {
            Outgoing::List { what: Catalogue::Tools, .. } => Reply::Result(agent.functions()?),
            Outgoing::Asked { subject, request, .. } if request.method == Method::CallTool => {
                let answered = self.call(&agent, (*subject, request), outgoing).await?;
                in_mcp(answered)?
            }
            _ => return Err(ProtocolViolation::NoCommonVersion.into()),
        };
        Ok((reply, Era::Modern))
    }

    async fn call(
        &self,
        agent: &ReachedAgent<'_>,
        (function, request): (&str, &Request<'_>),
        outgoing: &Outgoing<'_>,
    ) -> Result<Answered, Error> {
        let empty = RawValue::from_string("{}".to_owned()).map_err(|_| malformed())?;
        let (task_id, meta) = meta(request)?;
        let execute = Execute {
            agent_id: self.server.name.clone(),
            function: function.into(),
            input: request.arguments.unwrap_or(&empty),
            task_id: task_id.into(),
            meta: &meta,
        };
        let calling = async {
            match agent {
                ReachedAgent::Connected(_, connection) => {
                    connection.call(&self.server, &execute, outgoing).await
                }
                ReachedAgent::Endpoint(link) => Box::pin(link.call(&execute, outgoing)).await,
            }
        };
        let Some(limit) = agent.call_timeout() else { return calling.await };
        let after_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let late = Error::Timeout { phase: Phase::Call, after_ms };
        timeout(limit, calling).await.unwrap_or(Err(late))
    }

    /// The agent. Without a registration or heartbeat at this gateway, an agent with an endpoint counts
    /// as available.
    fn reach(&self) -> Result<ReachedAgent<'_>, Error> {
        let unavailable = |reason: String| Error::Unavailable {
            target: self.server.clone(),
            source: reason.into(),
        };
        let session = self.agents.find(&self.server.name);
        if let Some(reason) = session.as_ref().and_then(|session| session.unavailable()) {
            return Err(unavailable(reason));
        }
        if let Some(endpoint) = &self.endpoint {
            return Ok(ReachedAgent::Endpoint(endpoint));
        }
        let connected = session.and_then(|session| {
            let connection = Arc::clone(session.connection.as_ref()?);
            Some(ReachedAgent::Connected(session, connection))
        });
        connected.ok_or_else(|| unavailable("the agent is not connected".to_owned()))
    }
}

impl ReachedAgent<'_> {
    /// The functions as a page of `tools/list`.
    fn functions(&self) -> Result<Box<RawValue>, Error> {
        match self {
            Self::Connected(session, _) => Ok(session.description.functions.clone()),
            Self::Endpoint(link) => {
                let functions = RawValue::from_string(link.endpoint.functions.clone());
                functions.map_err(|_| malformed())
            }
        }
    }

    fn call_timeout(&self) -> Option<Duration> {
        match self {
            Self::Connected(session, _) => session.description.call_timeout,
            Self::Endpoint(link) => link.endpoint.call_timeout,
        }
    }
}

/// The id of the task and `meta`. Calls of other protocols than `agent.execute` get an id.
fn meta(request: &Request<'_>) -> Result<(String, Box<RawValue>), Error> {
    let context = request.context;
    let task_id = context.task_id().map(String::from);
    let task_id = task_id.unwrap_or_else(|| generated_task_id(request.trace.parent));
    let mut meta = ObjectWriter::with_capacity(256);
    meta.string(TASK_ID, &task_id);
    for param in context.meta.iter().filter(|param| &*param.name != TASK_ID) {
        meta.member(&param.name, param.value.get());
    }
    if let Some(parent) = request.trace.parent {
        meta.string("traceparent", &parent.to_string());
    }
    let meta = RawValue::from_string(meta.finish_string()).map_err(|_| malformed())?;
    Ok((task_id, meta))
}

/// The id of a call without a task. It has the id of the trace, which the audit event has, too.
fn generated_task_id(parent: Option<Parent>) -> String {
    match parent {
        Some(Parent { trace, span, .. }) => format!("call-{trace}-{span}"),
        None => format!("call-{}", Uuid::new_v4()),
    }
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
