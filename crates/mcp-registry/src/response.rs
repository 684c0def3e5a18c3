//! Responses of the MCP registry API.

use std::{fmt, str::FromStr};

use registry_core::{
    chain::Revision,
    document::Digest,
    entity::{Entity, Provision},
    lifecycle::LifecycleState,
    timestamp::{Date, Timestamp},
};
use serde::{Serialize, Serializer};

use crate::{convert, detail::ServerDetail, listing::Entry};

/// One version of a server with the registry's metadata.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerResponse {
    /// The document.
    pub server: ServerDetail,
    /// The registry's metadata.
    #[serde(rename = "_meta")]
    pub meta: Meta,
}

/// Metadata of the registry, by namespace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Meta {
    /// Metadata defined by the API.
    #[serde(rename = "io.modelcontextprotocol.registry/official")]
    pub official: OfficialMeta,
    /// Metadata specific to this registry.
    #[serde(rename = "local.registry/entity")]
    pub ours: RegistryMeta,
}

/// The lifecycle of a version in terms of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfficialMeta {
    /// The status.
    pub status: Status,
    /// The reason, in at most 500 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// The time of the last status change.
    pub status_changed_at: Timestamp,
    /// The time of registration.
    pub published_at: Timestamp,
    /// The time of the last change. Documents are immutable, so only the status changes.
    pub updated_at: Timestamp,
    /// Whether it is the latest version.
    pub is_latest: bool,
}

/// Metadata specific to this registry: the entity and its tools.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RegistryMeta {
    /// The key of the entity: `server/docs@1.0.0`.
    pub entity: String,
    /// The digest of its canonical document.
    pub digest: Digest,
    /// The revision that registered it.
    pub revision: Revision,
    /// The tool versions that it provides.
    pub tools: Vec<Provision>,
    /// The recommended replacement: `server/docs@2.0.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// The sunset date: the server may be removed on or after this day (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sunset_date: Option<Date>,
}

/// The status of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Without restrictions.
    Active,
    /// Usable, but discouraged.
    Deprecated,
    /// Hidden unless requested.
    Deleted,
}

impl Status {
    const ALL: [Self; 3] = [Self::Active, Self::Deprecated, Self::Deleted];

    /// The name in lower case: `active`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Deprecated => "deprecated",
            Self::Deleted => "deleted",
        }
    }
}

impl From<LifecycleState> for Status {
    fn from(state: LifecycleState) -> Self {
        match state {
            LifecycleState::Active => Self::Active,
            LifecycleState::Deprecated => Self::Deprecated,
            LifecycleState::Retired => Self::Deleted,
        }
    }
}

impl From<Status> for LifecycleState {
    fn from(status: Status) -> Self {
        match status {
            Status::Active => Self::Active,
            Status::Deprecated => Self::Deprecated,
            Status::Deleted => Self::Retired,
        }
    }
}

/// The text is not a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a status; the statuses are active, deprecated and deleted")]
pub struct InvalidStatus(String);

impl FromStr for Status {
    type Err = InvalidStatus;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| InvalidStatus(text.chars().take(64).collect()))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A page of versions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerList {
    /// The versions.
    pub servers: Vec<ServerResponse>,
    /// The metadata of the page.
    pub metadata: ListMetadata,
}

/// The size of a page and its continuation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMetadata {
    /// The number of versions on this page.
    pub count: usize,
    /// The cursor of the next page; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl ServerList {
    /// A page of these versions.
    pub fn new(servers: Vec<ServerResponse>, next_cursor: Option<String>) -> Self {
        Self { metadata: ListMetadata { count: servers.len(), next_cursor }, servers }
    }
}

/// The versions of a server after a common status change.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionsUpdated {
    /// The number of versions.
    pub updated_count: usize,
    /// The versions after the change.
    pub servers: Vec<ServerResponse>,
}

impl From<&Entry> for ServerResponse {
    fn from(entry: &Entry) -> Self {
        let Entry { name, record, is_latest, changed_at } = entry;
        let (server, tools) = match record.document.entity() {
            Entity::Server(server) => {
                (ServerDetail::from_server(server, name), server.provides.clone())
            }
            _ => unreachable!("entries are servers"),
        };
        let status = Status::from(record.lifecycle.state);
        let reason = record.lifecycle.message().filter(|_| status != Status::Active);
        let official = OfficialMeta {
            status,
            status_message: reason
                .filter(|reason| !reason.is_empty())
                .map(|reason| convert::shortened(reason, crate::detail::REASON_CHARACTERS)),
            status_changed_at: record.lifecycle.changed_at,
            published_at: record.registered_at,
            updated_at: *changed_at,
            is_latest: *is_latest,
        };
        let ours = RegistryMeta {
            entity: record.document.key().to_string(),
            digest: record.document.digest(),
            revision: record.registered,
            tools,
            replacement: record.lifecycle.replacement().map(ToString::to_string),
            sunset_date: record.lifecycle.sunset_date(),
        };
        Self { server, meta: Meta { official, ours } }
    }
}
