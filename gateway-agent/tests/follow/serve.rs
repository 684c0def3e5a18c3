//! The running gateway: readiness, draining and failed starts.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use gateway_agent::{
    config::{Args, Config},
    server,
    startup::StartupValidation,
};
use registry_core::registry_file::{read_export, write_export};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::{
    disk::{live, place},
    files::{incomplete, plain},
    history::History,
};

struct Running {
    address: SocketAddr,
    stop: CancellationToken,
    ended: JoinHandle<Result<(), server::Error>>,
}

impl Running {
    async fn start(source: &str, cache: &Path) -> Self {
        let yaml = format!("registry: {{ source: '{source}', cache: '{}' }}", cache.display());
        let config = Config::parse(Path::new("test.yaml"), &yaml, &Args::default());
        let config = config.expect("a configuration");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let stop = CancellationToken::new();
        let ended = tokio::spawn(server::run(
            server::EntryPoint::Socket(listener),
            config,
            stop.clone().cancelled_owned(),
        ));
        Self { address, stop, ended }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        let url = format!("http://{}{path}", self.address);
        let response = reqwest::get(url).await.expect("an answer");
        (response.status().as_u16(), response.text().await.expect("a text"))
    }

    async fn readiness(&self) -> (u16, Value) {
        let (status, body) = self.get("/readyz").await;
        (status, serde_json::from_str(&body).expect("JSON"))
    }

    async fn ready(&self) -> Value {
        for _ in 0..500 {
            if let (200, readiness) = self.readiness().await {
                return readiness;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never ready");
    }

    async fn ended(self) -> Result<(), server::Error> {
        let ended = timeout(Duration::from_secs(10), self.ended).await;
        ended.expect("it ends in time").expect("no panic")
    }
}

fn grpc_to_nowhere() -> &'static str {
    "grpc://127.0.0.1:9"
}

#[tokio::test]
async fn file_source_is_served_and_cached() {
    let (dir, cache) = place();
    let file = dir.path().join("source.json");
    fs::write(&file, plain(&["A", "B"])).expect("written");
    let running = Running::start(&format!("file://{}", file.display()), &cache).await;
    let readiness = running.ready().await;
    assert_eq!((&readiness["ready"], &readiness["revision"]), (&true.into(), &1.into()));
    assert_eq!((&readiness["source"], &readiness["entities"]), (&"live".into(), &2.into()));
    assert_eq!(running.get("/livez").await, (200, "ok\n".to_owned()));
    let (_, metrics) = running.get("/metrics").await;
    for metric in ["gateway_catalog_revision 1", "gateway_source_state{state=\"live\"} 1"] {
        assert!(metrics.contains(metric), "no {metric} in\n{metrics}");
    }
    running.stop.cancel();
    running.ended().await.expect("a good end");
    let copy = read_export(&fs::read(&cache).expect("a copy")).expect("it verifies");
    assert_eq!(copy.revision().0, 1);
}

#[tokio::test]
async fn gateway_without_catalog_is_not_ready() {
    let (_dir, cache) = place();
    let running = Running::start(grpc_to_nowhere(), &cache).await;
    let (status, readiness) = running.readiness().await;
    assert_eq!((status, &readiness["reason"]), (503, &"no catalog yet".into()));
    assert_eq!(readiness["ageSeconds"], Value::Null);
    assert_eq!(running.get("/livez").await.0, 200);
    running.stop.cancel();
    running.ended().await.expect("a good end");
    assert!(!cache.exists(), "nothing is not worth a copy");
}

#[tokio::test]
async fn cached_catalog_is_ready_without_registry() {
    let (_dir, cache) = place();
    let history = History::new("r", 4);
    live(&cache, |cache| cache.replace(history.head().clone())).await;
    let running = Running::start(grpc_to_nowhere(), &cache).await;
    let (status, readiness) = running.readiness().await;
    assert_eq!((status, &readiness["revision"]), (200, &4.into()));
    assert_eq!(readiness["persistedRevision"], 4);
    assert!(readiness["ageSeconds"].as_f64().expect("an age") < 60.0);
    running.stop.cancel();
    running.ended().await.expect("a good end");
    assert_eq!(fs::read(&cache).expect("a copy"), write_export(history.head()));
}

#[tokio::test]
async fn invalid_file_or_locked_cache_prevents_start() {
    let (dir, cache) = place();
    let file = dir.path().join("source.json");
    fs::write(&file, incomplete()).expect("written");
    let running = Running::start(&format!("file://{}", file.display()), &cache).await;
    let refused = running.ended().await.expect_err("refused").to_string();
    assert!(refused.contains("provision-unknown"), "{refused}");
    let _held = gateway_agent::cache::Cache::open(&cache, StartupValidation::default());
    let running = Running::start(grpc_to_nowhere(), &cache).await;
    let refused = running.ended().await.expect_err("refused").to_string();
    assert!(refused.contains(&cache.display().to_string()), "{refused}");
}

#[tokio::test]
async fn running_calls_finish_and_idle_connections_close() {
    let (_dir, cache) = place();
    let running = Running::start(grpc_to_nowhere(), &cache).await;
    let mut idle = TcpStream::connect(running.address).await.expect("connected");
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("sent");
    let mut answer = [0; 15];
    idle.read_exact(&mut answer).await.expect("answered");
    let mut busy = TcpStream::connect(running.address).await.expect("connected");
    let head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                 Accept: application/json, text/event-stream\r\nContent-Length: 2\r\n\r\n{";
    busy.write_all(head).await.expect("sent");
    tokio::time::sleep(Duration::from_millis(200)).await;
    running.stop.cancel();
    let refused = async { while TcpStream::connect(running.address).await.is_ok() {} };
    let refused = tokio::time::timeout(Duration::from_secs(5), refused).await;
    assert!(refused.is_ok(), "nothing new is accepted");
    assert!(!running.ended.is_finished(), "a request is under way");
    busy.write_all(b"}").await.expect("sent");
    let mut answer = String::new();
    busy.read_to_string(&mut answer).await.expect("answered");
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    let begun = Instant::now();
    running.ended().await.expect("a good end");
    assert!(begun.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn request_heads_are_limited() {
    let (_dir, cache) = place();
    let running = Running::start(grpc_to_nowhere(), &cache).await;
    for more in [format!("X: {}\r\n", "x".repeat(100_000)), "X: y\r\n".repeat(300)] {
        let mut client = TcpStream::connect(running.address).await.expect("connected");
        let head = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
        // The gateway may close before it has read everything.
        let _ = client.write_all(head.as_bytes()).await;
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.expect("answered");
        assert_eq!(&answer, b"HTTP/1.1 431");
    }
    running.stop.cancel();
    running.ended().await.expect("a good end");
}
