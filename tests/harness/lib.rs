//! Harness of the acceptance tests: the real programs as processes, their clients, a private
//! Postgres, and a proxy that breaks connections.

pub mod access;
pub mod database;
pub mod gateway;
pub mod mcp;
pub mod official;
pub mod postgres;
pub mod process;
pub mod proxy;
pub mod python;
pub mod registry;
pub mod tls;
pub mod websocket;

pub use database::Database;
pub use gateway::{Backend, Gateway, GatewayOptions};
pub use mcp::ModernClient;
pub use official::Official;
pub use process::{Process, binary, root, signal_process};
pub use proxy::FaultProxy;
pub use python::PythonEnvironment;
pub use registry::{CtlOutput, Registry, ctl};
pub use websocket::WebSocket;

use std::time::{Duration, Instant};

/// Polls a condition for up to a minute, and panics with `what` after that.
pub async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl FnMut() -> F) {
    eventually_within(Duration::from_mins(1), what, condition).await;
}

/// Polls a condition with another time limit.
pub async fn eventually_within<F: Future<Output = bool>>(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> F,
) {
    let deadline = Instant::now() + limit;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
