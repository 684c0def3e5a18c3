//! The use cases, one per file, and their shared types.

pub mod apply;
pub mod approvals;
pub mod audit;
pub mod blame;
pub mod catalogs;
pub mod compare;
pub mod component_users;
pub mod concurrency;
pub mod copy;
pub mod export;
pub mod gateways;
pub mod graph;
pub mod history;
pub mod ledger;
pub mod list;
pub mod page;
mod read_error;
pub mod resolve;
pub mod sbom;
pub mod search;
pub mod settings;
pub mod tokens;

use std::sync::Arc;

use mcp_registry::Namespace;
use registry_core::{Catalog, RegistryId};
use tokio_util::sync::CancellationToken;

use crate::{
    access::Access, clock::Clock, feed::Feed, registrar::Registrar, relay::Relay, store::Store,
};
use catalogs::Catalogs;
use concurrency::ConcurrencyLimit;
pub use read_error::{NoCommit, ReadError};

/// The parts that gRPC and HTTP serve. Each use case receives only the parts that it needs.
pub struct App {
    /// Authentication and authorization.
    pub access: Arc<Access>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The writer.
    pub registrar: Registrar,
    /// Applies batches.
    pub writes: apply::Writes,
    /// The catalog now and at any point in history.
    pub catalogs: Catalogs,
    /// The database.
    pub store: Store,
    /// The ledger of budgets.
    pub ledger: ledger::GatewayLedger,
    /// The approvals of calls.
    pub approvals: approvals::GatewayApprovals,
    /// Sync streams.
    pub feed: Arc<Feed>,
    /// The gateways that follow.
    pub gateways: gateways::Gateways,
    /// The search index.
    pub search: search::Searcher,
    /// The registry whose log this server copies, if it is a relay.
    pub relay: Option<Relay>,
    /// Signs checkpoints, proves commits and verifies the log.
    pub auditor: audit::Auditor,
    /// The exported catalog.
    pub export: export::Export,
    /// The last requested users of a component.
    pub component_users: component_users::Recent,
    /// Slots for writing bills of materials.
    pub sboms: ConcurrencyLimit,
    /// Slots for validating documents of the MCP registry API.
    pub validations: ConcurrencyLimit,
    /// The namespace of MCP servers without one in the MCP registry API.
    pub namespace: Namespace,
    /// Whether the server drains.
    pub draining: CancellationToken,
}

/// Runs long work outside of the async runtime. It fails only if the work panics or the runtime shuts
/// down.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ReadError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|failed| ReadError::Internal(failed.to_string()))
}

impl App {
    /// The current catalog.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalogs.now()
    }

    /// The id of this registry.
    pub fn registry(&self) -> &RegistryId {
        self.store.registry()
    }
}
