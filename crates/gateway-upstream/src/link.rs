//! A link to one upstream over any transport.

use std::{sync::Arc, time::Duration};

use gateway_protocol::{mcp::Era, trace_context};
use http::{HeaderName, HeaderValue};
use registry_core::Kind;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::{
    a2a::AgentLink,
    data_agent::DataAgentLink,
    error::{Error, Phase, ProtocolViolation},
    events::EventPublisher,
    handshake::UpstreamInfo,
    http::{Client, HttpLink},
    message::Outgoing,
    reply::Reply,
    routing::TargetId,
    start::Start,
    stdio::StdioLink,
    subscriptions::Subscriptions,
};
use crate::TransportConfig;

/// A link to one upstream.
#[derive(Debug)]
pub(super) enum Link {
    /// An MCP server over HTTP.
    Http(Box<HttpLink>),
    /// An MCP server in a child process.
    Stdio(StdioLink),
    /// An A2A agent.
    Agent(Arc<AgentLink>),
    /// A data agent.
    DataAgent(DataAgentLink),
    /// The configuration is unusable, with the reason.
    Broken(TargetId, String),
}

impl Link {
    /// Creates the link and starts its background tasks.
    pub(super) fn start(
        start: &Start<'_>,
        client: &Client,
        tasks: &TaskTracker,
        publisher: &Arc<EventPublisher>,
    ) -> Self {
        let server = start.config.server.clone();
        match &start.config.transport {
            transport @ TransportConfig::Http { .. } => {
                let (publisher, of) = (Arc::clone(publisher), server.clone());
                let link = if server.kind == Kind::Agent {
                    AgentLink::new((publisher, of), start.config, client, start.stop.clone())
                        .map(|link| Self::Agent(Arc::new(link)))
                } else {
                    HttpLink::new(publisher, of, transport, client)
                        .map(|link| Self::Http(Box::new(link)))
                };
                link.unwrap_or_else(|error| Self::Broken(server, error.to_string()))
            }
            TransportConfig::Stdio { .. } => {
                Self::Stdio(StdioLink::start(start, Arc::clone(publisher), tasks))
            }
            TransportConfig::DataAgent(endpoint) => {
                let agent = (start.agents, endpoint.as_ref());
                let link = DataAgentLink::new((publisher, &server), agent, client);
                link.map_or_else(|error| Self::Broken(server, error.to_string()), Self::DataAgent)
            }
        }
    }

    /// Sends a request and waits for its response. The headers mirror arguments, on transports with
    /// headers.
    pub(super) async fn request(
        &self,
        outgoing: &Outgoing<'_>,
        mirrored: &[(HeaderName, HeaderValue)],
    ) -> Result<(Reply, Era), Error> {
        match self {
            Self::Http(link) => link.request(outgoing, mirrored).await,
            Self::Stdio(link) => buffered(outgoing, Box::pin(link.request(outgoing)).await?),
            Self::DataAgent(link) => buffered(outgoing, Box::pin(link.request(outgoing)).await?),
            Self::Agent(link) => {
                let request = outgoing.request().into_iter();
                let trace: Vec<_> =
                    request.flat_map(|request| trace_context::headers(request.trace)).collect();
                Box::pin(link.request(outgoing, &trace)).await
            }
            Self::Broken(server, reason) => {
                Err(Error::Unavailable { target: server.clone(), source: reason.as_str().into() })
            }
        }
    }

    /// The link to an agent.
    pub(super) fn agent(&self) -> Result<&Arc<AgentLink>, Error> {
        match self {
            Self::Agent(link) => Ok(link),
            Self::Broken(server, reason) => {
                Err(Error::Unavailable { target: server.clone(), source: reason.as_str().into() })
            }
            // The kind of the target selects the link.
            Self::Http(_) | Self::Stdio(_) | Self::DataAgent(_) => {
                Err(ProtocolViolation::NoCommonVersion.into())
            }
        }
    }

    /// The self-description of the upstream.
    pub(super) fn about(&self) -> UpstreamInfo {
        let about = match self {
            Self::Http(link) => link.about(),
            Self::Stdio(link) => link.about(),
            Self::Agent(_) | Self::DataAgent(_) | Self::Broken(..) => None,
        };
        about.as_deref().cloned().unwrap_or_default()
    }

    /// Receives the notifications of the upstream until the future is dropped.
    pub(super) async fn listen(&self, subscriptions: &Subscriptions) {
        match self {
            Self::Http(link) => link.listen(subscriptions).await,
            Self::Stdio(link) => link.listen(subscriptions).await,
            Self::Agent(_) | Self::DataAgent(_) | Self::Broken(..) => {}
        }
    }

    /// Forwards a notification of a caller's session to its upstream session, if there is one.
    pub(super) fn notify_session(&self, id: &str, method: &str) {
        if let Self::Http(link) = self {
            link.notify_session(id, method);
        }
    }

    /// Fails if the upstream does not respond within the time limit. The supervisor detects child
    /// processes that hang.
    pub(super) async fn check(&self, within: Duration) -> Result<(), Error> {
        let check = async {
            match self {
                Self::Http(link) => link.check().await,
                Self::Agent(link) => link.check().await,
                Self::Stdio(link) => link.check().await,
                Self::DataAgent(link) => link.check(),
                Self::Broken(..) => Ok(()),
            }
        };
        let after_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let late = Error::Timeout { phase: Phase::HealthCheck, after_ms };
        timeout(within, check).await.unwrap_or(Err(late))
    }

    /// Ends the upstream session of a caller's session.
    pub(super) fn end_session(&self, id: &str) {
        if let Self::Http(link) = self {
            link.end_session(id);
        }
    }

    /// The protocol version of the upstream, if it is known.
    pub(super) fn speaks(&self) -> Option<&'static str> {
        match self {
            Self::Http(link) => link.era().map(Era::as_str),
            Self::Stdio(link) => link.era().map(Era::as_str),
            Self::Agent(link) => link.speaks(),
            Self::DataAgent(_) => Some(DataAgentLink::PROTOCOL),
            Self::Broken(..) => None,
        }
    }

    /// Closes sessions. The supervisor closes child processes.
    pub(super) async fn close(&self) {
        if let Self::Http(link) = self {
            link.close().await;
        }
    }
}

/// Reserves memory for the result of a caller's request.
fn buffered(outgoing: &Outgoing<'_>, answer: (Reply, Era)) -> Result<(Reply, Era), Error> {
    if let (Some(request), (Reply::Result(result), _)) = (outgoing.request(), &answer) {
        request.context.buffer(result.get().len())?;
    }
    Ok(answer)
}
