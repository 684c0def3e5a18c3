//! A real `gateway-agent` process with a configuration of its own, and the demo backend.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{
    process::{Process, binary},
    registry::CtlOutput,
};

/// A process with all demo servers.
#[derive(Debug)]
pub struct Backend {
    /// The backend process.
    pub process: Process,
    _dir: TempDir,
}

/// Registered servers with their versions and paths at the demo backend.
pub const SERVERS: [(&str, &str, &str); 11] = [
    ("document-service", "1.2.0", "documents"),
    ("document-service", "1.3.0", "documents"),
    ("task-service", "1.0.0", "tasks"),
    ("user-service", "1.1.0", "users"),
    ("notification-service", "1.0.0", "notifications"),
    ("fetch-server", "1.2.3", "fetch"),
    ("memory-server", "1.0.0", "memory"),
    ("time-server", "1.0.0", "time"),
    ("inventory-service", "1.0.0", "inventory"),
    ("payment-service", "1.0.0", "payment"),
    ("shipping-service", "1.0.0", "shipping"),
];

impl Backend {
    /// Starts the backend on a free port.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let process = Process::start("demo-backend", dir.path(), |command| {
            command.args(["--listen", "127.0.0.1:0"]);
        });
        Self { process, _dir: dir }
    }

    /// The `targets` block for all servers; the time server runs over stdio.
    pub fn targets(&self) -> String {
        let address = self.process.address();
        let target = |(server, version, path)| {
            let transport = if server == "time-server" {
                let program = binary("demo-backend");
                format!("stdio: {{ command: {}, args: [--stdio, time-server] }}", program.display())
            } else {
                format!("http: \"http://{address}/{path}/mcp\"")
            };
            format!("  - {{ server: {server}, version: {version}, {transport} }}\n")
        };
        let targets: String = SERVERS.into_iter().map(target).collect();
        format!("targets:\n{targets}")
    }

    /// The `targets` block for all agents.
    pub fn agent_targets(&self) -> String {
        let address = self.process.address();
        let url = |path: &str| format!("http: \"http://{address}/agents/{path}\"");
        let token = "headers: { authorization: Bearer demo-orchestrator-token }";
        format!(
            "targets:\n  - {{ agent: research-agent, version: \"*\", {} }}\n  \
             - {{ agent: summarizer-agent, version: 2.0.0, {} }}\n  \
             - {{ agent: orchestrator-agent, version: 1.0.0, {}, {token} }}\n",
            url("research"),
            url("summarizer"),
            url("orchestrator"),
        )
    }
}

/// A `targets` block for all servers at an address without a listener. Their tools are listed, and
/// calls fail.
pub fn unreachable_targets() -> String {
    let names: BTreeSet<_> = SERVERS.into_iter().map(|(server, ..)| server).collect();
    let target = |server| {
        format!("  - {{ server: {server}, version: \"*\", http: \"http://127.0.0.1:1/mcp\" }}\n")
    };
    let targets: String = names.into_iter().map(target).collect();
    format!("targets:\n{targets}")
}

/// Parts of a gateway's configuration.
#[derive(Debug, Clone)]
pub struct GatewayOptions {
    /// `registry.source`.
    pub source: String,
    /// The `targets` block, or nothing.
    pub targets: String,
    /// `registry.validation.runtime` as a flow mapping, or nothing.
    pub runtime: Option<String>,
    /// More top-level YAML, or nothing.
    pub more: String,
}

/// A gateway that can be restarted with the same address and cache.
#[derive(Debug)]
pub struct Gateway {
    /// The running process.
    pub process: Process,
    /// `127.0.0.1:PORT`.
    pub address: String,
    dir: TempDir,
}

impl Gateway {
    /// Starts a gateway with a fresh cache.
    pub fn start(options: &GatewayOptions) -> Self {
        Self::start_with(options, &[])
    }

    /// Starts a gateway with additional arguments.
    pub fn start_with(options: &GatewayOptions, arguments: &[&str]) -> Self {
        Self::start_in(options, (arguments, &[]))
    }

    /// Starts a gateway with additional arguments and environment variables.
    pub fn start_in(
        options: &GatewayOptions,
        (arguments, variables): (&[&str], &[(&str, &str)]),
    ) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        write_config(dir.path(), "127.0.0.1:0", options);
        let process = spawn(dir.path(), (arguments, variables));
        let address = process.address();
        Self { process, address, dir }
    }

    /// Restarts the gateway with the same address and cache, and this configuration.
    pub fn restart(&mut self, options: &GatewayOptions) {
        write_config(self.dir.path(), &self.address, options);
        self.process = spawn(self.dir.path(), (&[], &[]));
    }

    /// Writes another configuration, which the running gateway reloads.
    pub fn configure(&self, options: &GatewayOptions) {
        write_config(self.dir.path(), "127.0.0.1:0", options);
    }

    /// The output of `--check` with its configuration.
    pub fn check(&self) -> CtlOutput {
        let checked = Command::new(binary("gateway-agent"))
            .arg("--config")
            .arg(self.dir.path().join("gateway.yaml"))
            .arg("--check")
            .output()
            .expect("the gateway runs");
        checked.into()
    }

    /// The URL of the admin address, read from the log.
    pub fn admin_url(&self) -> String {
        let lines = self.process.logged(&["INFO gateway_agent::server: ", "address="]);
        let (_, address) =
            lines.last().expect("it is said").split_once("address=").expect("an address");
        format!("http://{}", address.trim())
    }

    /// The response of `/admin/targets`.
    pub async fn targets(&self) -> String {
        let answer = reqwest::get(format!("{}/admin/targets", self.admin_url())).await;
        answer.expect("an answer").text().await.expect("text")
    }

    /// The metrics as text.
    pub async fn metrics(&self) -> String {
        let answer = reqwest::get(format!("{}/metrics", self.url())).await.expect("an answer");
        answer.text().await.expect("text")
    }

    /// Whether the metrics have this line.
    pub async fn has_metric(&self, line: &str) -> bool {
        self.metrics().await.lines().any(|found| found == line)
    }

    /// The number of snapshots that it received from a registry.
    pub fn snapshots(&self) -> usize {
        self.process.logged(&["gateway_agent::sync", " entities="]).len()
    }

    /// The outcome of the last call of a tool in the audit. Waits for the first call.
    pub async fn outcome(&self, tool: &str) -> String {
        let named = format!("tool=\"{tool}\"");
        let last = || self.process.logged(&[" audit: ", &named, " outcome="]).pop();
        crate::eventually("the call is audited", || async { last().is_some() }).await;
        let event = last().expect("an event");
        let (_, rest) = event.split_once(" outcome=\"").expect("an outcome");
        rest.split('"').next().expect("a text").to_owned()
    }

    /// The audit events of calls with this outcome, oldest first.
    pub fn audited(&self, outcome: &str) -> Vec<String> {
        self.process.logged(&[" audit: ", &format!("outcome=\"{outcome}\"")])
    }

    /// The URL of the MCP endpoint.
    pub fn mcp_url(&self) -> String {
        format!("{}/mcp", self.url())
    }

    /// The base URL, with the scheme of the first output line.
    pub fn url(&self) -> String {
        let scheme = if self.process.greeting.contains("https://") { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Waits until the gateway is ready.
    pub async fn ready(&self) {
        let url = format!("http://{}/readyz", self.address);
        crate::eventually("the gateway has a catalog", || async {
            reqwest::get(&url).await.is_ok_and(|answer| answer.status().is_success())
        })
        .await;
    }

    /// Waits until at least this number of targets is up.
    pub async fn upstreams_up(&self, count: usize) {
        let url = format!("{}/metrics", self.url());
        crate::eventually(&format!("{count} targets are up"), || async {
            let Ok(response) = reqwest::get(&url).await else { return false };
            let text = response.text().await.unwrap_or_default();
            let is_up = |line: &&str| {
                line.starts_with("gateway_target_state{")
                    && line.contains("state=\"up\"")
                    && line.ends_with(" 1")
            };
            text.lines().filter(is_up).count() >= count
        })
        .await;
    }

    /// The path of the configuration file.
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("gateway.yaml")
    }

    /// The path of the cache file.
    pub fn cache(&self) -> PathBuf {
        self.dir.path().join("cache/registry-v2.json")
    }
}

fn spawn(dir: &Path, (arguments, variables): (&[&str], &[(&str, &str)])) -> Process {
    Process::start("gateway-agent", dir, |command| {
        command.arg("--config").arg(dir.join("gateway.yaml")).args(arguments);
        command.envs(variables.iter().copied());
    })
}

fn write_config(dir: &Path, listen: &str, options: &GatewayOptions) {
    let cache = dir.join("cache/registry-v2.json");
    let runtime = options
        .runtime
        .as_ref()
        .map(|runtime| format!("  validation:\n    runtime: {runtime}\n"))
        .unwrap_or_default();
    let identity =
        if options.more.contains("identity:") { "" } else { "identity: { trustHeaders: true }\n" };
    let yaml = format!(
        "listen: {listen}\n{identity}registry:\n  source: {}\n  cache: {}\n{runtime}{}{}",
        options.source,
        cache.display(),
        options.targets,
        options.more,
    );
    std::fs::write(dir.join("gateway.yaml"), yaml).expect("the configuration is written");
}
