//! Reads scope deltas, and verifies their documents.

use std::sync::Arc;

use registry_core::{
    Digest, Key, Record, Scope, Selector, catalog::CatalogDelta, chain::Position,
    document::InvalidDigest, scope::InvalidScope, setting::SelectorSettings,
};

use super::{
    key::InvalidEntityKey, setting::InvalidSetting, snapshot::InvalidSnapshotEntity,
    sync::InvalidPosition,
};
use crate::v1;

/// A scope delta with verified documents.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedScopeDelta {
    /// The position after it.
    pub position: Position,
    /// Its scope.
    pub scope: Scope,
    /// The changes.
    pub step: CatalogDelta,
    /// The content digest of the scope after it.
    pub content: Digest,
}

/// An invalid scope delta.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidScopeDelta {
    /// An invalid position.
    #[error(transparent)]
    Position(#[from] InvalidPosition),
    /// An invalid entity.
    #[error(transparent)]
    Entity(#[from] InvalidSnapshotEntity),
    /// An invalid removed key.
    #[error(transparent)]
    Key(#[from] InvalidEntityKey),
    /// An invalid scope.
    #[error(transparent)]
    Scope(#[from] InvalidScope),
    /// An invalid setting.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// An invalid content digest.
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
}

/// Reads a scope delta, and verifies each document by its digest.
pub fn verify_scope_delta(step: v1::ScopeDelta) -> Result<VerifiedScopeDelta, InvalidScopeDelta> {
    let v1::ScopeDelta {
        position,
        entities,
        removed,
        content_digest,
        scope,
        settings,
        removed_settings,
    } = step;
    let position = position.ok_or(InvalidPosition::Missing)?.try_into()?;
    let content = Digest::parse(&content_digest)?;
    let put = entities.into_iter().map(|entity| Record::try_from(entity).map(Arc::new));
    let step = CatalogDelta {
        put: put.collect::<Result<_, _>>()?,
        removed: removed.into_iter().map(Key::try_from).collect::<Result<_, _>>()?,
        settings: changed_settings(settings, &removed_settings)?,
    };
    let scope = super::scope(scope.unwrap_or_default())?;
    Ok(VerifiedScopeDelta { position, scope, step, content })
}

fn changed_settings(
    put: Vec<v1::SettingState>,
    removed: &[String],
) -> Result<Vec<(Selector, Option<SelectorSettings>)>, InvalidSetting> {
    let mut changed: Vec<_> =
        super::settings(put)?.into_iter().map(|(on, set)| (on, Some(set))).collect();
    for target in removed {
        changed.push((target.parse()?, None));
    }
    Ok(changed)
}
