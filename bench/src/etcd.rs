//! etcd as the peer of the change stream: one process, used over gRPC.
//!
//! The few messages are defined here with etcd's field numbers (`api/etcdserverpb/rpc.proto`). TLS,
//! leases and compaction are not supported.

use std::{
    net::TcpListener,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use acceptance::process::{cpu_seconds, signal_process};
use futures_util::{StreamExt as _, stream};
use registry_proto::codec::Codec;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tonic::{
    Request, Streaming, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel,
};

use crate::{arrivals::Arrivals, load};

/// Watches that are opened concurrently.
const AT_ONCE: usize = 100;

/// An etcd process, stopped when dropped.
pub(crate) struct Etcd {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub(crate) address: String,
    _dir: TempDir,
}

impl Etcd {
    /// Starts an empty etcd, if it is installed.
    pub(crate) async fn start() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let port = || Some(TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port());
        let address = format!("http://127.0.0.1:{}", port()?);
        let peers = format!("http://127.0.0.1:{}", port()?);
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(dir.path())
            .args(["--listen-client-urls", &address, "--advertise-client-urls", &address])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("default={peers}"), "--log-level", "error"])
            .args(["--quota-backend-bytes", "8589934592"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let etcd = Self { child, address, _dir: dir };
        etcd.wait_until_ready().await;
        Some(etcd)
    }

    async fn wait_until_ready(&self) {
        for _ in 0..200 {
            if let Ok(channel) =
                Channel::from_shared(self.address.clone()).expect("sound").connect().await
                && try_put(&channel, "ready", b"").await.is_ok()
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("etcd does not answer at {}", self.address);
    }

    /// Used CPU time in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.child.id())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        signal_process(self.child.id(), "KILL");
        let _ = self.child.wait();
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    key: bytes::Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: bytes::Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestOp {
    #[prost(message, optional, tag = "2")]
    put: Option<PutRequest>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TxnRequest {
    #[prost(message, repeated, tag = "2")]
    success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Done {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WatchCreate {
    #[prost(bytes = "bytes", tag = "1")]
    key: bytes::Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    range_end: bytes::Bytes,
    #[prost(int64, tag = "3")]
    start_revision: i64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    create: Option<WatchCreate>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    key: bytes::Bytes,
    #[prost(int64, tag = "3")]
    mod_revision: i64,
    #[prost(bytes = "bytes", tag = "5")]
    value: bytes::Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Event {
    #[prost(message, optional, tag = "2")]
    kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WatchResponse {
    #[prost(bool, tag = "3")]
    created: bool,
    #[prost(message, repeated, tag = "11")]
    events: Vec<Event>,
}

impl WatchResponse {
    /// The number of changes.
    pub(crate) fn events(&self) -> usize {
        self.events.len()
    }
}

async fn call<T, U>(channel: &Channel, path: &'static str, request: T) -> Result<U, tonic::Status>
where
    T: prost::Message + Send + Sync + 'static,
    U: prost::Message + Default + Send + Sync + 'static,
{
    let mut grpc = Grpc::new(channel.clone());
    grpc.ready().await.map_err(|e| tonic::Status::unavailable(e.to_string()))?;
    let path = PathAndQuery::from_static(path);
    let answer = grpc.unary(Request::new(request), path, Codec::<T, U>::default()).await?;
    Ok(answer.into_inner())
}

fn put_request(key: &str, value: &[u8]) -> PutRequest {
    PutRequest { key: key.to_owned().into(), value: bytes::Bytes::copy_from_slice(value) }
}

async fn try_put(channel: &Channel, key: &str, value: &[u8]) -> Result<i64, tonic::Status> {
    let done: Done = call(channel, "/etcdserverpb.KV/Put", put_request(key, value)).await?;
    Ok(done.header.unwrap_or_default().revision)
}

/// Stores a value and returns the revision.
pub(crate) async fn put(channel: &Channel, key: &str, value: &[u8]) -> i64 {
    try_put(channel, key, value).await.expect("stored")
}

/// Stores a value under each key in one transaction.
pub(crate) async fn put_all(channel: &Channel, keys: &[String], value: &[u8]) {
    let put = |key: &String| RequestOp { put: Some(put_request(key, value)) };
    let request = TxnRequest { success: keys.iter().map(put).collect() };
    let _: Done = call(channel, "/etcdserverpb.KV/Txn", request).await.expect("stored");
}

/// Watches a prefix from a revision, or from now on (0).
pub(crate) async fn watch(
    channel: &Channel,
    prefix: &str,
    start_revision: i64,
) -> Streaming<WatchResponse> {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().expect("a prefix") += 1;
    let create =
        WatchCreate { key: prefix.to_owned().into(), range_end: end.into(), start_revision };
    let requests = stream::iter([WatchRequest { create: Some(create) }]).chain(stream::pending());
    let mut grpc = Grpc::new(channel.clone()).max_decoding_message_size(64 << 20);
    grpc.ready().await.expect("a connection");
    let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
    let codec = Codec::<WatchRequest, WatchResponse>::default();
    let answer = grpc.streaming(Request::new(requests), path, codec).await.expect("a watch");
    let mut responses = answer.into_inner();
    let first = responses.message().await.expect("sound").expect("an answer");
    assert!(first.created, "the watch is there");
    responses
}

/// Watches with one stream each, closed when dropped.
pub(crate) struct Watchers {
    arrivals: Arc<Arrivals<Instant>>,
    count: usize,
    _tasks: JoinSet<()>,
}

impl Watchers {
    /// Opens watches on these connections, each of one prefix.
    pub(crate) async fn open(
        connections: &[Channel],
        count: usize,
        prefix: impl Fn(usize) -> String,
    ) -> Self {
        let arrivals = Arrivals::new();
        let mut tasks = JoinSet::new();
        let open = |number| {
            let (channel, prefix) = (&connections[number % connections.len()], prefix(number));
            async move { watch(channel, &prefix, 0).await }
        };
        let mut opened = stream::iter(0..count).map(open).buffer_unordered(AT_ONCE);
        while let Some(mut responses) = opened.next().await {
            let arrivals = arrivals.clone();
            tasks.spawn(async move {
                while let Ok(Some(response)) = responses.message().await {
                    assert_eq!(response.events(), 1, "one change each");
                    arrivals.push(Instant::now());
                }
            });
        }
        Self { arrivals, count, _tasks: tasks }
    }

    /// Repeats a put and waits for all watches. Returns the delay of each watch.
    pub(crate) async fn latencies(
        &mut self,
        puts: usize,
        put: impl AsyncFn(usize),
    ) -> hdrhistogram::Histogram<u64> {
        let mut latencies = load::histogram();
        for number in 0..puts {
            let since = Instant::now();
            put(number).await;
            for at in self.arrivals.take(self.count).await {
                load::record(&mut latencies, at - since);
            }
        }
        latencies
    }
}
