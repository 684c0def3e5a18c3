//! Converts kinds and keys.

use registry_core::{Key, Kind, Name, Version, reference};

use crate::v1;

/// A kind that is missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKind {
    /// `ENTITY_KIND_UNSPECIFIED`, or an absent field.
    #[error("the kind is missing; set it to schema, server, tool, agent or policy")]
    Unspecified,
    /// An unknown number.
    #[error("unknown kind {0}")]
    Unknown(i32),
}

/// An invalid key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntityKey {
    /// The key is absent.
    #[error("the key is missing")]
    Missing,
    /// An invalid kind.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// An invalid name or version.
    #[error(transparent)]
    Parts(#[from] reference::InvalidKey),
}

impl From<Kind> for v1::EntityKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Schema => Self::Schema,
            Kind::Server => Self::Server,
            Kind::Tool => Self::Tool,
            Kind::Agent => Self::Agent,
            Kind::Policy => Self::Policy,
        }
    }
}

/// Reads a required kind.
pub fn kind(number: i32) -> Result<Kind, InvalidKind> {
    filter_kind(number)?.ok_or(InvalidKind::Unspecified)
}

/// Reads an optional kind.
pub fn filter_kind(number: i32) -> Result<Option<Kind>, InvalidKind> {
    match v1::EntityKind::try_from(number).map_err(|_| InvalidKind::Unknown(number))? {
        v1::EntityKind::Unspecified => Ok(None),
        v1::EntityKind::Schema => Ok(Some(Kind::Schema)),
        v1::EntityKind::Server => Ok(Some(Kind::Server)),
        v1::EntityKind::Tool => Ok(Some(Kind::Tool)),
        v1::EntityKind::Agent => Ok(Some(Kind::Agent)),
        v1::EntityKind::Policy => Ok(Some(Kind::Policy)),
    }
}

/// Writes a selector. Without a name it selects a kind, without a version all versions of a name.
pub fn selector(kind: Kind, name: Option<&Name>, version: Option<&Version>) -> v1::EntitySelector {
    v1::EntitySelector {
        kind: v1::EntityKind::from(kind).into(),
        name: name.map(ToString::to_string).unwrap_or_default(),
        version: version.map(ToString::to_string).unwrap_or_default(),
    }
}

impl From<&Key> for v1::EntityKey {
    fn from(Key { kind, name, version }: &Key) -> Self {
        Self {
            kind: v1::EntityKind::from(*kind).into(),
            name: name.to_string(),
            version: version.to_string(),
        }
    }
}

impl TryFrom<v1::EntityKey> for Key {
    type Error = InvalidEntityKey;

    fn try_from(message: v1::EntityKey) -> Result<Self, InvalidEntityKey> {
        let v1::EntityKey { kind: number, name, version } = message;
        Ok(Self::parse(kind(number)?, &name, &version)?)
    }
}

/// Reads a required key.
pub(super) fn required(key: Option<v1::EntityKey>) -> Result<Key, InvalidEntityKey> {
    key.ok_or(InvalidEntityKey::Missing)?.try_into()
}
