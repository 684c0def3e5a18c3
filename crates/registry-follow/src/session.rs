//! One stream: the first message, then an answer to each message of the server.

use std::error::Error as _;

use registry_core::{Diagnostic, follower::Nack};
use registry_proto::v1::{SyncRequest, SyncResponse, sync_request::Message};
use tokio::time::timeout;
use tonic::{
    Code, Status,
    metadata::{Ascii, MetadataValue},
    transport::Channel,
};
use tonic_types::StatusExt as _;

use crate::{Follow, Heard, News, Refusal, Stream, Taken, timing::Timing};

/// Longest text of a NACK, in bytes; the API's limit.
const NACK_BYTES: usize = 4 * 1024;
/// Most findings of a NACK.
const FINDINGS: usize = 20;
/// Longest text of a finding, in bytes.
const FINDING_BYTES: usize = 1024;
/// The reason with which a server says that the follower knows more than it.
const AHEAD: &str = "AHEAD";
/// The reasons with which a server says that the follower's past is not its own.
const OTHER_PAST: [&str; 2] = ["REGISTRY_MISMATCH", "CHAIN_MISMATCH"];

/// The reasons with which a server says that it has no room for a scope: its own, that of the caller, or
/// that of the relay at whomever it follows.
const NO_ROOM: [&str; 3] = ["TOO_MANY_SCOPES", "TOO_MANY_OWN_SCOPES", "TOO_MANY_UPSTREAM_SCOPES"];

/// The codes that only an operator can mend.
const FINAL_CODES: [Code; 5] = [
    Code::Unimplemented,
    Code::InvalidArgument,
    Code::FailedPrecondition,
    Code::PermissionDenied,
    Code::Unauthenticated,
];
/// Why a connection over TLS may break before an answer.
const REFUSED: &str = "if the server wants a client certificate, it may have refused this one, or missed \
                       one: check that it has not expired and is of the right authority; the server's log \
                       says why (`certificate-refused`)";
/// Why a connection without TLS may.
const WANTS_TLS: &str = "if the server expects TLS, write grpcs://";

/// A connection, and the metadata of its calls.
pub(crate) struct Target {
    pub(crate) channel: Channel,
    pub(crate) authorization: Option<MetadataValue<Ascii>>,
}

/// Why a stream ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The connection, or the server, is gone.
    Lost(String),
    /// The server has no room for the scope.
    NoRoom(String),
    /// The server sent what does not decode or verify.
    Refused(String),
    /// The server does not want this follower as it is.
    Final(String),
}

/// What became of a stream.
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    /// Whether the server said anything that was of use.
    pub(crate) was_useful: bool,
    /// The stream on which something was refused.
    pub(crate) parked: Option<Parked>,
}

/// A stream on which something was refused. It is kept until the next one is opened, so that the
/// server can read the NACK and show it to people.
pub(crate) struct Parked(Stream);

impl Parked {
    /// Ignores whatever else comes; never ends by itself.
    pub(crate) async fn ignore(mut self) {
        while let Ok(Some(_)) = self.0.next().await {}
        std::future::pending::<()>().await;
    }
}

/// One stream.
pub(crate) struct Session<'a, F> {
    who: &'a mut F,
    timing: Timing,
    is_tls: bool,
    was_useful: bool,
    is_ack_due: bool,
}

impl<'a, F: Follow> Session<'a, F> {
    pub(crate) fn new(who: &'a mut F, timing: Timing, is_tls: bool) -> Self {
        Self { who, timing, is_tls, was_useful: false, is_ack_due: false }
    }

    pub(crate) async fn run(
        mut self,
        connecting: impl Future<Output = Result<Target, Ended>>,
    ) -> Outcome {
        let ended = match self.open(connecting).await {
            Ok(mut stream) => match self.follow(&mut stream).await {
                Ok(ended) => ended,
                Err(refusal) => return self.refused(refusal, stream).await,
            },
            Err(ended) => ended,
        };
        Outcome { ended, was_useful: self.was_useful, parked: None }
    }

    async fn open(
        &mut self,
        connecting: impl Future<Output = Result<Target, Ended>>,
    ) -> Result<Stream, Ended> {
        let Target { channel, authorization } = connecting.await?;
        let opening = Stream::open(channel, authorization, self.who.hello());
        match timeout(self.timing.connect, opening).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(status)) => Err(self.unopened_by(&status)),
            Err(_) => Err(Ended::Lost("the registry does not answer".to_owned())),
        }
    }

    /// Takes what comes until the stream ends, or until something must be refused.
    async fn follow(&mut self, stream: &mut Stream) -> Result<Ended, Refusal> {
        loop {
            let next = tokio::select! {
                next = timeout(self.timing.silence, stream.next()) => next,
                news = self.who.news() => {
                    self.tell(news, stream).await;
                    continue;
                }
            };
            match next {
                Ok(Ok(Some(message))) => self.take(message, stream).await?,
                Ok(Ok(None)) => {
                    return Ok(Ended::Lost("the registry closed the stream".to_owned()));
                }
                Ok(Err(status)) if is_undecodable(&status) => {
                    return Err(Refusal::new(self.who.next_revision(), &status.message()));
                }
                // What was shown at the start has ended; there may be something newer by now.
                Ok(Err(status)) if status.code() == Code::Unauthenticated => {
                    return Ok(Ended::Lost(said_by(&status)));
                }
                Ok(Err(status)) => return Ok(self.ended_by(&status)),
                Err(_) => {
                    let seconds = self.timing.silence.as_secs_f32();
                    let reason = format!("the registry said nothing for {seconds} s");
                    return Ok(Ended::Lost(reason));
                }
            }
        }
    }

    /// Says what the follower says by itself.
    async fn tell(&mut self, news: News, stream: &Stream) {
        match news {
            News::Ack if self.was_useful => self.acknowledge(stream),
            // The first acknowledgement says it.
            News::Ack => {}
            // If the stream has broken, the next one begins with it.
            News::Say(request) => _ = timeout(self.timing.connect, stream.send(request)).await,
        }
    }

    async fn take(&mut self, message: SyncResponse, stream: &Stream) -> Result<(), Refusal> {
        let taken = self.who.take(message).await?;
        if taken == Taken::Part {
            return Ok(());
        }
        self.who.heard(Heard::Live);
        let is_first = !std::mem::replace(&mut self.was_useful, true);
        if taken == Taken::Applied || is_first || self.is_ack_due {
            self.acknowledge(stream);
        }
        Ok(())
    }

    /// Says how far the follower is. Where the network is slow, a later one does.
    fn acknowledge(&mut self, stream: &Stream) {
        let request = SyncRequest { message: Some(Message::Ack(self.who.ack())) };
        self.is_ack_due = stream.try_send(request).is_err();
    }

    /// Why a stream was not opened. A server judges certificates, and speaks TLS or not, when the
    /// connection is up for the client.
    fn unopened_by(&self, status: &Status) -> Ended {
        match self.ended_by(status) {
            Ended::Lost(reason) if status.source().is_some() => {
                let hint = if self.is_tls { REFUSED } else { WANTS_TLS };
                Ended::Lost(format!("{reason}; {hint}"))
            }
            ended => ended,
        }
    }

    fn ended_by(&self, status: &Status) -> Ended {
        let text = said_by(status);
        if status.source().is_some() {
            return Ended::Lost(text);
        }
        let (info, anew) = (status.get_details_error_info(), self.who.anew());
        match info.as_ref().map_or("", |info| info.reason.as_str()) {
            AHEAD => Ended::Final(format!(
                "{text}; a server that only lags takes it again once it has caught up; where the \
                 registry was put back to an older state: {anew}"
            )),
            reason if OTHER_PAST.contains(&reason) => Ended::Final(format!(
                "{text}; what is held is of another registry or of another past: {anew}"
            )),
            reason if NO_ROOM.contains(&reason) => Ended::NoRoom(text),
            _ if FINAL_CODES.contains(&status.code()) => Ended::Final(text),
            _ => Ended::Lost(text),
        }
    }

    /// Says what is wrong.
    async fn refused(self, refusal: Refusal, stream: Stream) -> Outcome {
        self.who.heard(Heard::Nacked);
        let nack = Nack {
            revision: refusal.revision,
            message: fit(&refusal.message, NACK_BYTES),
            diagnostics: refusal.findings.into_iter().take(FINDINGS).map(fit_finding).collect(),
        };
        let request = SyncRequest { message: Some(Message::Nack((&nack).into())) };
        // Where the server does not read, it does not learn it.
        let _ = timeout(self.timing.connect, stream.send(request)).await;
        let ended = if refusal.is_final {
            Ended::Final(refusal.message)
        } else {
            Ended::Refused(refusal.message)
        };
        let parked = Some(Parked(stream));
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

/// What the server says, or what became of the connection: such a status has a source.
fn said_by(status: &Status) -> String {
    match status.source() {
        Some(source) => format!("the connection broke: {}", reason_of(source)),
        None => format!("the registry says {:?}: {}", status.code(), status.message()),
    }
}

/// A finding as a NACK may carry it.
fn fit_finding(found: Diagnostic) -> Diagnostic {
    let fit = |text: &str| fit(text, FINDING_BYTES);
    Diagnostic {
        pointer: fit(&found.pointer),
        message: fit(&found.message),
        help: found.help.as_deref().map(fit),
        ..found
    }
}

/// The beginning of a text, without what the API refuses in texts.
fn fit(text: &str, bytes: usize) -> String {
    shortened(text, bytes)
        .replace(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r'), " ")
}

/// The beginning of a text, of at most so many bytes.
pub fn shortened(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The text of an error with its chain of sources, because clients keep the reason there.
pub fn reason_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
