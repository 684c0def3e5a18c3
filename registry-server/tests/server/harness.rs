//! A server in a temporary directory, with helpers for clients.

use std::{
    net::SocketAddr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use acceptance::registry::checkpoint_key;
use clap::Parser as _;
use futures_util::FutureExt as _;
use registry_core::{ChainHash, RegistryId};
use registry_proto::v1::{
    self, history_service_client::HistoryServiceClient,
    registry_service_client::RegistryServiceClient, sync_service_client::SyncServiceClient,
};
use registry_server::{
    Config, Server,
    clock::{Clock, SystemClock},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::sleep,
};
use tokio_util::sync::CancellationToken;
use tonic::{Status, transport::Channel};
use tonic_types::StatusExt as _;

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    admin: SocketAddr,
    pub(crate) directory: Arc<TempDir>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a new registry with these options.
    pub(crate) async fn with(flags: &[&str]) -> Self {
        Self::on(Arc::new(tempfile::tempdir().unwrap()), flags).await
    }

    /// Starts a server on the database in a directory, or on another one by its options.
    pub(crate) async fn on(directory: Arc<TempDir>, flags: &[&str]) -> Self {
        Self::open(directory, flags, Arc::new(SystemClock)).await
    }

    /// Starts a server with another wall clock.
    pub(crate) async fn with_clock(flags: &[&str], clock: Arc<dyn Clock>) -> Self {
        Self::open(Arc::new(tempfile::tempdir().unwrap()), flags, clock).await
    }

    async fn open(directory: Arc<TempDir>, flags: &[&str], clock: Arc<dyn Clock>) -> Self {
        let config = config(directory.path(), flags);
        let server = Box::pin(Server::open(config, clock)).await.unwrap();
        let admin = server.admin_address().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let serving = tokio::spawn(async move { server.serve(listener, stopped).await.unwrap() });
        Self { address, admin, directory, stop, serving }
    }

    pub(crate) async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn registry(&self) -> RegistryServiceClient<Channel> {
        RegistryServiceClient::new(self.channel().await).max_decoding_message_size(16 << 20)
    }

    pub(crate) async fn history(&self) -> HistoryServiceClient<Channel> {
        HistoryServiceClient::new(self.channel().await)
    }

    pub(crate) async fn sync(&self) -> SyncServiceClient<Channel> {
        SyncServiceClient::new(self.channel().await)
    }

    /// Requests a drain.
    pub(crate) fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Drains and returns the directory for the next server.
    pub(crate) async fn stop(self) -> Arc<TempDir> {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(10), self.serving).await.unwrap().unwrap();
        self.directory
    }
}

fn config(directory: &Path, flags: &[&str]) -> Config {
    let data = directory.to_str().unwrap();
    let admin = ["--admin-listen", "127.0.0.1:0"];
    let mut arguments = vec!["registry-server", "--data-dir", data, admin[0], admin[1]];
    arguments.extend(flags);
    // Servers of one database share the checkpoint key.
    let key = checkpoint_key("postgres:");
    if flags.contains(&"--database") {
        arguments.extend(["--checkpoint-key", key.to_str().unwrap()]);
    }
    if !flags.contains(&"--drain-notice") {
        arguments.extend(["--drain-notice", "20ms"]);
    }
    Config::try_parse_from(arguments).unwrap()
}

/// A schema without references.
pub(crate) fn schema(name: &str, version: &str) -> v1::Entity {
    schema_of(name, version, r#"{"type":"object"}"#)
}

pub(crate) fn schema_of(name: &str, version: &str, schema: &str) -> v1::Entity {
    let schema = v1::Schema {
        name: name.to_owned(),
        version: version.to_owned(),
        schema: schema.to_owned(),
        ..Default::default()
    };
    v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) }
}

/// A server that provides tool versions.
pub(crate) fn server(name: &str, version: &str, provides: &[(&str, &str)]) -> v1::Entity {
    let provides = provides.iter().map(|(tool, version)| v1::ToolProvision {
        tool: (*tool).to_owned(),
        version: (*version).to_owned(),
    });
    let server = v1::Server {
        name: name.to_owned(),
        version: version.to_owned(),
        provides: provides.collect(),
        ..Default::default()
    };
    v1::Entity { kind: Some(v1::entity::Kind::Server(server)) }
}

pub(crate) fn key(kind: v1::EntityKind, name: &str, version: &str) -> v1::EntityKey {
    v1::EntityKey { kind: kind.into(), name: name.to_owned(), version: version.to_owned() }
}

pub(crate) fn register(entity: v1::Entity) -> v1::EntityChange {
    v1::EntityChange {
        change: Some(v1::entity_change::Change::RegisterEntity(entity)),
        if_digest: None,
    }
}

pub(crate) fn set_lifecycle(
    key: v1::EntityKey,
    state: v1::LifecycleState,
    why: &str,
) -> v1::EntityChange {
    let message = Some(why.to_owned()).filter(|why| !why.is_empty());
    let change =
        v1::SetLifecycle { key: Some(key), state: state.into(), message, ..Default::default() };
    v1::EntityChange {
        change: Some(v1::entity_change::Change::SetLifecycle(change)),
        if_digest: None,
    }
}

/// A request with these changes.
pub(crate) fn batch(
    changes: impl IntoIterator<Item = v1::EntityChange>,
) -> v1::ApplyChangesRequest {
    v1::ApplyChangesRequest {
        changes: changes.into_iter().collect(),
        message: "a test".to_owned(),
        author: "ann".to_owned(),
        ..Default::default()
    }
}

/// A request to register a new schema with this name.
pub(crate) fn new_schema(name: &str) -> v1::ApplyChangesRequest {
    batch([register(schema(name, "1.0.0"))])
}

/// Reason in the error details.
pub(crate) fn reason(status: &Status) -> String {
    let info = status.get_details_error_info();
    let info = info.unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "registry");
    info.reason
}

/// Findings of a rejected batch.
pub(crate) fn findings(status: &Status) -> Vec<v1::Diagnostic> {
    use prost::Message as _;
    let whole = tonic_types::pb::Status::decode(status.details()).unwrap();
    let name = "type.googleapis.com/registry.v1.ValidationFailure";
    let detail = whole.details.iter().find(|any| any.type_url == name).unwrap();
    v1::ValidationFailure::decode(&*detail.value).unwrap().diagnostics
}

/// HTTP/1.1 request; returns the status, the headers in lower case, and the body.
pub(crate) async fn get(server: &TestServer, path: &str, header: &str) -> (u16, String, String) {
    get_at(server.address, path, header).await
}

/// HTTP request to the admin address.
pub(crate) async fn get_admin(server: &TestServer, path: &str) -> (u16, String, String) {
    get_at(server.admin, path, "").await
}

async fn get_at(address: SocketAddr, path: &str, header: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let end = if header.is_empty() { "" } else { "\r\n" };
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nconnection: close\r\n{header}{end}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, head.to_lowercase(), body.to_owned())
}

/// Repeats a check until it succeeds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, ask: impl Fn() -> F) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !ask().await {
        assert!(Instant::now() < deadline, "never came true: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Starts calls of a client and returns when the server has accepted them. The server accepts the requests of a
/// connection in order, so the response to a later request proves that.
pub(crate) async fn started<T: Send + 'static>(
    client: &RegistryServiceClient<Channel>,
    calls: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<JoinHandle<T>> {
    let mut calls: Vec<_> = calls.into_iter().map(Box::pin).collect();
    for call in &mut calls {
        assert!(call.as_mut().now_or_never().is_none(), "a call has no response yet");
    }
    client.clone().list_entities(v1::ListEntitiesRequest::default()).await.unwrap();
    calls.into_iter().map(tokio::spawn).collect()
}

/// Reads and verifies the whole log.
pub(crate) async fn proven_log(server: &TestServer) -> Vec<v1::RegistryCommit> {
    let mut client = server.history().await.max_decoding_message_size(16 << 20);
    let (mut log, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = v1::ListCommitsRequest { page_size: 500, page_token, ..Default::default() };
        let page = client.list_commits(request).await.unwrap().into_inner();
        log.extend(page.commits);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let (_, _, file) = get(server, "/registry.json", "").await;
    let file: serde_json::Value = serde_json::from_str(&file).unwrap();
    let registry = RegistryId::new(file["registry"].as_str().unwrap());
    let mut chain = ChainHash::genesis(&registry);
    for (revision, commit) in (1..).zip(&log) {
        assert_eq!(commit.revision, revision, "the log has no gaps");
        let request = v1::GetCommitRequest { revision, include_canonical: true, min_revision: 0 };
        let got = client.get_commit(request).await.unwrap().into_inner().commit.unwrap();
        chain = chain.append(&got.canonical.unwrap());
        assert_eq!((&got.chain, &commit.chain), (&chain.to_string(), &chain.to_string()));
    }
    log
}

/// Opens the SQLite database directly.
pub(crate) async fn connect(registry: &TestServer) -> sqlx::SqliteConnection {
    use sqlx::{ConnectOptions as _, sqlite::SqliteConnectOptions};
    let options =
        SqliteConnectOptions::new().filename(registry.directory.path().join("registry.db"));
    options.connect().await.unwrap()
}

/// Locks the SQLite database, so that writes wait.
pub(crate) async fn lock(registry: &TestServer) -> sqlx::SqliteConnection {
    let mut connection = connect(registry).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
    connection
}
