//! A write in the queue.

use registry_core::rules::Proposed;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{Applied, Error, Submission};

/// Author and request id, which retries repeat.
pub(super) type Request = (String, String);

#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) submission: Submission,
    reply: oneshot::Sender<Result<Applied, Error>>,
    _space: OwnedSemaphorePermit,
}

impl Waiting {
    pub(super) fn new(
        submission: Submission,
        reply: oneshot::Sender<Result<Applied, Error>>,
        space: OwnedSemaphorePermit,
    ) -> Self {
        Self { submission, reply, _space: space }
    }

    /// Whether the caller was canceled.
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    /// Author and request id, if it has one.
    pub(super) fn request(&self) -> Option<Request> {
        let id = self.submission.request_id.clone()?;
        Some((self.submission.author.clone(), id))
    }

    pub(super) fn succeed(self, answer: impl FnOnce(Vec<Proposed>) -> Applied) {
        // A canceled caller repeats the request with its request id.
        let _ = self.reply.send(Ok(answer(self.submission.batch)));
    }

    pub(super) fn fail(self, error: Error) {
        let _ = self.reply.send(Err(error));
    }
}

/// Bytes of documents and notices in a batch.
pub(super) fn bytes(submission: &Submission) -> usize {
    let size = |proposed: &Proposed| match proposed {
        Proposed::Register(document) => document.bytes().len(),
        Proposed::SetLifecycle { notice, .. } => notice.text_bytes(),
    };
    submission.batch.iter().map(size).sum()
}
