//! One stream: the first message, then a reply to each message of the server.

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

use crate::{
    Follow, FollowerMessage, MessageEffect, RejectedMessage, Stream, StreamState, timing::Timing,
};

/// Maximum length of the text of a NACK, in bytes (a limit of the API).
const NACK_BYTES: usize = 4 * 1024;
/// Maximum findings in a NACK.
const FINDINGS: usize = 20;
/// Maximum length of the text of a finding, in bytes.
const FINDING_BYTES: usize = 1024;
/// The reason code of a server whose state is older than the follower's.
const AHEAD: &str = "FOLLOWER_AHEAD";
/// The reason codes of a server with another registry or history.
const OTHER_PAST: [&str; 2] = ["REGISTRY_MISMATCH", "CHAIN_MISMATCH"];

/// The reason codes for a scope limit: of the server, of the caller, or of the relay at its
/// upstream.
const NO_ROOM: [&str; 3] = ["TOO_MANY_SCOPES", "SCOPE_QUOTA_EXCEEDED", "UPSTREAM_SCOPE_LIMIT"];

/// The status codes whose cause only an operator can fix.
const FINAL_CODES: [Code; 5] = [
    Code::Unimplemented,
    Code::InvalidArgument,
    Code::FailedPrecondition,
    Code::PermissionDenied,
    Code::Unauthenticated,
];
/// The likely cause if a TLS connection breaks before a response.
const REFUSED: &str = "the server may have rejected the client certificate, or may require one: verify its \
                       expiry and its authority; the server's log has the reason (`certificate-rejected`)";
/// The likely cause if a connection without TLS breaks.
const WANTS_TLS: &str = "if the server expects TLS, write grpcs://; otherwise check that the port is that of a \
                         registry (default 7070)";
/// The message of tonic for an HTTP response that is not of gRPC.
const NOT_GRPC: &str = "grpc-status header missing";
/// The cause of such a response with the status 404.
const NOT_A_REGISTRY: &str =
    "the server is not a registry, whose default port is 7070; correct the address";

/// A connection, and the metadata of its calls.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) channel: Channel,
    pub(crate) authorization: Option<MetadataValue<Ascii>>,
}

/// The reason for the end of a stream.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The connection or the server was lost.
    Lost(String),
    /// The server cannot serve another scope.
    ScopeLimit(String),
    /// The server sent a message that cannot be decoded or verified.
    Rejected(String),
    /// The server rejects this follower until an operator acts.
    Final(String),
}

/// The end of a stream.
pub(crate) struct SessionResult {
    pub(crate) ended: Ended,
    /// Whether the server sent a message that was applied.
    pub(crate) was_useful: bool,
    /// The stream with a rejected message.
    pub(crate) parked: Option<Parked>,
}

/// A stream with a rejected message. It stays open until the next stream opens, so that the server
/// can read the NACK and show it to operators.
pub(crate) struct Parked(Stream);

impl Parked {
    /// Ignores further messages. The future never completes.
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
    ) -> SessionResult {
        let ended = match self.open(connecting).await {
            Ok(mut stream) => match self.follow(&mut stream).await {
                Ok(ended) => ended,
                Err(refusal) => return self.refused(refusal, stream).await,
            },
            Err(ended) => ended,
        };
        SessionResult { ended, was_useful: self.was_useful, parked: None }
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
            Err(_) => Err(Ended::Lost("the registry does not respond".to_owned())),
        }
    }

    /// Applies messages until the stream ends or a message is rejected.
    async fn follow(&mut self, stream: &mut Stream) -> Result<Ended, RejectedMessage> {
        loop {
            let next = tokio::select! {
                next = timeout(self.timing.silence, stream.next()) => next,
                message = self.who.next_message() => {
                    self.send(message, stream).await;
                    continue;
                }
            };
            match next {
                Ok(Ok(Some(message))) => self.take(message, stream).await?,
                Ok(Ok(None)) => {
                    return Ok(Ended::Lost("the registry closed the stream".to_owned()));
                }
                Ok(Err(status)) if is_undecodable(&status) => {
                    return Err(RejectedMessage::new(self.who.next_revision(), &status.message()));
                }
                // The credentials of the start have expired; newer ones may exist.
                Ok(Err(status)) if status.code() == Code::Unauthenticated => {
                    return Ok(Ended::Lost(said_by(&status)));
                }
                Ok(Err(status)) => return Ok(self.ended_by(&status)),
                Err(_) => {
                    let seconds = self.timing.silence.as_secs_f32();
                    let reason = format!("no message from the registry for {seconds} s");
                    return Ok(Ended::Lost(reason));
                }
            }
        }
    }

    /// Sends a message of the follower.
    async fn send(&mut self, message: FollowerMessage, stream: &Stream) {
        match message {
            FollowerMessage::Ack if self.was_useful => self.acknowledge(stream),
            // The first acknowledgement follows the first message.
            FollowerMessage::Ack => {}
            // If the stream is broken, the first message of the next one contains it.
            FollowerMessage::Send(request) => {
                _ = timeout(self.timing.connect, stream.send(request)).await;
            }
        }
    }

    async fn take(
        &mut self,
        message: SyncResponse,
        stream: &Stream,
    ) -> Result<(), RejectedMessage> {
        let taken = self.who.apply(message).await?;
        if taken == MessageEffect::Partial {
            return Ok(());
        }
        self.who.on_status(StreamState::Live);
        let is_first = !std::mem::replace(&mut self.was_useful, true);
        if taken == MessageEffect::Applied || is_first || self.is_ack_due {
            self.acknowledge(stream);
        }
        Ok(())
    }

    /// Sends an acknowledgement. If the network is slow, a later one replaces it.
    fn acknowledge(&mut self, stream: &Stream) {
        let request = SyncRequest { message: Some(Message::Ack(self.who.ack())) };
        self.is_ack_due = stream.try_send(request).is_err();
    }

    /// Returns why a stream was not opened. A server verifies certificates, and rejects the wrong
    /// use of TLS, after the client has connected.
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
        let (info, advice) = (status.get_details_error_info(), self.who.reset_advice());
        match info.as_ref().map_or("", |info| info.reason.as_str()) {
            AHEAD => Ended::Final(format!(
                "{text}; a server that only lags accepts the follower once it has caught up; if the \
                 registry was restored to an older state, first keep a copy of the cache or database of \
                 this follower: it has the commits that the registry lost; then {advice}"
            )),
            reason if OTHER_PAST.contains(&reason) => Ended::Final(format!(
                "{text}; the copy belongs to another registry or history: {advice}"
            )),
            reason if NO_ROOM.contains(&reason) => Ended::ScopeLimit(text),
            _ if status.code() == Code::Unauthenticated => {
                Ended::Final(format!("{text}; {}", self.who.credentials_advice()))
            }
            _ if FINAL_CODES.contains(&status.code()) => Ended::Final(text),
            _ => Ended::Lost(text),
        }
    }

    /// Sends a NACK with the reason.
    async fn refused(self, refusal: RejectedMessage, stream: Stream) -> SessionResult {
        self.who.on_status(StreamState::Nacked);
        let nack = Nack {
            revision: refusal.revision,
            message: fit(&refusal.message, NACK_BYTES),
            diagnostics: refusal.findings.into_iter().take(FINDINGS).map(fit_finding).collect(),
        };
        let request = SyncRequest { message: Some(Message::Nack((&nack).into())) };
        // A server that does not read misses the reason.
        let _ = timeout(self.timing.connect, stream.send(request)).await;
        let ended = if refusal.is_final {
            Ended::Final(refusal.message)
        } else {
            Ended::Rejected(refusal.message)
        };
        let parked = Some(Parked(stream));
        SessionResult { ended, was_useful: self.was_useful, parked }
    }
}

/// Whether tonic, and not the server, reports a message that cannot be decoded or is too long.
fn is_undecodable(status: &Status) -> bool {
    match status.code() {
        Code::OutOfRange => true,
        Code::Internal => status.message().contains("decode"),
        _ => false,
    }
}

/// Describes a status of the server, or of the connection; the latter has a source.
pub(crate) fn said_by(status: &Status) -> String {
    match status.source() {
        Some(source) => format!("the connection broke: {}", reason_of(source)),
        None if status.code() == Code::Unimplemented && status.message().contains(NOT_GRPC) => {
            format!("{NOT_A_REGISTRY}: {}", status.message())
        }
        None => format!("the registry says {:?}: {}", status.code(), status.message()),
    }
}

/// Shortens a finding to the limits of a NACK.
fn fit_finding(found: Diagnostic) -> Diagnostic {
    let fit = |text: &str| fit(text, FINDING_BYTES);
    Diagnostic {
        pointer: fit(&found.pointer),
        message: fit(&found.message),
        help: found.help.as_deref().map(fit),
        ..found
    }
}

/// The start of a text without characters that the API rejects.
fn fit(text: &str, bytes: usize) -> String {
    shortened(text, bytes)
        .replace(|c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r'), " ")
}

/// The start of a text, of at most this many bytes.
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
        let reason = cause.to_string();
        // Some errors repeat their cause.
        if !text.ends_with(&reason) {
            text = format!("{text}: {reason}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn response_without_grpc_is_not_of_a_registry() {
        let said = |message: &str| said_by(&Status::unimplemented(message));
        let other = said("grpc-status header missing, mapped from HTTP status code 404");
        assert!(other.starts_with(NOT_A_REGISTRY), "{other}");
        let registry = said("the method is not implemented");
        assert!(!registry.contains(NOT_A_REGISTRY), "{registry}");
    }
}
