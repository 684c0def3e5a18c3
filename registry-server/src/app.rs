//! The use cases, one a file, and what they share.
//!
//! Deliberately absent: transports; gRPC and HTTP call the same functions.

pub mod apply;
pub mod at;
pub mod audit;
pub mod export;
pub mod gateways;
pub mod graph;
pub mod history;
pub mod list;
pub mod page;
pub mod resolve;
pub mod settings;

use std::sync::Arc;

use registry_core::{Catalog, RegistryId};
use tokio_util::sync::CancellationToken;

use crate::{
    feed::{Feed, Hub},
    registrar::Registrar,
    store::Store,
};

/// What every use case works on.
pub struct App {
    /// Writes.
    pub registrar: Registrar,
    /// Reads of the present.
    pub hub: Arc<Hub>,
    /// Reads of the past.
    pub store: Store,
    /// Followers.
    pub feed: Arc<Feed>,
    /// Signs checkpoints.
    pub signer: audit::Signer,
    /// Catalogs of the past.
    pub archive: at::Archive,
    /// The exported catalog.
    pub export: export::Export,
    /// Whether the server is on its way out.
    pub draining: CancellationToken,
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
