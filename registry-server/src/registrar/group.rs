//! Forms a group: validates each queued batch against the catalog and the earlier commits of the group.
//!
//! Pure computation on a snapshot of the catalog.

use std::{
    any::Any,
    collections::{HashSet, VecDeque},
    mem::replace,
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

/// Batches decided together on top of one catalog.
pub(super) struct Group {
    /// Required head of the log.
    pub(super) base: Position,
    /// Catalog with all commits of the group, without the tree of its content digest.
    pub(super) catalog: Catalog,
    /// Commits of members that change something.
    pub(super) commits: Vec<SealedCommit>,
    /// Access events of commits with authenticated authors.
    pub(super) events: Vec<CommitEvent>,
    pub(super) members: Vec<Member>,
    /// The documents of the commits with their parsed entities, which no later step needs.
    pub(super) parsed: Vec<Arc<Document>>,
}

pub(super) struct Member {
    pub(super) waiting: Waiting,
    pub(super) verdict: Verdict,
    /// Whether the verdict depends on commits that are not stored yet.
    pub(super) based_on: BasedOn,
}

impl Member {
    /// Whether the verdict is valid even if the commits of the group are not stored.
    pub(super) fn is_settled(&self) -> bool {
        self.based_on == BasedOn::Committed && !matches!(self.verdict, Verdict::Commits(..))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BasedOn {
    /// Stored commits only.
    Committed,
    /// Earlier commits of this group too.
    Group,
}

pub(super) enum Verdict {
    /// Creates a commit with this revision.
    Commits(Revision, Plan),
    /// Changes nothing, at this revision.
    Unchanged(Revision, Plan),
    /// Rejected.
    Refused(Error),
}

/// Maximum size of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) commits: usize,
    pub(super) bytes: usize,
}

impl Group {
    /// Decides batches from the front of the queue within the budget. Stops before a second batch with the
    /// same request id, which must see the result of the first.
    pub(super) fn form(
        stored: &Catalog,
        queue: &mut VecDeque<Waiting>,
        budget: Budget,
        now: Timestamp,
    ) -> Self {
        let catalog = stored.without_content();
        let base = (catalog.revision(), catalog.chain());
        let (commits, events, members) = (Vec::new(), Vec::new(), Vec::new());
        let mut group = Self { base, catalog, commits, events, members, parsed: Vec::new() };
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

    /// Decides a batch. A panic fails only this batch and restores the group.
    fn admit(&mut self, stored: &Catalog, mut waiting: Waiting, now: Timestamp) {
        let based_on = if self.commits.is_empty() { BasedOn::Committed } else { BasedOn::Group };
        let (commits, events) = (self.commits.len(), self.events.len());
        let deciding = AssertUnwindSafe(|| self.decide(&waiting.submission, now));
        let verdict = catch_unwind(deciding).unwrap_or_else(|panic| {
            tracing::error!(
                panic = text(&*panic),
                "panic while validating a batch; it was not stored"
            );
            self.commits.truncate(commits);
            self.events.truncate(events);
            // The panic may have left the catalog partially changed.
            self.catalog = stored.without_content();
            let replay = self.commits.iter().try_for_each(|commit| self.catalog.apply(commit));
            debug_assert!(replay.is_ok(), "these commits were applied before");
            let detail = "validation of the batch panicked; see the server log";
            Err(Error::Internal(detail.to_owned()))
        });
        let verdict = verdict.unwrap_or_else(Verdict::Refused);
        if let (Verdict::Commits(_, plan), Some(commit)) = (&verdict, self.commits.last()) {
            let batch = &mut waiting.submission.batch;
            self.parsed.extend(take_parsed(batch, plan, commit.documents()));
        }
        self.members.push(Member { waiting, verdict, based_on });
    }

    fn decide(&mut self, submission: &Submission, now: Timestamp) -> Result<Verdict, Error> {
        let current = self.catalog.revision();
        submission.check_preconditions(&self.catalog)?;
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

/// Documents of the registered entities, in the order of the changes. Drops the parsed entities to save
/// memory, because most are not read again.
fn registered(batch: &[Proposed], plan: &Plan) -> Vec<Arc<Document>> {
    let document = |(proposed, effect): (&Proposed, &Option<_>)| match (proposed, effect) {
        (Proposed::Register(document), Some(_)) => Some(Arc::new(document.without_entity())),
        _ => None,
    };
    batch.iter().zip(&plan.effects).filter_map(document).collect()
}

/// Replaces the documents of a batch by those of its commit. Returns the former ones. After a conflict, the next
/// validation parses them again.
fn take_parsed(
    batch: &mut [Proposed],
    plan: &Plan,
    documents: &[Arc<Document>],
) -> Vec<Arc<Document>> {
    let parsed = batch.iter_mut().zip(&plan.effects).filter_map(|change| match change {
        (Proposed::Register(document), Some(_)) => Some(document),
        _ => None,
    });
    parsed.zip(documents).map(|(parsed, document)| replace(parsed, document.clone())).collect()
}

#[cfg(test)]
pub(super) mod testing {
    use std::sync::Arc;

    use policy::PolicyBreaks;
    use registry_core::{Document, rules::Proposed};
    use tokio::sync::{Semaphore, oneshot};

    use super::{Submission, Waiting};

    /// A registration in the queue.
    pub(in super::super) fn registration(document: Arc<Document>, message: &str) -> Waiting {
        let submission = Submission {
            batch: vec![Proposed::Register(document)],
            settings: Vec::new(),
            author: "ann".to_owned(),
            origin: None,
            address: String::new(),
            permissions: None,
            message: message.to_owned(),
            request_id: None,
            base_revision: None,
            policy_breaks: PolicyBreaks::Reject,
            preconditions: Vec::new(),
        };
        let space = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (reply, answer) = oneshot::channel();
        // A batch without a receiver is not decided.
        std::mem::forget(answer);
        Waiting::new(submission, reply, space)
    }
}

#[cfg(test)]
mod tests {
    use registry_core::{
        Kind, RegistryId,
        lifecycle::{LifecycleState, Notice},
    };
    use serde_json::json;

    use super::{testing::registration, *};
    use crate::registrar::PANICS;

    fn registers(name: &str, message: &str) -> Waiting {
        let value = json!({ "name": name, "version": "1.0.0", "schema": {} });
        registration(Arc::new(Document::parse(Kind::Schema, &value).unwrap()), message)
    }

    #[test]
    fn panic_fails_only_its_own_batch() {
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
            "only the second batch fails"
        );
        let mut fold = stored;
        group.commits.iter().for_each(|commit| fold.apply(commit).unwrap());
        assert!(group.catalog == fold);
    }

    #[test]
    fn batch_shares_documents_of_its_commit() {
        let budget = Budget { commits: 10, bytes: usize::MAX };
        let form = |stored: &Catalog, waiting| {
            Group::form(stored, &mut VecDeque::from([waiting]), budget, Timestamp::default())
        };
        let document = |name| registers(name, "").submission.batch.remove(0);
        let stored = form(&Catalog::empty(RegistryId::new("r")), registers("A", "")).catalog;
        let mut waiting = registers("A", "");
        let retired = Proposed::SetLifecycle {
            key: waiting.submission.batch[0].key().clone(),
            state: LifecycleState::Retired,
            notice: Notice::default(),
        };
        waiting.submission.batch.extend([document("B"), retired, document("C")]);
        let before = waiting.submission.batch.clone();
        let Group { commits, members, parsed, .. } = form(&stored, waiting);
        let batch = &members[0].waiting.submission.batch;
        assert_eq!(*batch, before);
        let is_same = |change: usize, document: &Arc<Document>| {
            batch[change].document().is_some_and(|changed| Arc::ptr_eq(changed, document))
        };
        let [b, c] = commits[0].documents() else { panic!("two documents are new") };
        assert!(is_same(1, b) && is_same(3, c));
        assert!(is_same(0, before[0].document().unwrap()), "nothing is registered");
        let names: Vec<_> = parsed.iter().map(|document| document.key().name.as_str()).collect();
        assert_eq!(names, ["B", "C"]);
    }
}
