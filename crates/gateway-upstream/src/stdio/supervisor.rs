//! Keeps one child running: starts it, performs the handshake, serves its streams, and restarts it
//! when it exits or hangs.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use gateway_protocol::mcp::Era;
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _},
    process::ChildStdin,
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use retry_backoff::Backoff;

use super::{
    super::{
        error::{Error, Phase, ProtocolViolation},
        events::EventPublisher,
        handshake::{self, Negotiation, UpstreamInfo},
        message::{self, Outgoing},
        reply::Reply,
        routing::TargetId,
        start::Start,
        timing::Timing,
    },
    Status,
    call_queue::Habits,
    child::{Child, End, Streams},
    connection::Connection,
    lines::{Line, Lines},
    log::ChildLog,
};
use crate::{TransportConfig, UpstreamLimits};

/// Maximum length of a line of the child's standard error, in bytes.
const MAX_LOG_BYTES: usize = 8 * 1024;

/// Time to read the remaining output after the exit of a child.
const OUTPUT_DRAIN: Duration = Duration::from_millis(200);

/// The client capabilities for a legacy child. They are declared once for all callers; a question
/// that a caller does not support is rejected.
const CAPABILITIES: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;

/// The first message to a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// `server/discover`.
    Probe,
    /// `initialize`, because the previous child exited on `server/discover`, as some legacy servers
    /// do.
    Initialize,
}

/// The end of a child.
#[derive(Debug)]
struct Ended {
    end: End,
    next: Opening,
    /// Whether the handshake was completed.
    was_up: bool,
}

/// The program and its settings.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) server: TargetId,
    config: TransportConfig,
    limits: UpstreamLimits,
    pub(super) timing: Timing,
    publisher: Arc<EventPublisher>,
    habits: Arc<Habits>,
}

/// The supervisor of one child.
#[derive(Debug)]
pub(crate) struct Supervisor {
    plan: Arc<Plan>,
    report: watch::Sender<Status>,
}

impl Plan {
    pub(super) fn new(start: &Start<'_>, publisher: Arc<EventPublisher>) -> Self {
        Self {
            server: start.config.server.clone(),
            config: start.config.transport.clone(),
            limits: start.limits,
            timing: start.timing,
            publisher,
            habits: Arc::default(),
        }
    }
}

impl Supervisor {
    pub(super) fn new(plan: Arc<Plan>, report: watch::Sender<Status>) -> Self {
        Self { plan, report }
    }

    /// Runs until `stop` is cancelled and the child has ended.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let mut backoff =
            Backoff::new(self.plan.timing.retry_first, self.plan.timing.retry_longest);
        let mut opening = Opening::Probe;
        let mut logged: Option<Arc<str>> = None;
        loop {
            let started_at = Instant::now();
            let Ended { end: End { how, remedy }, next, was_up } = self.live(opening, &stop).await;
            self.report.send_replace(Status::Down(Arc::clone(&how)));
            if stop.is_cancelled() {
                return;
            }
            opening = next;
            // A handshake that times out takes long, too.
            if was_up && started_at.elapsed() >= self.plan.timing.stable {
                backoff.reset();
            }
            let wait = backoff.next_delay();
            // A reason can be long: that of a missing program has PATH.
            let reason: &str = if logged.as_ref() == Some(&how) { "as before" } else { &how };
            tracing::warn!(
                target.server = %self.plan.server, %reason, remedy, wait_ms = wait.as_millis(),
                "restarting a child process"
            );
            logged = Some(how);
            if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return;
            }
            self.report.send_replace(Status::Starting);
        }
    }

    /// Runs one child from its start to its end.
    async fn live(&self, opening: Opening, stop: &CancellationToken) -> Ended {
        let (mut child, streams) = match Child::start(&self.plan.config) {
            Ok(started) => started,
            Err(error) => {
                let end = format!("cannot start the process: {error}").into();
                return Ended { end, next: opening, was_up: false };
            }
        };
        let (connection, to_write) = Connection::new(
            self.plan.server.clone(),
            self.plan.limits,
            (Arc::clone(&self.plan.publisher), Arc::clone(&self.plan.habits)),
        );
        let (mut tasks, output_ended) = self.serve(&connection, streams, to_write);
        let end = tokio::select! {
            end = child.ended() => {
                let _ = timeout(OUTPUT_DRAIN, output_ended.cancelled()).await;
                end
            }
            () = output_ended.cancelled() => {
                let ended = timeout(OUTPUT_DRAIN, child.ended()).await;
                ended.unwrap_or_else(|_| "the process closed its output".into())
            }
            () = stop.cancelled() => "the gateway is stopping".into(),
            () = connection.hung() => "the process does not respond".into(),
            error = self.connect(opening, &connection) => {
                format!("the handshake failed: {error}").into()
            }
        };
        self.report.send_replace(Status::Down(Arc::clone(&end.how)));
        let era = connection.settled_era();
        let next = match (opening, era) {
            (Opening::Probe, None) | (_, Some(Era::Legacy)) => Opening::Initialize,
            (Opening::Initialize, None) | (_, Some(Era::Modern)) => Opening::Probe,
        };
        connection.close(&end.how);
        tasks.shutdown().await; // closes the child's input
        child.end(self.plan.timing.grace).await;
        Ended { end, next, was_up: era.is_some() }
    }

    /// Serves the three streams.
    fn serve(
        &self,
        connection: &Arc<Connection>,
        streams: Streams,
        to_write: mpsc::Receiver<Bytes>,
    ) -> (JoinSet<()>, CancellationToken) {
        let mut tasks = JoinSet::new();
        let output_ended = CancellationToken::new();
        let guard = output_ended.clone().drop_guard();
        let connection = Arc::clone(connection);
        let stdout = Lines::new(streams.stdout, self.plan.limits.response_bytes);
        let stray = ChildLog::new(self.plan.server.clone(), "stdout");
        tasks.spawn(write(streams.stdin, to_write));
        tasks.spawn(drain(streams.stderr, ChildLog::new(self.plan.server.clone(), "stderr")));
        tasks.spawn(async move {
            read(stdout, connection, stray).await;
            drop(guard);
        });
        (tasks, output_ended)
    }

    /// Negotiates the era and makes the child available. Returns only with an error.
    async fn connect(&self, opening: Opening, connection: &Arc<Connection>) -> Error {
        if let Err(error) = self.handshake(opening, connection).await {
            return error;
        }
        self.report.send_replace(Status::Up(Arc::clone(connection)));
        self.plan.publisher.refresh();
        std::future::pending().await
    }

    async fn handshake(&self, opening: Opening, connection: &Arc<Connection>) -> Result<(), Error> {
        let mut verdict = match opening {
            Opening::Probe => self.probe(connection).await?,
            Opening::Initialize => Negotiation::Legacy,
        };
        if verdict == Negotiation::Legacy {
            let reply = self.initialize(connection).await?;
            let about = UpstreamInfo::of_reply(&reply);
            if handshake::is_modern_only(&reply) {
                verdict = self.probe(connection).await?;
            } else {
                handshake::after_initialize(reply)?;
                connection.settle(Era::Legacy, about);
                connection.send(message::initialized());
                return Ok(());
            }
        }
        if verdict != Negotiation::Modern {
            return Err(ProtocolViolation::NoCommonVersion.into());
        }
        connection.settle(Era::Modern, None);
        Ok(())
    }

    async fn initialize(&self, connection: &Arc<Connection>) -> Result<Reply, Error> {
        let initialize = Outgoing::Initialize { capabilities: CAPABILITIES };
        let after_ms = self.plan.limits.list_timeout_ms;
        let reply = connection.request_in(Era::Legacy, &initialize);
        let reply = timeout(Duration::from_millis(after_ms), reply).await;
        reply.unwrap_or(Err(Error::Timeout { phase: Phase::Handshake, after_ms }))
    }

    /// Sends `server/discover`. Some legacy servers do not respond to unknown methods.
    async fn probe(&self, connection: &Arc<Connection>) -> Result<Negotiation, Error> {
        let time_limit = Duration::from_millis(self.plan.limits.connect_timeout_ms);
        match timeout(time_limit, connection.request_in(Era::Modern, &Outgoing::Discover)).await {
            Ok(reply) => {
                let reply = reply?;
                connection.introduced(UpstreamInfo::of_reply(&reply));
                Ok(handshake::after_discover(&reply))
            }
            Err(_) => Ok(Negotiation::Legacy),
        }
    }
}

async fn write(mut stdin: ChildStdin, mut to_write: mpsc::Receiver<Bytes>) {
    while let Some(line) = to_write.recv().await {
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}

async fn read<R: AsyncRead + Unpin>(
    mut lines: Lines<R>,
    connection: Arc<Connection>,
    mut stray: ChildLog,
) {
    while let Ok(Some(line)) = lines.next().await {
        let (Line::Whole(text) | Line::TooLong { head: text, .. }) = line;
        if !connection.receive(&line) && !text.is_empty() {
            stray.write(text);
        }
    }
}

async fn drain<R: AsyncRead + Unpin>(stream: R, mut log: ChildLog) {
    let mut lines = Lines::new(stream, MAX_LOG_BYTES);
    while let Ok(Some(Line::Whole(text) | Line::TooLong { head: text, .. })) = lines.next().await {
        log.write(text);
    }
}
