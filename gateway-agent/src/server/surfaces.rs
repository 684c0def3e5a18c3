//! The surfaces for callers, and the operations that continue without their connections.

use std::sync::Arc;

use axum::Router;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::routes::Routes;
use crate::{
    a2a::{A2a, PushConfigs, PushFile, TaskIndex, TaskJournal},
    agent_rpc::AgentRpc,
    batched_file::write_batches,
    mcp::Mcp,
    pipeline::GatewayHandle,
};

/// The surfaces of a running gateway.
pub(super) struct Surfaces {
    mcp: Mcp,
    a2a: A2a,
    agent_rpc: AgentRpc,
    files: JoinHandle<()>,
    stop_files: CancellationToken,
}

impl Surfaces {
    /// Creates the surfaces, and keeps the tasks and push notification configurations of A2A on
    /// disk.
    pub(super) fn start(
        gateway: &GatewayHandle,
        (index, journal): (Arc<TaskIndex>, TaskJournal),
        (configs, file): (Arc<PushConfigs>, PushFile),
    ) -> Self {
        let (mcp, a2a) = (Mcp::new(gateway.clone()), A2a::new(gateway.clone(), index, configs));
        let agent_rpc = AgentRpc::new(gateway.clone());
        let stop_files = CancellationToken::new();
        let stop = stop_files.clone();
        let files = tokio::spawn(async move {
            tokio::join!(write_batches(journal, stop.clone()), write_batches(file, stop));
        });
        Self { mcp, a2a, agent_rpc, files, stop_files }
    }

    /// The routes of the surfaces, and others.
    pub(super) fn routes(&self, others: Router) -> Routes {
        let router = self.mcp.router().merge(self.a2a.router()).merge(self.agent_rpc.router());
        Routes::with_calls(router.merge(others), (self.mcp.clone(), self.a2a.clone()))
    }

    /// Waits until no operation is running.
    pub(super) async fn drained(&self) {
        tokio::join!(self.mcp.drained(), self.a2a.drained());
    }

    /// Cancels the operations that still run, and then writes the last changes of the files.
    pub(super) async fn shutdown(self) {
        tokio::join!(self.mcp.shutdown(), self.a2a.shutdown());
        self.stop_files.cancel();
        // A panic was already logged.
        let _ = self.files.await;
    }
}
