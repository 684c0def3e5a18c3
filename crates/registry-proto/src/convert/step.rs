//! Steps of a scope's part of the catalog.

use std::sync::Arc;

use registry_core::{
    Digest, Record, Scope, catalog::CatalogDelta, chain::Position, reference::InvalidKey,
    scope::InvalidScope,
};

use super::{
    snapshot::{InvalidDigest, InvalidSnapshotEntity, digest},
    sync::InvalidPosition,
};
use crate::v1;

/// A step, and where it leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct PartStep {
    /// Where it leads to.
    pub position: Position,
    /// In which scope that is.
    pub scope: Scope,
    /// What changes.
    pub step: CatalogDelta,
    /// The content digest of what is in scope then.
    pub content: Digest,
}

/// Why a message is not a step.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum InvalidStep {
    /// Where it leads to.
    #[error(transparent)]
    Position(#[from] InvalidPosition),
    /// One of its entities.
    #[error(transparent)]
    Entity(#[from] InvalidSnapshotEntity),
    /// One of the keys that leave.
    #[error(transparent)]
    Key(#[from] InvalidKey),
    /// The scope.
    #[error(transparent)]
    Scope(#[from] InvalidScope),
    /// The digest of the content.
    #[error(transparent)]
    Digest(#[from] InvalidDigest),
}

/// Reads a step; each document is proved by its digest.
pub fn part_step(step: v1::Step) -> Result<PartStep, InvalidStep> {
    let v1::Step { position, entities, removed, content, scope } = step;
    let position = position.ok_or(InvalidPosition::Missing)?.try_into()?;
    let content = digest(&content)?;
    let put = entities.into_iter().map(|entity| Record::try_from(entity).map(Arc::new));
    let step = CatalogDelta {
        put: put.collect::<Result<_, _>>()?,
        removed: removed.iter().map(|key| key.parse()).collect::<Result<_, InvalidKey>>()?,
    };
    let scope = super::scope(scope.unwrap_or_default())?;
    Ok(PartStep { position, scope, step, content })
}
