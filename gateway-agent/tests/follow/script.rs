//! A scripted Sync server, and a follower of the gateway.

use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, StreamExt, stream};
use gateway_agent::{
    cache::Cache,
    feed::{Feed, SourceState, Status},
    freshness::{MaxStaleness, StalenessMonitor},
    startup::StartupValidation,
    sync,
};
use registry_core::{Catalog, Revision, Scope};
use registry_follow::{Credentials, Follower, Timing};
use registry_proto::v1::{
    ClientHello, ListGatewaysRequest, ListGatewaysResponse, SyncRequest, SyncResponse,
    sync_request::Message,
    sync_service_server::{SyncService, SyncServiceServer},
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_stream::wrappers::TcpListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status as RpcStatus, Streaming};

/// The script of a stream.
pub(crate) type Answers = Pin<Box<dyn Stream<Item = Result<SyncResponse, RpcStatus>> + Send>>;
type Plan = Arc<dyn Fn(usize, ClientHello) -> Answers + Send + Sync>;

/// Messages, then silence.
pub(crate) fn then_silence(messages: Vec<SyncResponse>) -> Answers {
    Box::pin(stream::iter(messages.into_iter().map(Ok)).chain(stream::pending()))
}

/// Messages, then the end of the stream.
pub(crate) fn then_end(messages: Vec<SyncResponse>) -> Answers {
    Box::pin(stream::iter(messages.into_iter().map(Ok)))
}

pub(crate) fn error(status: RpcStatus) -> Answers {
    Box::pin(stream::iter([Err(status)]))
}

/// The revision in a follower's hello.
pub(crate) fn revision_of(hello: &ClientHello) -> Option<Revision> {
    hello.position.as_ref().map(|position| Revision(position.revision))
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    heard: mpsc::UnboundedReceiver<Message>,
    streams: Arc<AtomicUsize>,
    _task: Aborted,
}

/// A task that ends with the test.
pub(crate) struct Aborted(pub(crate) JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Server {
    /// Starts a server. The plan returns the script of each stream, by its number from 0 and its
    /// hello.
    pub(crate) async fn start(
        plan: impl Fn(usize, ClientHello) -> Answers + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (said, heard) = mpsc::unbounded_channel();
        let streams = Arc::new(AtomicUsize::new(0));
        let service = Scripted { plan: Arc::new(plan), said, streams: streams.clone() };
        let serving = tonic::transport::Server::builder()
            .add_service(SyncServiceServer::new(service))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let task = tokio::spawn(async move { serving.await.expect("it serves") });
        Self { address, heard, streams, _task: Aborted(task) }
    }

    /// The next message of the follower.
    pub(crate) async fn hear(&mut self) -> Message {
        let heard = timeout(Duration::from_secs(10), self.heard.recv()).await;
        heard.expect("a message in time").expect("the server runs")
    }

    /// The next matching message.
    pub(crate) async fn hear_until<T>(&mut self, wanted: impl Fn(&Message) -> Option<T>) -> T {
        loop {
            if let Some(found) = wanted(&self.hear().await) {
                return found;
            }
        }
    }

    /// The number of opened streams.
    pub(crate) fn streams(&self) -> usize {
        self.streams.load(Ordering::SeqCst)
    }
}

struct Scripted {
    plan: Plan,
    said: mpsc::UnboundedSender<Message>,
    streams: Arc<AtomicUsize>,
}

#[tonic::async_trait]
impl SyncService for Scripted {
    type SyncStream = Answers;

    async fn sync(
        &self,
        request: Request<Streaming<SyncRequest>>,
    ) -> Result<Response<Answers>, RpcStatus> {
        let mut requests = request.into_inner();
        let number = self.streams.fetch_add(1, Ordering::SeqCst);
        let first = requests.message().await?.and_then(|request| request.message);
        let Some(Message::Hello(hello)) = first else {
            return Err(RpcStatus::invalid_argument("hello comes first"));
        };
        let _ = self.said.send(Message::Hello(hello.clone()));
        let said = self.said.clone();
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                let _ = said.send(request.message.expect("a message"));
            }
        });
        Ok(Response::new((self.plan)(number, hello)))
    }

    async fn list_gateways(
        &self,
        _request: Request<ListGatewaysRequest>,
    ) -> Result<Response<ListGatewaysResponse>, RpcStatus> {
        Err(RpcStatus::unimplemented("not scripted"))
    }
}

/// A follower with short timeouts.
pub(crate) struct Following {
    pub(crate) cache: Cache,
    pub(crate) status: Status,
    pub(crate) stop: CancellationToken,
    _task: Aborted,
}

pub(crate) fn hurried() -> Timing {
    Timing {
        connect: Duration::from_secs(5),
        silence: Duration::from_secs(20),
        retry_first: Duration::from_millis(10),
        retry_longest: Duration::from_millis(50),
        retry_final: Duration::from_mins(1),
    }
}

impl Following {
    /// Follows an address with a cache.
    pub(crate) fn start(address: SocketAddr, cache: Cache, timing: Timing) -> Self {
        Self::start_at(&[address], cache, timing)
    }

    /// Follows one of several addresses.
    pub(crate) fn start_at(addresses: &[SocketAddr], cache: Cache, timing: Timing) -> Self {
        let (status, stop) =
            (Status::new("test", std::path::Path::new("cache.json")), CancellationToken::new());
        let feed = Feed {
            cache: cache.clone(),
            staleness: StalenessMonitor::new(cache.clone(), MaxStaleness::default()),
            status: status.clone(),
            catalog_verifier: StartupValidation::default().into(),
            stop: stop.clone(),
        };
        let follower = Follower {
            addresses: addresses.iter().map(|address| format!("http://{address}")).collect(),
            credentials: Credentials::default(),
            timing,
            ca_setting: "registry.caFile",
            agent: sync::AGENT,
        };
        let (_, scope) = watch::channel(Scope::Everything);
        let task = tokio::spawn(async move {
            sync::follow(&follower, "gateway-1".to_owned(), feed, scope).await;
        });
        Self { cache, status, stop, _task: Aborted(task) }
    }

    /// Waits until it serves this catalog.
    pub(crate) async fn reaches(&self, catalog: &Catalog) {
        let mut current = self.cache.subscribe();
        let wanted = catalog.digest();
        let reached = current.wait_for(|catalog| catalog.digest() == wanted);
        if timeout(Duration::from_secs(20), reached).await.is_err() {
            let now = self.cache.current().revision();
            panic!(
                "stuck at {now} on the way to {}: {:?}",
                catalog.revision(),
                self.status.report()
            );
        }
    }

    /// Waits for a state of the source.
    pub(crate) async fn is(&self, state: SourceState) {
        for _ in 0..1000 {
            if self.status.report().state == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never {state}: {:?}", self.status.report());
    }
}
