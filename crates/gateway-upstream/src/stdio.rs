//! MCP over the standard streams of a child process. All calls of a target share one supervised
//! child. If configured, each identified caller has its own child.
//!
//! The child is not sandboxed: its configuration is trusted.

mod call_queue;
mod caller_children;
mod child;
mod connection;
mod former_calls;
mod lines;
mod log;
mod server_requests;
mod supervisor;
mod text;

use std::{sync::Arc, time::Duration};

use gateway_protocol::mcp::Era;
use tokio::{sync::watch, time::timeout};
use tokio_util::task::TaskTracker;

use self::{
    caller_children::CallerChildren,
    connection::Connection,
    supervisor::{Plan, Supervisor},
};
pub use self::{
    lines::{Line, Lines},
    text::{id_at_ends, on_one_line},
};
use super::{
    error::{Error, Phase},
    events::EventPublisher,
    handshake::UpstreamInfo,
    message::Outgoing,
    reply::Reply,
    routing::TargetId,
    start::Start,
    subscriptions::Subscriptions,
};
use crate::TransportConfig;

/// The state of the child.
#[derive(Debug, Clone)]
enum Status {
    /// The child has started and the handshake is not done.
    Starting,
    /// The child accepts calls.
    Up(Arc<Connection>),
    /// The child ended or could not be started. It is restarted after a delay.
    Down(Arc<str>),
}

/// One upstream behind a child process.
#[derive(Debug)]
pub(super) struct StdioLink {
    server: TargetId,
    status: watch::Receiver<Status>,
    own: Option<CallerChildren>,
    /// How long a call waits for a starting child.
    start_timeout_ms: u64,
}

impl StdioLink {
    /// Starts the child and returns its link.
    pub(super) fn start(
        start: &Start<'_>,
        publisher: Arc<EventPublisher>,
        tasks: &TaskTracker,
    ) -> Self {
        let (report, status) = watch::channel(Status::Starting);
        let plan = Arc::new(Plan::new(start, publisher));
        let most = match start.config.transport {
            TransportConfig::Stdio { max_caller_children, .. } => max_caller_children,
            TransportConfig::Http { .. } | TransportConfig::DataAgent(_) => None,
        };
        let place = (tasks.clone(), start.stop.clone());
        let own = most.map(|most| CallerChildren::new(Arc::clone(&plan), most, place));
        tasks.spawn(Supervisor::new(plan, report).run(start.stop.clone()));
        Self {
            server: start.config.server.clone(),
            status,
            own,
            start_timeout_ms: start.limits.connect_timeout_ms.max(start.limits.list_timeout_ms),
        }
    }

    /// The era of the child, if it is known.
    pub(super) fn era(&self) -> Option<Era> {
        match &*self.status.borrow() {
            Status::Up(connection) => Some(connection.era()),
            Status::Starting | Status::Down(_) => None,
        }
    }

    /// Sends a request and waits for its response. Dropping the future cancels the request.
    pub(super) async fn request(&self, outgoing: &Outgoing<'_>) -> Result<(Reply, Era), Error> {
        let caller = outgoing.request().and_then(|request| request.context.caller.as_ref());
        let lease = match (&self.own, caller) {
            (Some(own), Some(caller)) => Some(own.lease(caller).await?),
            _ => None,
        };
        let status = lease.as_ref().map_or(&self.status, |lease| &lease.status);
        let connection = self.connection(status).await?;
        Ok((connection.request(outgoing).await?, connection.era()))
    }

    /// Fails if the child does not run. Waits for a starting child.
    pub(super) async fn check(&self) -> Result<(), Error> {
        self.connection(&self.status).await.map(drop)
    }

    /// The self-description of the child.
    pub(super) fn about(&self) -> Option<Arc<UpstreamInfo>> {
        match &*self.status.borrow() {
            Status::Up(connection) => connection.about(),
            Status::Starting | Status::Down(_) => None,
        }
    }

    /// Receives the notifications of the child, across restarts.
    pub(super) async fn listen(&self, subscriptions: &Subscriptions) {
        let (mut up, mut down) = (self.status.clone(), self.status.clone());
        loop {
            let is_up = |status: &Status| matches!(status, Status::Up(_));
            let Ok(status) = up.wait_for(is_up).await.map(|status| status.clone()) else { return };
            let Status::Up(connection) = status else { continue };
            let is_other = |status: &Status| !matches!(status, Status::Up(current) if Arc::ptr_eq(current, &connection));
            tokio::select! {
                () = connection.listen(subscriptions) => {}
                _ = down.wait_for(is_other) => {}
            }
        }
    }

    /// The connection of the running child. Waits for a starting child.
    async fn connection(&self, status: &watch::Receiver<Status>) -> Result<Arc<Connection>, Error> {
        let known = status.borrow().clone();
        let status = match known {
            Status::Starting => self.settled(status.clone()).await?,
            known => known,
        };
        let reason = match status {
            Status::Up(connection) => return Ok(connection),
            Status::Down(reason) => reason,
            Status::Starting => "the process is starting".into(),
        };
        Err(Error::Unavailable { target: self.server.clone(), source: reason.as_ref().into() })
    }

    async fn settled(&self, mut status: watch::Receiver<Status>) -> Result<Status, Error> {
        let settled = status.wait_for(|status| !matches!(status, Status::Starting));
        match timeout(Duration::from_millis(self.start_timeout_ms), settled).await {
            Ok(Ok(status)) => Ok(status.clone()),
            Ok(Err(_)) => Ok(Status::Down("the gateway is stopping".into())),
            Err(_) => {
                let after_ms = self.start_timeout_ms;
                Err(Error::Timeout { phase: Phase::Handshake, after_ms })
            }
        }
    }
}
