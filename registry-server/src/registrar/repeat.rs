//! Idempotency: whether a batch is the one that created the commit with its request id.
//!
//! A commit contains the changes but not the requested batch, so it stores a digest of the batch.

use std::collections::BTreeMap;

use registry_core::{
    Action, Change, Commit, Digest, Notice, SettingChange,
    rules::{Plan, Proposed},
};
use serde::Serialize;

use super::Submission;

/// Content of a request that its digest covers. The message and the base revision are excluded.
#[derive(Serialize)]
struct RequestFingerprint<'a> {
    author: &'a str,
    team: Option<&'a str>,
    changes: Vec<ChangeFingerprint<'a>>,
    settings: &'a [SettingChange],
}

#[derive(Serialize)]
enum ChangeFingerprint<'a> {
    Register(String, Digest),
    SetLifecycle(String, &'static str, &'a Notice),
}

impl<'a> From<&'a Proposed> for ChangeFingerprint<'a> {
    fn from(proposed: &'a Proposed) -> Self {
        let key = proposed.key().to_string();
        match proposed {
            Proposed::Register(document) => Self::Register(key, document.digest()),
            Proposed::SetLifecycle { key: _, state, notice } => {
                Self::SetLifecycle(key, state.as_str(), notice)
            }
        }
    }
}

/// Digest of a request.
pub(super) fn digest(submission: &Submission) -> Digest {
    let fingerprint = RequestFingerprint {
        author: &submission.author,
        team: submission.origin.as_ref().and_then(|origin| origin.team.as_deref()),
        changes: submission.batch.iter().map(ChangeFingerprint::from).collect(),
        settings: &submission.settings,
    };
    // Strings, numbers and lists always serialize.
    Digest::compute(&serde_json::to_vec(&fingerprint).expect("a request is always JSON"))
}

/// Effect of the batch according to its commit; `None` if another batch created the commit.
pub(super) fn committed_plan(commit: &Commit, submission: &Submission) -> Option<Plan> {
    if commit.request_digest != Some(digest(submission)) {
        return None;
    }
    let mut changes = commit.changes.iter().peekable();
    let mut effect = |proposed| changes.next_if(|change| matches(change, proposed)).cloned();
    let effects = submission.batch.iter().map(&mut effect).collect();
    Some(Plan {
        effects,
        settings: commit.settings.clone(),
        diagnostics: Vec::new(),
        policy_breaks: BTreeMap::new(),
    })
}

fn matches(change: &Change, proposed: &Proposed) -> bool {
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
        // A restored entity has no notice.
        (action, Proposed::SetLifecycle { state, notice, .. }) => {
            action.state() == *state && action.notice().is_none_or(|existing| existing == notice)
        }
    }
}
