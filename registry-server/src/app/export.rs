//! The whole catalog as one registry file, for gateways that poll and for backups.
//!
//! Computed at most once a revision, beside the runtime. Deliberately absent: scopes.

use std::sync::Arc;

use bytes::Bytes;
use registry_core::{Catalog, ChainHash, Revision, registry_file};
use tokio::sync::Mutex;

/// The exported file of the latest revision that somebody asked for.
#[derive(Debug, Default)]
pub struct Export(Mutex<Option<(Point, Bytes)>>);

/// Which point in history a file is of: after a restore, a revision may come again.
type Point = (Revision, ChainHash);

impl Export {
    /// The file of this catalog. Whoever comes while it is computed waits for it.
    pub async fn of(&self, catalog: Arc<Catalog>) -> (Point, Bytes) {
        let mut cached = self.0.lock().await;
        if let Some((point, bytes)) = &*cached
            && point.0 >= catalog.revision()
        {
            return (*point, bytes.clone());
        }
        let point = (catalog.revision(), catalog.chain());
        let source = catalog.clone();
        let writing = tokio::task::spawn_blocking(move || registry_file::write_export(&source));
        let written = match writing.await {
            Ok(written) => written,
            // Only a runtime that is going down refuses; then nobody reads this either.
            Err(_) => registry_file::write_export(&catalog),
        };
        let bytes = Bytes::from(written);
        *cached = Some((point, bytes.clone()));
        (point, bytes)
    }
}
