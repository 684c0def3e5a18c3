//! What the MCP registry API answers with.

use std::{fmt, str::FromStr};

use registry_core::{
    chain::Revision,
    document::Digest,
    entity::{Entity, Provision},
    lifecycle::LifecycleState,
    timestamp::{Date, Timestamp},
};
use serde::{Serialize, Serializer};

use super::{ServerDetail, convert, listing::Entry};

/// One version of a server, with what the registry knows of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServerResponse {
    /// The document.
    pub server: ServerDetail,
    /// What the registry adds.
    #[serde(rename = "_meta")]
    pub meta: Meta,
}

/// What the registry adds to a document, by who defines it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Meta {
    /// What the API defines.
    #[serde(rename = "io.modelcontextprotocol.registry/official")]
    pub official: OfficialMeta,
    /// What only this registry has.
    #[serde(rename = "local.registry/entity")]
    pub ours: OurMeta,
}

/// The lifecycle of a version, in the API's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OfficialMeta {
    /// The status.
    pub status: Status,
    /// Why, in at most 500 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status_message: Option<String>,
    /// When the status was last changed.
    pub status_changed_at: Timestamp,
    /// When the version was registered.
    pub published_at: Timestamp,
    /// When anything of it last changed; of an immutable document that is its status.
    pub updated_at: Timestamp,
    /// Whether it is the one version that `latest` stands for.
    pub is_latest: bool,
}

/// What only this registry has: which entity it is, and which tools it provides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OurMeta {
    /// The entity: `server/docs@1.0.0`.
    pub entity: String,
    /// The digest of its canonical document.
    pub digest: Digest,
    /// The revision that registered it.
    pub revision: Revision,
    /// The tool versions that it provides.
    pub tools: Vec<Provision>,
    /// The entity to use instead: `server/docs@2.0.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// The day from which nobody should count on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sunset: Option<Date>,
}

/// The status of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// In use.
    Active,
    /// Usable, but nobody should begin to.
    Deprecated,
    /// Not shown unless asked for.
    Deleted,
}

impl Status {
    const ALL: [Self; 3] = [Self::Active, Self::Deprecated, Self::Deleted];

    /// The status in lower case: `active`.
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

/// A text that is not a status.
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
    /// What is to know of the page.
    pub metadata: ListMetadata,
}

/// How many versions there are on a page, and where the next one is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMetadata {
    /// How many are on this page.
    pub count: usize,
    /// Where to go on; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

impl ServerList {
    /// A page.
    pub fn new(servers: Vec<ServerResponse>, next_cursor: Option<String>) -> Self {
        Self { metadata: ListMetadata { count: servers.len(), next_cursor }, servers }
    }
}

/// The versions of a server whose status was changed together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionsUpdated {
    /// How many.
    pub updated_count: usize,
    /// As they are now.
    pub servers: Vec<ServerResponse>,
}

impl From<&Entry> for ServerResponse {
    fn from(entry: &Entry) -> Self {
        let Entry { name, record, is_latest, changed_at } = entry;
        let (server, tools) = match record.document.entity() {
            Entity::Server(server) => (ServerDetail::of(server, name), server.provides.clone()),
            _ => unreachable!("entries are servers"),
        };
        let status = Status::from(record.lifecycle.state);
        let reason = record.lifecycle.message().filter(|_| status != Status::Active);
        let official = OfficialMeta {
            status,
            status_message: reason
                .filter(|reason| !reason.is_empty())
                .map(|reason| convert::shortened(reason, super::REASON_CHARACTERS)),
            status_changed_at: record.lifecycle.changed_at,
            published_at: record.registered_at,
            updated_at: *changed_at,
            is_latest: *is_latest,
        };
        let ours = OurMeta {
            entity: record.document.key().to_string(),
            digest: record.document.digest(),
            revision: record.registered,
            tools,
            replacement: record.lifecycle.replacement().map(ToString::to_string),
            sunset: record.lifecycle.sunset(),
        };
        Self { server, meta: Meta { official, ours } }
    }
}
