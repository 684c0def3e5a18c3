//! What a follower is: somebody who holds a copy and says what becomes of it.

use registry_core::{Diagnostic, Revision};
use registry_proto::v1::{Ack, Hello, SyncRequest, SyncResponse};

/// Somebody who holds a copy of a registry, or of a part of it.
pub trait Follow: Send {
    /// What a new stream begins with. Whatever came in part on the one before is forgotten.
    fn hello(&mut self) -> Hello;

    /// Takes a message whole, or says why not.
    fn take(&mut self, said: SyncResponse) -> impl Future<Output = Result<Taken, Refusal>> + Send;

    /// The revision that was to come next.
    fn next_revision(&self) -> Revision;

    /// How far it is.
    fn ack(&mut self) -> Ack;

    /// Waits until it has something to say by itself. May be dropped at any time.
    fn news(&mut self) -> impl Future<Output = News> + Send;

    /// Hears how the stream is doing.
    fn heard(&mut self, heard: Heard<'_>);

    /// What its people do where it is to begin anew: what it holds is of another registry or past.
    fn anew(&self) -> &'static str {
        "stop it, remove what it holds and start it again, or correct the address"
    }
}

/// How a stream is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard<'a> {
    /// It says what is new, and that was taken.
    Live,
    /// A message was refused, and the registry told.
    Nacked,
    /// It cannot be had, or broke off; why.
    Down(&'a str),
    /// The server has no room for the scope that the follower wants; why.
    NoRoom(&'a str),
    /// What it says is refused, or the follower is; why.
    Refused(&'a str),
}

/// What a follower has to say by itself.
#[derive(Debug)]
pub enum News {
    /// This.
    Say(SyncRequest),
    /// How far it is.
    Ack,
}

/// What a message did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is a part of something bigger.
    Part,
    /// There is a new state.
    Applied,
    /// The state is the latest.
    Current,
}

/// A message that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Of which revision it is.
    pub revision: Revision,
    /// What is wrong with it.
    pub message: String,
    /// What was found in it, where there is more to say.
    pub findings: Vec<Diagnostic>,
    /// Whether only an operator can mend it.
    pub is_final: bool,
}

impl Refusal {
    /// A refusal that another stream may mend.
    pub fn new(revision: Revision, message: &dyn ToString) -> Self {
        Self { revision, message: message.to_string(), findings: Vec::new(), is_final: false }
    }

    /// Adds what was found.
    #[must_use]
    pub fn with(self, findings: Vec<Diagnostic>) -> Self {
        Self { findings, ..self }
    }
}
