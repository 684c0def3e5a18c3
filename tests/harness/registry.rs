//! A real `registry-server` process, its gRPC clients, and `registryctl`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use registry_proto::v1::{
    self, discovery_service_client::DiscoveryServiceClient,
    graph_service_client::GraphServiceClient, history_service_client::HistoryServiceClient,
    registry_service_client::RegistryServiceClient, sbom_service_client::SbomServiceClient,
    sync_service_client::SyncServiceClient,
};
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::process::{Process, binary, root};

/// A registry server that can be restarted with the same address and database.
#[derive(Debug)]
pub struct Registry {
    /// The running process.
    pub process: Process,
    /// `127.0.0.1:PORT`.
    pub address: String,
    database: String,
    dir: PathBuf,
    flags: Vec<String>,
    _owned: Option<TempDir>,
}

impl Registry {
    /// Starts a registry on a new SQLite database.
    pub fn start() -> Self {
        Self::start_fresh(&[])
    }

    /// Starts a registry on a new SQLite database with flags.
    pub fn start_fresh(flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let database = format!("sqlite:{}", dir.path().join("registry.db").display());
        let path = dir.path().to_path_buf();
        Self::start_at("127.0.0.1:0", (&database, flags), path, Some(dir))
    }

    /// Starts a registry on an existing database.
    pub fn start_on(database: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().to_path_buf();
        Self::start_at("127.0.0.1:0", (database, &[]), path, Some(dir))
    }

    /// Starts a registry on an existing database with flags.
    pub fn start_with(database: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().to_path_buf();
        Self::start_at("127.0.0.1:0", (database, flags), path, Some(dir))
    }

    /// Starts a relay of this registry with its own database.
    pub fn start_relay(&self, flags: &[&str]) -> Self {
        Self::start_relay_of(&self.address, flags)
    }

    /// Starts a relay of these addresses with its own database.
    pub fn start_relay_of(addresses: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let database = format!("sqlite:{}", dir.path().join("registry.db").display());
        let follow = format!("grpc://{addresses}");
        let flags = [&["--follow", &follow], flags].concat();
        let path = dir.path().to_path_buf();
        Self::start_at("127.0.0.1:0", (&database, &flags), path, Some(dir))
    }

    fn start_at(
        listen: &str,
        (database, flags): (&str, &[&str]),
        dir: PathBuf,
        owned: Option<TempDir>,
    ) -> Self {
        let process = Process::start("registry-server", &dir, |command| {
            configure(command, listen, database, &dir);
            command.args(flags);
        });
        let address = process.address();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Self { process, address, database: database.to_owned(), dir, flags, _owned: owned }
    }

    /// Restarts the server with the same address and database.
    pub fn restart(&mut self) {
        self.process = Process::start("registry-server", &self.dir, |command| {
            configure(command, &self.address, &self.database, &self.dir);
            command.args(&self.flags);
        });
    }

    /// The URL of its database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The base URL.
    pub fn url(&self) -> String {
        let scheme = if self.process.greeting.contains("https://") { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The admin address, read from the log.
    pub fn admin_address(&self) -> String {
        // After a restart, the last line belongs to the running process.
        let lines = self.process.logged(&["INFO registry_server::server: ", "address="]);
        let line = lines.last().expect("it logs its admin address");
        let (_, address) = line.split_once("address=").expect("an address");
        address.trim().to_owned()
    }

    /// The metrics as text.
    pub async fn metrics(&self) -> String {
        let url = format!("http://{}/metrics", self.admin_address());
        reqwest::get(url).await.expect("it answers").text().await.expect("text")
    }

    /// Connects to the server.
    pub async fn channel(&self) -> Channel {
        Channel::from_shared(self.url())
            .expect("an address")
            .connect()
            .await
            .expect("the registry accepts connections")
    }

    /// A client of the registry service.
    pub async fn client(&self) -> RegistryServiceClient<Channel> {
        RegistryServiceClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    /// A client of the history service.
    pub async fn history(&self) -> HistoryServiceClient<Channel> {
        HistoryServiceClient::new(self.channel().await)
    }

    /// A client of the graph service.
    pub async fn graph(&self) -> GraphServiceClient<Channel> {
        GraphServiceClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    /// A client of the discovery service.
    pub async fn discovery(&self) -> DiscoveryServiceClient<Channel> {
        DiscoveryServiceClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    /// A client of the sync service.
    pub async fn sync(&self) -> SyncServiceClient<Channel> {
        SyncServiceClient::new(self.channel().await).max_decoding_message_size(64 << 20)
    }

    /// A client of the SBOM service.
    pub async fn sbom(&self) -> SbomServiceClient<Channel> {
        SbomServiceClient::new(self.channel().await)
    }

    /// Runs `registryctl` with this registry in the root of the checkout.
    pub fn ctl(&self, arguments: &[&str]) -> CtlOutput {
        ctl(&self.url(), arguments)
    }

    /// Runs `registryctl`, which must succeed, and returns standard output.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.ctl(arguments);
        assert!(output.success(), "{arguments:?}: {output:?}");
        output.stdout
    }

    /// Runs `registryctl` with `--output json`, which must succeed.
    pub fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let shown = self.run(&[arguments, &["--output", "json"]].concat());
        serde_json::from_str(&shown).unwrap_or_else(|e| panic!("{e}: {shown}"))
    }

    /// Applies a registry file, which must succeed.
    pub fn apply_file(&self, file: &Path) {
        let file = file.to_str().expect("a UTF-8 path");
        let applied = self.ctl(&["apply", "-f", file, "--yes"]);
        assert!(applied.success(), "apply {file}:\n{}\n{}", applied.stdout, applied.stderr);
    }

    /// Applies the example, which must succeed.
    pub fn apply_example(&self) {
        self.apply_file(&root().join("examples/registry-v2.json"));
    }

    /// The current revision, over the API.
    pub async fn revision(&self) -> u64 {
        let request = v1::ListEntitiesRequest { page_size: 1, ..Default::default() };
        self.client()
            .await
            .list_entities(request)
            .await
            .expect("list answers")
            .into_inner()
            .revision
    }
}

fn configure(command: &mut Command, listen: &str, database: &str, dir: &Path) {
    command.env("REGISTRY_CHECKPOINT_KEY", checkpoint_key(database));
    // Less than the time limit of a test for an exit.
    command.env("REGISTRY_DRAIN_TIMEOUT", "20s");
    command.env("REGISTRY_ADMIN_LISTEN", "127.0.0.1:0");
    command.args(["--listen", listen, "--database", database]).arg("--data-dir").arg(dir);
}

/// The checkpoint key of a database: next to a SQLite file, or one for all Postgres databases of the
/// test run.
pub fn checkpoint_key(database: &str) -> PathBuf {
    let beside = match database.strip_prefix("sqlite:") {
        Some(file) => PathBuf::from(file),
        None => std::env::current_exe().expect("the running program has a path"),
    };
    beside.with_file_name("checkpoint.key")
}

/// The output of `registryctl`.
#[derive(Debug)]
pub struct CtlOutput {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl CtlOutput {
    /// Standard output as JSON. Panics if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Whether standard error has a finding or an error with this code, as in `error[not-owner]: …`.
    pub fn has_code(&self, code: &str) -> bool {
        self.stderr.contains(&format!("[{code}]: "))
    }

    /// Whether the exit code is 0.
    pub fn success(&self) -> bool {
        self.code == 0
    }
}

impl From<Output> for CtlOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs `registryctl` with a registry URL in the root of the checkout.
pub fn ctl(registry: &str, arguments: &[&str]) -> CtlOutput {
    Command::new(binary("registryctl"))
        .args(["--registry", registry])
        .args(arguments)
        .current_dir(root())
        .output()
        .expect("registryctl runs")
        .into()
}
