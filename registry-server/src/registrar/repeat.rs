//! Retries: whether a batch is the one that a commit with its request id was made of.
//!
//! A commit lists its changes but not the requested batch, so it keeps a digest of the batch.

use registry_core::{
    Action, Change, Commit, Digest, Notice, SettingChange,
    rules::{Plan, Proposed},
};
use serde::Serialize;

use super::Submission;

/// What is asked for, and by whom. The reason and the base revision do not make it another request.
#[derive(Serialize)]
struct Asked<'a> {
    author: &'a str,
    team: Option<&'a str>,
    changes: Vec<Wanted<'a>>,
    settings: &'a [SettingChange],
}

#[derive(Serialize)]
enum Wanted<'a> {
    Register(String, Digest),
    SetLifecycle(String, &'static str, &'a Notice),
}

impl<'a> From<&'a Proposed> for Wanted<'a> {
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

/// The digest of a request.
pub(super) fn digest(submission: &Submission) -> Digest {
    let asked = Asked {
        author: &submission.author,
        team: submission.origin.as_ref().and_then(|origin| origin.team.as_deref()),
        changes: submission.batch.iter().map(Wanted::from).collect(),
        settings: &submission.settings,
    };
    // It is strings, numbers and lists of them, all of which serialize.
    Digest::compute(&serde_json::to_vec(&asked).expect("a request is always JSON"))
}

/// What the commit did for each change of the batch; `None` if the commit was made of another one.
pub(super) fn plan_of(commit: &Commit, wanted: &Submission) -> Option<Plan> {
    if commit.request_digest != Some(digest(wanted)) {
        return None;
    }
    let mut made = commit.changes.iter().peekable();
    let mut effect = |proposed| made.next_if(|change| is_of(change, proposed)).cloned();
    let effects = wanted.batch.iter().map(&mut effect).collect();
    Some(Plan { effects, settings: commit.settings.clone(), diagnostics: Vec::new() })
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
