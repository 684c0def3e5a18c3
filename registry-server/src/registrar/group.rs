//! Forming a group: each waiting batch is validated against everything before it, also against
//! what the group itself is about to commit.
//!
//! Pure computing on a snapshot of the catalog, so that it can run beside the runtime.

use std::{
    any::Any,
    collections::{HashSet, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use registry_core::{
    Catalog, Commit, Document, Revision, SealedCommit, Timestamp,
    rules::{Plan, Proposed},
};

use crate::store::CommitEvent;

use super::{
    Error, Submission,
    log::Position,
    repeat,
    waiting::{Waiting, bytes},
};

/// Batches that were decided together, on top of one catalog.
pub(super) struct Group {
    /// Where the log must be for this group.
    pub(super) base: Position,
    /// The catalog with all commits of the group.
    pub(super) catalog: Catalog,
    /// One for each member that changes something.
    pub(super) commits: Vec<SealedCommit>,
    /// From where the commits of authenticated authors came.
    pub(super) events: Vec<CommitEvent>,
    pub(super) members: Vec<Member>,
}

pub(super) struct Member {
    pub(super) waiting: Waiting,
    pub(super) verdict: Verdict,
    /// Whether the verdict looked at commits that are not stored yet.
    pub(super) footing: Footing,
}

impl Member {
    /// Whether its answer depends on no commit of its group.
    pub(super) fn is_settled(&self) -> bool {
        self.footing == Footing::Stored && !matches!(self.verdict, Verdict::Commits(..))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Footing {
    /// On what is stored: holds whatever becomes of the group.
    Stored,
    /// On commits of this group: holds only if they are stored.
    Pending,
}

pub(super) enum Verdict {
    /// Stored as this revision, if the group is.
    Commits(Revision, Plan),
    /// Changes nothing at this revision.
    Unchanged(Revision, Plan),
    /// Refused.
    Refused(Error),
}

/// How much goes into one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) commits: usize,
    pub(super) bytes: usize,
}

impl Group {
    /// Takes batches from the front of the queue and decides them, within the budget. A batch with
    /// a request id that the group has already stays, and is decided when that one is settled.
    pub(super) fn form(
        stored: &Catalog,
        queue: &mut VecDeque<Waiting>,
        budget: Budget,
        now: Timestamp,
    ) -> Self {
        let catalog = stored.clone();
        let base = (catalog.revision(), catalog.chain());
        let mut group =
            Self { base, catalog, commits: Vec::new(), events: Vec::new(), members: Vec::new() };
        let (mut room, mut ids) = (budget.bytes, HashSet::new());
        while let Some(waiting) = queue.pop_front() {
            if waiting.is_abandoned() {
                continue;
            }
            let size = bytes(&waiting.submission);
            let repeats = waiting.request().is_some_and(|request| !ids.insert(request));
            let full = group.commits.len() >= budget.commits || size > room;
            if repeats || (full && !group.commits.is_empty()) {
                queue.push_front(waiting);
                break;
            }
            room = room.saturating_sub(size);
            group.admit(stored, waiting, now);
        }
        group
    }

    /// Decides a batch. A panic is answered to this batch alone, and the group is restored.
    fn admit(&mut self, stored: &Catalog, waiting: Waiting, now: Timestamp) {
        let footing = if self.commits.is_empty() { Footing::Stored } else { Footing::Pending };
        let (commits, events) = (self.commits.len(), self.events.len());
        let deciding = AssertUnwindSafe(|| self.decide(&waiting.submission, now));
        let verdict = catch_unwind(deciding).unwrap_or_else(|panic| {
            tracing::error!(panic = text(&*panic), "deciding a batch panicked; it was not stored");
            self.commits.truncate(commits);
            self.events.truncate(events);
            // A panic may leave the catalog half changed.
            self.catalog = stored.clone();
            let again = self.commits.iter().try_for_each(|commit| self.catalog.apply(commit));
            debug_assert!(again.is_ok(), "these commits were applied before");
            let detail = "it meets a defect of the server, whose log has the details";
            Err(Error::Internal(detail.to_owned()))
        });
        let verdict = verdict.unwrap_or_else(Verdict::Refused);
        self.members.push(Member { waiting, verdict, footing });
    }

    fn decide(&mut self, submission: &Submission, now: Timestamp) -> Result<Verdict, Error> {
        let current = self.catalog.revision();
        if let Some(wanted) = submission.base_revision.filter(|wanted| *wanted != current) {
            return Err(Error::BaseRevision { wanted, current });
        }
        let plan = submission.plan(&self.catalog);
        if !plan.is_acceptable() {
            return Err(Error::Refused(plan.diagnostics));
        }
        if plan.is_empty() {
            return Ok(Verdict::Unchanged(current, plan));
        }
        let sealed = seal(&self.catalog, submission, &plan, now)?;
        self.catalog.apply(&sealed).map_err(|e| Error::Internal(e.to_string()))?;
        let revision = sealed.revision();
        self.events.extend(submission.event(revision, now));
        self.commits.push(sealed);
        Ok(Verdict::Commits(revision, plan))
    }
}

/// The message of a panic.
fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn seal(
    catalog: &Catalog,
    submission: &Submission,
    plan: &Plan,
    now: Timestamp,
) -> Result<SealedCommit, Error> {
    let commit = Commit {
        revision: catalog.revision().next(),
        author: submission.author.clone(),
        committed_at: now,
        message: submission.message.clone(),
        request_id: submission.request_id.clone(),
        request_digest: submission.request_id.as_ref().map(|_| repeat::digest(submission)),
        origin: submission.origin.clone(),
        changes: plan.changes().cloned().collect(),
        settings: plan.settings.clone(),
    };
    let documents = registered(&submission.batch, plan);
    SealedCommit::seal(&catalog.chain(), commit, documents)
        .map_err(|e| Error::Internal(e.to_string()))
}

/// The documents of what the plan registers, in the order of its changes. Their entities have been
/// judged, and most are never looked at again.
fn registered(batch: &[Proposed], plan: &Plan) -> Vec<Arc<Document>> {
    let document = |(proposed, effect): (&Proposed, &Option<_>)| match (proposed, effect) {
        (Proposed::Register(document), Some(_)) => Some(Arc::new(document.without_entity())),
        _ => None,
    };
    batch.iter().zip(&plan.effects).filter_map(document).collect()
}

#[cfg(test)]
mod tests {
    use registry_core::{Kind, RegistryId};
    use serde_json::json;
    use tokio::sync::{Semaphore, oneshot};

    use super::*;
    use crate::registrar::PANICS;

    fn registers(name: &str, message: &str) -> Waiting {
        let value = json!({ "name": name, "version": "1.0.0", "schema": {} });
        let document = Arc::new(Document::parse(Kind::Schema, &value).unwrap());
        let submission = Submission {
            batch: vec![Proposed::Register(document)],
            settings: Vec::new(),
            author: "ann".to_owned(),
            origin: None,
            address: String::new(),
            claimant: None,
            message: message.to_owned(),
            request_id: None,
            base_revision: None,
        };
        let space = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (reply, answer) = oneshot::channel();
        // A batch whose caller has gone is not decided.
        std::mem::forget(answer);
        Waiting::new(submission, reply, space)
    }

    #[test]
    fn panic_of_one_batch_spares_its_neighbors() {
        let stored = Catalog::empty(RegistryId::new("r"));
        let batches = [registers("A", ""), registers("B", PANICS), registers("C", "")];
        let mut queue = VecDeque::from(batches);
        let budget = Budget { commits: 10, bytes: usize::MAX };
        let group = Group::form(&stored, &mut queue, budget, Timestamp::default());
        assert!(queue.is_empty());
        let verdicts: Vec<_> = group.members.iter().map(|member| &member.verdict).collect();
        assert!(
            matches!(
                verdicts.as_slice(),
                [
                    Verdict::Commits(Revision(1), _),
                    Verdict::Refused(Error::Internal(_)),
                    Verdict::Commits(Revision(2), _),
                ]
            ),
            "the second batch alone meets its defect"
        );
        let mut fold = stored;
        group.commits.iter().for_each(|commit| fold.apply(commit).unwrap());
        assert!(group.catalog == fold);
    }
}
