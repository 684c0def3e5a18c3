//! The use cases, one a file, and what they share.
//!
//! Deliberately absent: transports; gRPC and HTTP call the same functions.

pub mod apply;
pub mod at;
pub mod audit;
pub mod blame;
pub mod compare;
pub mod copy;
pub mod export;
pub mod gateways;
pub mod graph;
pub mod history;
pub mod list;
pub mod page;
pub mod resolve;
pub mod sbom;
pub mod search;
pub mod settings;
pub mod tokens;
pub mod turns;
pub mod who_has;

use std::sync::Arc;

use mcp_registry::Namespace;
use registry_core::{Catalog, RegistryId};
use tokio_util::sync::CancellationToken;

use crate::{
    access::Access,
    clock::Clock,
    feed::{Feed, Hub},
    registrar::Registrar,
    relay::Relay,
    store::Store,
};
use turns::Turns;

/// What every use case works on.
pub struct App {
    /// Who may call what.
    pub access: Arc<Access>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Writes.
    pub registrar: Registrar,
    /// Reads of the present.
    pub hub: Arc<Hub>,
    /// Reads of the past.
    pub store: Store,
    /// Followers.
    pub feed: Arc<Feed>,
    /// The search index.
    pub search: search::Searcher,
    /// The registry whose log this server copies, if it is a relay.
    pub relay: Option<Relay>,
    /// Signs checkpoints.
    pub signer: audit::Signer,
    /// Catalogs of the past.
    pub archive: at::Archive,
    /// The exported catalog.
    pub export: export::Export,
    /// Who contained what was asked for last.
    pub holders: who_has::Recent,
    /// Bills of materials in the making.
    pub sboms: Turns,
    /// Dry runs in the making.
    pub rehearsals: Turns,
    /// Documents of the MCP registry API that are only checked.
    pub validations: Turns,
    /// Under which namespace MCP servers without one are served to MCP clients.
    pub namespace: Namespace,
    /// Whether the server is on its way out.
    pub draining: CancellationToken,
}

/// Does long work where it does not hold up others. It fails only where the work panics, or the
/// runtime is going down; `internal` makes the use case's error of that.
async fn beside<T: Send + 'static, E>(
    work: impl FnOnce() -> T + Send + 'static,
    internal: impl FnOnce(String) -> E,
) -> Result<T, E> {
    tokio::task::spawn_blocking(work).await.map_err(|failed| internal(failed.to_string()))
}

impl App {
    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.hub.catalog()
    }

    /// Which registry this is.
    pub fn registry(&self) -> &RegistryId {
        self.store.registry()
    }
}
