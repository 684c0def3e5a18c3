//! The surfaces for callers, and the operations that continue without their connections.

use std::sync::Arc;

use axum::Router;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{
    a2a::{A2a, TaskIndex, TaskJournal},
    mcp::Mcp,
    pipeline::GatewayHandle,
};

/// The surfaces of a running gateway.
pub(super) struct Surfaces {
    mcp: Mcp,
    a2a: A2a,
    journal: JoinHandle<()>,
    stop_journal: CancellationToken,
}

impl Surfaces {
    /// Creates the surfaces, and keeps the list of A2A tasks on disk.
    pub(super) fn start(
        gateway: &GatewayHandle,
        (index, journal): (Arc<TaskIndex>, TaskJournal),
    ) -> Self {
        let (mcp, a2a) = (Mcp::new(gateway.clone()), A2a::new(gateway.clone(), index));
        let stop_journal = CancellationToken::new();
        let journal = tokio::spawn(journal.run(stop_journal.clone()));
        Self { mcp, a2a, journal, stop_journal }
    }

    pub(super) fn router(&self) -> Router {
        self.mcp.router().merge(self.a2a.router())
    }

    /// Waits until no operation is running.
    pub(super) async fn drained(&self) {
        tokio::join!(self.mcp.drained(), self.a2a.drained());
    }

    /// Cancels the operations that still run, and then writes the last changes of tasks.
    pub(super) async fn shutdown(self) {
        tokio::join!(self.mcp.shutdown(), self.a2a.shutdown());
        self.stop_journal.cancel();
        // A panic was already logged.
        let _ = self.journal.await;
    }
}
