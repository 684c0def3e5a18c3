//! Commits of the log, to the wire.

use bytes::Bytes;
use registry_core::{Action, ChainHash, Change, Commit, Notice, Origin, SealedCommit};

use super::time::timestamp;
use crate::v1;

/// Writes a commit; `canonical` only where the request asked for it.
pub fn commit(commit: &Commit, chain: &ChainHash, canonical: Option<Bytes>) -> v1::Commit {
    let Commit {
        revision,
        author,
        committed_at,
        message,
        request_id,
        request_digest: _,
        origin,
        changes,
        settings,
    } = commit;
    v1::Commit {
        revision: revision.0,
        author: author.clone(),
        committed_at: Some(timestamp(*committed_at)),
        message: message.clone(),
        request_id: request_id.clone(),
        changes: changes.iter().map(v1::CommittedChange::from).collect(),
        chain: chain.to_string(),
        canonical,
        origin: origin.as_ref().map(v1::Origin::from),
        settings: settings.iter().map(v1::SettingChange::from).collect(),
    }
}

/// Without the canonical commit.
impl From<&SealedCommit> for v1::Commit {
    fn from(sealed: &SealedCommit) -> Self {
        commit(sealed.commit(), &sealed.chain(), None)
    }
}

impl From<&Change> for v1::CommittedChange {
    fn from(Change { key, action }: &Change) -> Self {
        let (digest, owner) = match action {
            Action::Register { digest, owner } => (Some(digest.to_string()), owner.clone()),
            Action::Deprecate(_) | Action::Retire(_) | Action::Restore => (None, None),
        };
        let Notice { message, replacement, sunset, forced } =
            action.notice().cloned().unwrap_or_default();
        Self {
            key: Some(key.into()),
            action: action.as_str().to_owned(),
            digest,
            message,
            replacement: replacement.as_ref().map(Into::into),
            sunset: sunset.map(|date| date.to_string()),
            forced,
            owner,
        }
    }
}

impl From<&Origin> for v1::Origin {
    fn from(Origin { method, team, address }: &Origin) -> Self {
        Self { method: method.clone(), team: team.clone(), address: address.clone() }
    }
}
