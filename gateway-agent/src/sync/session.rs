//! One stream: the first word, then whatever the server sends, each answered.
//!
//! Deliberately absent: what a message means for the catalog (`incoming.rs`), and when to open the
//! next stream.

use axum::BoxError;
use registry_core::{Revision, Scope, limits};
use registry_proto::{
    convert::{CacheState, Nack, Position},
    v1::{
        Ack, Hello, SyncRequest, SyncResponse, sync_request::Message,
        sync_service_client::SyncServiceClient,
    },
};
use tokio::{
    sync::{mpsc, watch},
    time::timeout,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    transport::Endpoint,
};
use tonic_types::StatusExt as _;

use super::{
    Timing,
    incoming::{Incoming, Refusal, Taken},
};
use crate::{cache::DiskState, source::Feed};

/// Largest message from the server, in bytes: the largest batch that the rules accept, with room for
/// its commit.
const MESSAGE_BYTES: usize = limits::BATCH_BYTES + (16 << 20);
/// Longest text of a NACK, in bytes; the API's limit.
const NACK_BYTES: usize = 4 * 1024;
/// Longest text of what is wrong with the disk, in bytes; the API's limit.
const DISK_BYTES: usize = 1024;
/// Answers that wait for the network; acknowledgements past that are merged.
const ANSWERS: usize = 16;
/// The reasons with which a server says that the follower's past is not its own.
const FINAL_REASONS: [&str; 3] = ["REGISTRY_MISMATCH", "CHAIN_MISMATCH", "AHEAD"];

/// Why a stream ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The connection, or the server, is gone.
    Lost(String),
    /// The server sent what does not decode or verify.
    Refused(String),
    /// The server does not want this follower as it is.
    Final(String),
}

/// What became of a stream.
pub(super) struct Outcome {
    pub(super) ended: Ended,
    /// Whether the server said anything that was of use.
    pub(super) was_useful: bool,
    /// The stream on which something was refused.
    pub(super) parked: Option<Parked>,
}

/// A stream on which something was refused. It is kept until the next one is opened, so that the
/// server can read the NACK and show it to people.
pub(super) struct Parked {
    _answers: Answers,
    stream: Streaming<SyncResponse>,
}

impl Parked {
    /// Ignores whatever else comes; never ends by itself.
    pub(super) async fn ignore(mut self) {
        while let Ok(Some(_)) = self.stream.message().await {}
        std::future::pending::<()>().await;
    }
}

/// Where the registry is, and what it is shown with the call.
pub(super) struct Target {
    pub(super) endpoint: Endpoint,
    pub(super) authorization: Option<MetadataValue<Ascii>>,
}

/// One stream.
pub(super) struct Session<'a> {
    gateway: &'a str,
    feed: &'a Feed,
    timing: Timing,
    incoming: Incoming<'a>,
    scope: watch::Receiver<Scope>,
    persisted: watch::Receiver<Revision>,
    disk: watch::Receiver<DiskState>,
    was_useful: bool,
    is_ack_due: bool,
}

type Answers = mpsc::Sender<SyncRequest>;

impl<'a> Session<'a> {
    pub(super) fn new(
        gateway: &'a str,
        feed: &'a Feed,
        scope: watch::Receiver<Scope>,
        timing: Timing,
    ) -> Self {
        Self {
            gateway,
            feed,
            timing,
            incoming: Incoming::new(&feed.cache, feed.admission.clone()),
            scope,
            persisted: feed.cache.persisted(),
            disk: feed.cache.disk(),
            was_useful: false,
            is_ack_due: false,
        }
    }

    pub(super) async fn run(mut self, target: Result<Target, BoxError>) -> Outcome {
        let ended = match self.open(target).await {
            Ok((answers, mut stream)) => match self.follow(&answers, &mut stream).await {
                Ok(ended) => ended,
                Err(refusal) => return self.refused(refusal, answers, stream).await,
            },
            Err(ended) => ended,
        };
        Outcome { ended, was_useful: self.was_useful, parked: None }
    }

    async fn open(
        &mut self,
        target: Result<Target, BoxError>,
    ) -> Result<(Answers, Streaming<SyncResponse>), Ended> {
        let Target { endpoint, authorization } =
            target.map_err(|e| Ended::Final(format!("the credentials cannot be used: {e}")))?;
        let channel = endpoint.connect().await.map_err(|e| Ended::Lost(reason_of(&e)))?;
        let mut client = SyncServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES);
        let (answers, requests) = mpsc::channel(ANSWERS);
        // There is room: it is the first.
        let _ = answers.try_send(SyncRequest { message: Some(Message::Hello(self.hello())) });
        let mut request = Request::new(ReceiverStream::new(requests));
        if let Some(authorization) = authorization {
            request.metadata_mut().insert("authorization", authorization);
        }
        let opening = client.sync(request);
        match timeout(self.timing.connect, opening).await {
            Ok(Ok(response)) => Ok((answers, response.into_inner())),
            Ok(Err(status)) => Err(ended_by(&status)),
            Err(_) => Err(Ended::Lost("the registry does not answer".to_owned())),
        }
    }

    fn hello(&mut self) -> Hello {
        let wanted = self.scope.borrow_and_update().clone();
        self.incoming.asked_for(wanted.clone());
        let held = self.feed.cache.current();
        let (wants_all, has_all) =
            (wanted == Scope::Everything, **held.scope() == Scope::Everything);
        // From a part there is no way on to everything, and content counts for its own scope.
        let is_of_use = self.feed.cache.has_catalog() && (has_all || !wants_all);
        let is_wanted = is_of_use && !has_all && **held.scope() == wanted;
        let content = is_wanted.then(|| held.content_digest().as_bytes().to_vec());
        Hello {
            gateway: self.gateway.to_owned(),
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
            scope: (!wants_all).then(|| (&wanted).into()),
            position: is_of_use.then(|| (&Position::of(&held)).into()),
            content: content.unwrap_or_default().into(),
            observer: false,
        }
    }

    /// Asks for another part on the same stream.
    async fn ask_for_scope(&mut self, answers: &Answers) {
        let wanted = self.scope.borrow_and_update().clone();
        self.incoming.asked_for(wanted.clone());
        let request = SyncRequest { message: Some(Message::Scope((&wanted).into())) };
        // If the stream has broken, the next one begins with it.
        let _ = timeout(self.timing.connect, answers.send(request)).await;
    }

    /// Takes what comes until the stream ends, or until something must be refused.
    async fn follow(
        &mut self,
        answers: &Answers,
        stream: &mut Streaming<SyncResponse>,
    ) -> Result<Ended, Refusal> {
        loop {
            let next = tokio::select! {
                next = timeout(self.timing.silence, stream.message()) => next,
                Ok(()) = self.scope.changed() => {
                    self.ask_for_scope(answers).await;
                    continue;
                }
                Ok(()) = self.persisted.changed(), if self.was_useful => {
                    self.acknowledge(answers);
                    continue;
                }
                Ok(()) = self.disk.changed(), if self.was_useful => {
                    self.acknowledge(answers);
                    continue;
                }
            };
            match next {
                Ok(Ok(Some(message))) => self.take(message, answers).await?,
                Ok(Ok(None)) => {
                    return Ok(Ended::Lost("the registry closed the stream".to_owned()));
                }
                Ok(Err(status)) if is_undecodable(&status) => {
                    return Err(self.incoming.refuse_next(&status.message()));
                }
                // What was shown at the start has ended; there may be something newer by now.
                Ok(Err(status)) if status.code() == Code::Unauthenticated => {
                    return Ok(Ended::Lost(said_by(&status)));
                }
                Ok(Err(status)) => return Ok(ended_by(&status)),
                Err(_) => {
                    let seconds = self.timing.silence.as_secs_f32();
                    let reason = format!("the registry said nothing for {seconds} s");
                    return Ok(Ended::Lost(reason));
                }
            }
        }
    }

    async fn take(&mut self, message: SyncResponse, answers: &Answers) -> Result<(), Refusal> {
        let taken = self.incoming.take(message).await?;
        if taken == Taken::Part {
            return Ok(());
        }
        self.feed.live(self.incoming.signed_at());
        let is_first = !std::mem::replace(&mut self.was_useful, true);
        if taken == Taken::Applied || is_first || self.is_ack_due {
            self.acknowledge(answers);
        }
        Ok(())
    }

    /// Says what is applied, what is on disk and how that is. Where the network is slow, later ones do.
    fn acknowledge(&mut self, answers: &Answers) {
        let (cache_state, cache_problem) = disk_state(&self.disk.borrow_and_update()).into_fields();
        let ack = Ack {
            applied_revision: self.feed.cache.current().revision().0,
            persisted_revision: self.persisted.borrow_and_update().0,
            cache_state,
            cache_problem,
        };
        let request = SyncRequest { message: Some(Message::Ack(ack)) };
        self.is_ack_due = answers.try_send(request).is_err();
    }

    /// Says what is wrong.
    async fn refused(
        &self,
        refusal: Refusal,
        answers: Answers,
        stream: Streaming<SyncResponse>,
    ) -> Outcome {
        metrics::counter!("gateway_sync_nacks_total").increment(1);
        let nack = Nack {
            revision: refusal.revision,
            message: shortened(&refusal.message, NACK_BYTES).to_owned(),
            diagnostics: Vec::new(),
        };
        let request = SyncRequest { message: Some(Message::Nack((&nack).into())) };
        // Where the server does not read, it does not learn it.
        let _ = timeout(self.timing.connect, answers.send(request)).await;
        let ended = if refusal.is_final {
            Ended::Final(refusal.message)
        } else {
            Ended::Refused(refusal.message)
        };
        let parked = Some(Parked { _answers: answers, stream });
        Outcome { ended, was_useful: self.was_useful, parked }
    }
}

/// What tonic says when a message cannot be decoded or is too long, rather than the server.
fn is_undecodable(status: &Status) -> bool {
    match status.code() {
        Code::OutOfRange => true,
        Code::Internal => status.message().contains("decode"),
        _ => false,
    }
}

fn said_by(status: &Status) -> String {
    format!("the registry says {:?}: {}", status.code(), status.message())
}

fn ended_by(status: &Status) -> Ended {
    let text = said_by(status);
    let info = status.get_details_error_info();
    if info.is_some_and(|info| FINAL_REASONS.contains(&info.reason.as_str())) {
        return Ended::Final(format!(
            "{text}; the cache is of another registry or of another past: stop the gateway, delete \
             its cache (with .previous and .log) and start it again, or correct `registry.source`"
        ));
    }
    match status.code() {
        Code::Unimplemented
        | Code::InvalidArgument
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unauthenticated => Ended::Final(text),
        _ => Ended::Lost(text),
    }
}

/// tonic keeps the reason in the chain of sources.
fn reason_of(error: &tonic::transport::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn disk_state(disk: &DiskState) -> CacheState {
    match disk {
        DiskState::Ok => CacheState::Ok,
        DiskState::Failing(reason) => {
            let line = reason.replace(char::is_control, " ");
            CacheState::Failing(shortened(&line, DISK_BYTES).to_owned())
        }
        DiskState::None => CacheState::None,
    }
}

fn shortened(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
