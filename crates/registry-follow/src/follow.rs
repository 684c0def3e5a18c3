//! The interface of a follower: a holder of a copy of a registry.

use registry_core::{Diagnostic, Revision};
use registry_proto::v1::{Ack, ClientHello, SyncRequest, SyncResponse};

/// A holder of a copy of a registry, or of a part of it.
pub trait Follow: Send {
    /// The first message of a new stream. Parts of an unfinished message are discarded.
    fn hello(&mut self) -> ClientHello;

    /// Applies a message completely, or rejects it.
    fn apply(
        &mut self,
        message: SyncResponse,
    ) -> impl Future<Output = Result<MessageEffect, RejectedMessage>> + Send;

    /// The next expected revision.
    fn next_revision(&self) -> Revision;

    /// The acknowledgement of the applied state.
    fn ack(&mut self) -> Ack;

    /// Waits for a message that the follower sends on its own. The future may be dropped at any
    /// time.
    fn next_message(&mut self) -> impl Future<Output = FollowerMessage> + Send;

    /// Reports the status of the stream.
    fn on_status(&mut self, status: StreamState<'_>);

    /// The advice to operators if the copy belongs to another registry or history.
    fn reset_advice(&self) -> &'static str {
        "stop it, remove its data and start it again, or correct the address"
    }

    /// The advice to operators if the registry rejects the credentials.
    fn credentials_advice(&self) -> &'static str {
        "check its token and its client certificate"
    }
}

/// The status of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState<'a> {
    /// The stream is open and its messages are applied.
    Live,
    /// A message was rejected and the registry has the reason.
    Nacked,
    /// The stream cannot be opened or was interrupted, with the reason.
    Down(&'a str),
    /// The server cannot serve another scope, with the reason.
    ScopeLimit(&'a str),
    /// The server or the follower rejects the other, with the reason.
    Rejected(&'a str),
}

/// A message that a follower sends on its own.
#[derive(Debug)]
pub enum FollowerMessage {
    /// A request.
    Send(SyncRequest),
    /// How far it is.
    Ack,
}

/// The effect of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageEffect {
    /// The message is one part of a larger one.
    Partial,
    /// The state has changed.
    Applied,
    /// The state is the latest.
    Current,
}

/// A rejected message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedMessage {
    /// The revision of the message.
    pub revision: Revision,
    /// The reason.
    pub message: String,
    /// The findings, if there are more details.
    pub findings: Vec<Diagnostic>,
    /// Whether only an operator can fix the cause.
    pub is_final: bool,
}

impl RejectedMessage {
    /// Creates a rejection that another stream may fix.
    pub fn new(revision: Revision, message: &dyn ToString) -> Self {
        Self { revision, message: message.to_string(), findings: Vec::new(), is_final: false }
    }

    /// Adds findings.
    #[must_use]
    pub fn with(self, findings: Vec<Diagnostic>) -> Self {
        Self { findings, ..self }
    }
}
