//! Kinds and keys.

use registry_core::{Key, Kind, reference};

use crate::v1;

/// A kind that is missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKind {
    /// `KIND_UNSPECIFIED`, or the field was left out.
    #[error("the kind is missing; set it to schema, server, tool or agent")]
    Unspecified,
    /// A number that this version does not know.
    #[error("{0} is not the number of a kind that this version knows")]
    Unknown(i32),
}

/// Why a message is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEntityKey {
    /// The key was left out.
    #[error("the key is missing")]
    Missing,
    /// Its kind.
    #[error(transparent)]
    Kind(#[from] InvalidKind),
    /// Its name or its version.
    #[error(transparent)]
    Parts(#[from] reference::InvalidKey),
}

impl From<Kind> for v1::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Schema => Self::Schema,
            Kind::Server => Self::Server,
            Kind::Tool => Self::Tool,
            Kind::Agent => Self::Agent,
        }
    }
}

/// Reads a kind that must be given.
pub fn kind(number: i32) -> Result<Kind, InvalidKind> {
    filter_kind(number)?.ok_or(InvalidKind::Unspecified)
}

/// Reads a kind that may be left out, as in the filter of a list.
pub fn filter_kind(number: i32) -> Result<Option<Kind>, InvalidKind> {
    match v1::Kind::try_from(number).map_err(|_| InvalidKind::Unknown(number))? {
        v1::Kind::Unspecified => Ok(None),
        v1::Kind::Schema => Ok(Some(Kind::Schema)),
        v1::Kind::Server => Ok(Some(Kind::Server)),
        v1::Kind::Tool => Ok(Some(Kind::Tool)),
        v1::Kind::Agent => Ok(Some(Kind::Agent)),
    }
}

impl From<&Key> for v1::EntityKey {
    fn from(Key { kind, name, version }: &Key) -> Self {
        Self {
            kind: v1::Kind::from(*kind).into(),
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

/// Reads a key field that must be set.
pub(super) fn required(key: Option<v1::EntityKey>) -> Result<Key, InvalidEntityKey> {
    key.ok_or(InvalidEntityKey::Missing)?.try_into()
}
