//! Retries: whether a batch is the one that a commit with its request id was made of.
//!
//! A commit lists what it changed, not what was asked. So each wanted change must either be in the
//! commit, in order, or have been true before it. Deliberately absent: finding the commit.

use registry_core::{
    Action, Catalog, Change, Commit,
    rules::{Plan, Proposed},
};

use super::Submission;

/// What the commit did for each change of the batch; `None` if the commit was made of another one.
pub(super) fn plan_of(commit: &Commit, wanted: &Submission, catalog: &Catalog) -> Option<Plan> {
    let batch = &wanted.batch;
    let mut made = commit.changes.iter().peekable();
    let mut effects = Vec::with_capacity(batch.len());
    for proposed in batch {
        let effect = made.next_if(|change| is_of(change, proposed)).cloned();
        if effect.is_none() && !was_so_before(proposed, commit, catalog) {
            return None;
        }
        effects.push(effect);
    }
    // A setting that is not in the commit is believed to have been so before it.
    let mut set = wanted.settings.iter();
    let is_whole =
        made.next().is_none() && commit.settings.iter().all(|made| set.any(|want| want == made));
    let settings = commit.settings.clone();
    is_whole.then(|| Plan { effects, settings, diagnostics: Vec::new() })
}

fn is_of(change: &Change, proposed: &Proposed) -> bool {
    if change.key != *proposed.key() {
        return false;
    }
    match (&change.action, proposed) {
        (Action::Register { digest, .. }, Proposed::Register(document)) => {
            *digest == document.digest()
        }
        (Action::Register { .. }, Proposed::SetLifecycle { .. }) | (_, Proposed::Register(_)) => {
            false
        }
        // A restoration keeps no notice.
        (action, Proposed::SetLifecycle { state, notice, .. }) => {
            action.state() == *state && action.notice().is_none_or(|said| said == notice)
        }
    }
}

/// Whether the commit had nothing to do for this change. Of lifecycles only the present is known,
/// so where that has changed with the commit or since, the batch is believed.
fn was_so_before(proposed: &Proposed, commit: &Commit, catalog: &Catalog) -> bool {
    let Some(record) = catalog.find(proposed.key()) else { return false };
    match proposed {
        Proposed::Register(document) => {
            record.registered <= commit.revision && record.document.digest() == document.digest()
        }
        Proposed::SetLifecycle { state, notice, .. } => {
            let now = &record.lifecycle;
            let is_so = now.is(*state, notice);
            record.registered <= commit.revision && (is_so || now.revision >= commit.revision)
        }
    }
}
