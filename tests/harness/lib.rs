//! The harness of the front-door tests: the real programs as processes, their clients, a private
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

pub use database::Database;
pub use gateway::{Backend, Gateway, GatewayOptions};
pub use mcp::ModernClient;
pub use official::Official;
pub use process::{Process, binary, root, signal_process};
pub use proxy::FaultProxy;
pub use python::PythonEnvironment;
pub use registry::{CtlOutput, Registry, ctl};

use std::time::{Duration, Instant};

/// Asks again until the answer is yes; panics with `what` when it never is.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut ask: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !ask().await {
        assert!(Instant::now() < deadline, "never came true: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
