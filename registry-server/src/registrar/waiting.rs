//! A batch that waits for its answer.

use registry_core::rules::Proposed;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{Applied, Error, Submission};

/// An author and the id of a request: retries have the same.
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

    /// Whether nobody waits for the answer any more.
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    /// The author and the id of the request, where it has one.
    pub(super) fn request(&self) -> Option<Request> {
        let id = self.submission.request_id.clone()?;
        Some((self.submission.author.clone(), id))
    }

    /// Answers with what became of the batch.
    pub(super) fn succeed(self, answer: impl FnOnce(Vec<Proposed>) -> Applied) {
        // A caller that is gone asks again with its request id.
        let _ = self.reply.send(Ok(answer(self.submission.batch)));
    }

    /// Answers with why there is no commit.
    pub(super) fn fail(self, error: Error) {
        let _ = self.reply.send(Err(error));
    }
}

/// How many bytes of documents and reasons a batch holds.
pub(super) fn bytes(submission: &Submission) -> usize {
    let size = |proposed: &Proposed| match proposed {
        Proposed::Register(document) => document.bytes().len(),
        Proposed::SetLifecycle { notice, .. } => notice.text_bytes(),
    };
    submission.batch.iter().map(size).sum()
}
