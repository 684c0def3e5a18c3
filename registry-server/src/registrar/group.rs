//! Forming a group: each waiting batch is validated against everything before it, also against
//! what the group itself is about to commit.
//!
//! Pure computing on a snapshot of the catalog, so that it can run beside the runtime. Deliberately
//! absent: storing the group, and request ids of the past.

use std::{
    collections::{HashSet, VecDeque},
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
            group.admit(waiting, now);
        }
        group
    }

    fn admit(&mut self, waiting: Waiting, now: Timestamp) {
        let footing = if self.commits.is_empty() { Footing::Stored } else { Footing::Pending };
        let verdict = self.decide(&waiting.submission, now).unwrap_or_else(Verdict::Refused);
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
        (Proposed::Register(document), Some(_)) => Some(Arc::new(document.unread())),
        _ => None,
    };
    batch.iter().zip(&plan.effects).filter_map(document).collect()
}
