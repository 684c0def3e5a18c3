//! A way to one upstream, whatever it is made of.

use std::{sync::Arc, time::Duration};

use gateway_protocol::mcp::Era;
use http::{HeaderName, HeaderValue};
use registry_core::Kind;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::{
    a2a::AgentLink,
    announce::Announcer,
    error::{Error, Phase},
    handshake::About,
    http::{Client, HttpLink},
    message::Outgoing,
    reply::Reply,
    routing::TargetId,
    start::Start,
    stdio::StdioLink,
    subscriptions::Subscriptions,
};
use crate::TransportConfig;

/// A way to one upstream.
#[derive(Debug)]
pub(super) enum Link {
    /// Over the network.
    Http(Box<HttpLink>),
    /// To a child process.
    Stdio(StdioLink),
    /// To an agent.
    Agent(Arc<AgentLink>),
    /// The configuration makes no sense; why.
    Broken(TargetId, String),
}

impl Link {
    /// Opens the way, and starts what it needs in the background.
    pub(super) fn start(
        start: &Start<'_>,
        client: &Client,
        tasks: &TaskTracker,
        announcer: &Arc<Announcer>,
    ) -> Self {
        let server = start.config.server.clone();
        match &start.config.transport {
            transport @ TransportConfig::Http { .. } => {
                let (announcer, of) = (Arc::clone(announcer), server.clone());
                let link = if server.kind == Kind::Agent {
                    AgentLink::new((announcer, of), transport, client, start.stop.clone())
                        .map(|link| Self::Agent(Arc::new(link)))
                } else {
                    HttpLink::new(announcer, of, transport, client)
                        .map(|link| Self::Http(Box::new(link)))
                };
                link.unwrap_or_else(|error| Self::Broken(server, error.to_string()))
            }
            TransportConfig::Stdio { .. } => {
                Self::Stdio(StdioLink::start(start, Arc::clone(announcer), tasks))
            }
        }
    }

    /// Sends a request, with headers that repeat arguments where there are headers, and waits for
    /// its answer.
    pub(super) async fn request(
        &self,
        outgoing: &Outgoing<'_>,
        mirrored: &[(HeaderName, HeaderValue)],
    ) -> Result<(Reply, Era), Error> {
        match self {
            Self::Http(link) => link.request(outgoing, mirrored).await,
            Self::Stdio(link) => {
                let answer = Box::pin(link.request(outgoing)).await?;
                if let (Some(request), (Reply::Result(result), _)) = (outgoing.request(), &answer) {
                    request.context.buffer(result.get().len())?;
                }
                Ok(answer)
            }
            Self::Agent(link) => Box::pin(link.request(outgoing, mirrored)).await,
            Self::Broken(server, reason) => {
                Err(Error::Unavailable { target: server.clone(), source: reason.as_str().into() })
            }
        }
    }

    /// What the upstream said of itself.
    pub(super) fn about(&self) -> About {
        let about = match self {
            Self::Http(link) => link.about(),
            Self::Stdio(link) => link.about(),
            Self::Agent(_) | Self::Broken(..) => None,
        };
        about.as_deref().cloned().unwrap_or_default()
    }

    /// Follows what the upstream says to everybody, for as long as it is not dropped.
    pub(super) async fn listen(&self, subscriptions: &Subscriptions) {
        match self {
            Self::Http(link) => link.listen(subscriptions).await,
            Self::Stdio(link) => link.listen(subscriptions).await,
            Self::Agent(_) | Self::Broken(..) => {}
        }
    }

    /// Passes on what a caller says in its session, if there is one for it here.
    pub(super) fn tell_session(&self, id: &str, method: &str) {
        if let Self::Http(link) = self {
            link.tell_session(id, method);
        }
    }

    /// Fails if the upstream does not show within some time that it is there. Of a child its
    /// supervisor knows.
    pub(super) async fn check(&self, within: Duration) -> Result<(), Error> {
        let check = async {
            match self {
                Self::Http(link) => link.check().await,
                Self::Agent(link) => link.check().await,
                Self::Stdio(_) | Self::Broken(..) => Ok(()),
            }
        };
        let after_ms = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let late = Error::Timeout { phase: Phase::Connect, after_ms };
        timeout(within, check).await.unwrap_or(Err(late))
    }

    /// A caller's session has ended, and with it what was opened for it.
    pub(super) fn end_session(&self, id: &str) {
        if let Self::Http(link) = self {
            link.end_session(id);
        }
    }

    /// What the upstream speaks, as far as it is known.
    pub(super) fn speaks(&self) -> Option<&'static str> {
        match self {
            Self::Http(link) => link.era().map(Era::as_str),
            Self::Stdio(link) => link.era().map(Era::as_str),
            Self::Agent(link) => link.speaks(),
            Self::Broken(..) => None,
        }
    }

    /// Says good-bye where that is due. A child's supervisor does so itself.
    pub(super) async fn close(&self) {
        if let Self::Http(link) = self {
            link.close().await;
        }
    }
}
