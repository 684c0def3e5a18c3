//! The whole catalog as one registry file, for gateways that poll and for backups.
//!
//! Computed at most once a revision, beside the runtime. Deliberately absent: scopes.

use std::sync::Arc;

use bytes::Bytes;
use registry_core::{Catalog, Revision, registry_file};
use tokio::sync::Mutex;

/// The exported file of the latest revision that somebody asked for.
#[derive(Debug, Default)]
pub struct Export(Mutex<Option<(Revision, Bytes)>>);

impl Export {
    /// The file of this catalog. Whoever comes while it is computed waits for it.
    pub async fn of(&self, catalog: Arc<Catalog>) -> (Revision, Bytes) {
        let mut cached = self.0.lock().await;
        if let Some((revision, bytes)) = &*cached
            && *revision >= catalog.revision()
        {
            return (*revision, bytes.clone());
        }
        let revision = catalog.revision();
        let source = catalog.clone();
        let writing = tokio::task::spawn_blocking(move || registry_file::write_export(&source));
        let written = match writing.await {
            Ok(written) => written,
            // Only a runtime that is going down refuses; then nobody reads this either.
            Err(_) => registry_file::write_export(&catalog),
        };
        let bytes = Bytes::from(written);
        *cached = Some((revision, bytes.clone()));
        (revision, bytes)
    }
}
