//! Writes commits of the log.

use bytes::Bytes;
use registry_core::{Action, ChainHash, Change, Commit, Notice, Origin, SealedCommit};

use super::{authentication::authentication, time::timestamp};
use crate::v1;

/// Writes a commit. `canonical` is set if the request includes it.
pub fn commit(commit: &Commit, chain: &ChainHash, canonical: Option<Bytes>) -> v1::RegistryCommit {
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
    v1::RegistryCommit {
        revision: revision.0,
        author: author.clone(),
        commit_time: Some(timestamp(*committed_at)),
        message: message.clone(),
        request_id: request_id.clone().unwrap_or_default(),
        changes: changes.iter().map(v1::CommittedChange::from).collect(),
        chain: chain.to_string(),
        canonical,
        origin: origin.as_ref().map(v1::CommitOrigin::from),
        settings: settings.iter().map(v1::SettingChange::from).collect(),
    }
}

/// Without the canonical commit.
impl From<&SealedCommit> for v1::RegistryCommit {
    fn from(sealed: &SealedCommit) -> Self {
        commit(sealed.commit(), &sealed.chain(), None)
    }
}

impl From<&Change> for v1::CommittedChange {
    fn from(Change { key, action }: &Change) -> Self {
        let (digest, owner, broken) = match action {
            Action::Register { digest, owner, broken_policies } => {
                (Some(digest.to_string()), owner.clone(), &broken_policies[..])
            }
            Action::Deprecate(_) | Action::Retire(_) | Action::Restore => (None, None, &[][..]),
        };
        let Notice { message, replacement, sunset_date, force_reason } =
            action.notice().cloned().unwrap_or_default();
        Self {
            key: Some(key.into()),
            action: v1::ChangeAction::from(action).into(),
            digest,
            message,
            replacement: replacement.as_ref().map(Into::into),
            sunset_date: sunset_date.map(|date| date.to_string()),
            force_reason,
            owner,
            broken_policies: broken.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Origin> for v1::CommitOrigin {
    fn from(Origin { method, team, address }: &Origin) -> Self {
        Self {
            authentication: Some(authentication(method)),
            team: team.clone(),
            address: address.clone(),
        }
    }
}
