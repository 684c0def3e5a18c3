//! The Postgres of consecutive histories: a private cluster with a new database for each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acceptance::postgres::{Fsync, PrivateCluster};
use tokio::{runtime::Handle, task::spawn_blocking};

/// A cluster that can be killed and paused. Clones share it.
#[derive(Debug, Clone)]
pub struct Postgres(Arc<Mutex<PrivateCluster>>);

impl Postgres {
    /// Starts a cluster. Commits do not wait for the disk, because only processes are killed, never
    /// the machine.
    pub async fn start() -> Self {
        let start = || PrivateCluster::start(Fsync::Off);
        let cluster = spawn_blocking(start).await.expect("the cluster starts");
        Self(Arc::new(Mutex::new(cluster)))
    }

    /// Creates an empty database and returns its URL.
    pub(crate) async fn create_database(&self, name: &str) -> String {
        let name = name.to_owned();
        self.with(move |cluster| Handle::current().block_on(cluster.create_database(&name))).await
    }

    /// Kills all processes.
    pub(crate) async fn kill_9(&self) {
        self.with(|cluster| Handle::current().block_on(cluster.kill_9())).await;
    }

    /// Restarts the cluster and waits for its recovery.
    pub(crate) async fn restart(&self) {
        self.with(|cluster| Handle::current().block_on(cluster.restart())).await;
    }

    /// Pauses all processes.
    pub(crate) async fn pause(&self) {
        self.with(|cluster| cluster.pause()).await;
    }

    /// Continues all processes.
    pub(crate) async fn resume(&self) {
        self.with(|cluster| cluster.resume()).await;
    }

    async fn with<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut PrivateCluster) -> T + Send + 'static,
    ) -> T {
        let shared = self.clone();
        spawn_blocking(move || what(&mut shared.lock())).await.expect("the cluster obeys")
    }

    fn lock(&self) -> MutexGuard<'_, PrivateCluster> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
