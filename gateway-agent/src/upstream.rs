//! The upstream MCP servers: one target each, kept connected in the background, called only with a
//! permit.
//!
//! Deliberately absent: who may call what (`permit`), and how a failure looks to the caller
//! (`respond`).

mod definitions;
mod error;
mod handshake;
mod header;
mod http;
mod link;
mod message;
mod reply;
mod sse;
mod stdio;
mod target;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, sync::Arc, time::Duration};

use registry_core::Key;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

pub use self::{
    definitions::{Definitions, Tools},
    error::{Breach, Error, Phase},
    message::{Era, TraceContext},
    reply::{ResultType, ToolResult},
    target::{TargetHealth, TargetState},
};
use self::{http::Client, target::Target};
use crate::{
    config::{LimitsConfig, TargetConfig},
    permit::Permit,
};

/// One call of a tool. What is called, the permit says.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolCall<'a> {
    /// An object; none is sent as an empty one.
    pub arguments: Option<&'a RawValue>,
    /// Whose trace the call belongs to.
    pub trace: TraceContext<'a>,
}

/// All configured targets.
#[derive(Debug)]
pub struct Upstreams {
    targets: HashMap<Key, Arc<Target>>,
    definitions: watch::Receiver<Arc<Definitions>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

/// How often things are done, so that tests need not wait.
#[derive(Debug, Clone, Copy)]
struct Timing {
    /// Between two lists of a target that is well.
    relist: Duration,
    /// Before the first new attempt at a target that is not; it doubles.
    retry_first: Duration,
    /// The longest such wait.
    retry_longest: Duration,
    /// How long a child must have lived for its next failure to count as the first.
    stable: Duration,
    /// How long a child may take to end before it is ended.
    grace: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            relist: Duration::from_mins(1),
            retry_first: Duration::from_millis(250),
            retry_longest: Duration::from_secs(30),
            stable: Duration::from_secs(10),
            grace: Duration::from_secs(2),
        }
    }
}

impl Upstreams {
    /// Starts to connect to all targets, in the background, and returns at once. Must be called
    /// inside a runtime.
    pub fn start(targets: &[TargetConfig], limits: LimitsConfig) -> Arc<Self> {
        Self::start_with(targets, limits, Timing::default())
    }

    fn start_with(targets: &[TargetConfig], limits: LimitsConfig, timing: Timing) -> Arc<Self> {
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let client = Client::new(targets, limits, tasks.clone());
        let (publish, definitions) = watch::channel(Arc::new(Definitions::default()));
        let publish = Arc::new(publish);
        let targets = targets
            .iter()
            .map(|config| {
                let start =
                    target::Start { config, limits, timing, stop: &stop, publish: &publish };
                (config.server.clone(), start.start(&client, &tasks))
            })
            .collect();
        let stop_on_drop = stop.clone().drop_guard();
        Arc::new(Self { targets, definitions, tasks, stop, _stop_on_drop: stop_on_drop })
    }

    /// Calls a tool. This is the only way to an upstream. Dropping the future cancels the call
    /// there too.
    pub async fn call(&self, permit: Permit, call: ToolCall<'_>) -> Result<ToolResult, Error> {
        self.run(permit.server(), permit.tool(), call).await
    }

    async fn run(&self, server: &Key, tool: &str, call: ToolCall<'_>) -> Result<ToolResult, Error> {
        let Some(target) = self.targets.get(server) else {
            return Err(Error::NotConfigured { server: server.clone() });
        };
        if self.stop.is_cancelled() {
            let source = "the gateway is stopping".into();
            return Err(Error::Unavailable { target: server.clone(), source });
        }
        target.call(tool, call).await
    }

    /// What every target lists, followed live. It changes only when a list did.
    pub fn definitions(&self) -> watch::Receiver<Arc<Definitions>> {
        self.definitions.clone()
    }

    /// How each target is, in the order of their keys.
    pub fn health(&self) -> Vec<TargetHealth> {
        let mut health: Vec<_> = self.targets.values().map(|target| target.health()).collect();
        health.sort_by(|a, b| a.server.cmp(&b.server));
        health
    }

    /// Ends everything that runs in the background, and every child process. New calls are
    /// refused; those that are under way over HTTP may finish, those to children fail.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
