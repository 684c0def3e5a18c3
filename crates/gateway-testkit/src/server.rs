//! An HTTP/1.1 server over a socket: it parses requests and writes any bytes as a reply.

use std::{
    collections::BTreeMap,
    future::{Future, pending, ready},
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    task::AbortHandle,
};

use crate::{Reply, json_reply};

/// Separates the pieces of a reply, so that the client reads them one by one.
const BETWEEN_PIECES: Duration = Duration::from_micros(50);

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    /// The method of HTTP.
    pub http_method: String,
    /// The path with its query.
    pub path: String,
    /// The request line and the headers as they arrived, with the empty line.
    pub head: String,
    /// The headers; names are in lower case.
    pub headers: BTreeMap<String, String>,
    /// The body as text.
    pub text: String,
    /// The body as JSON, or `null`.
    pub body: Value,
}

impl Received {
    /// The method of the JSON-RPC message, or an empty string.
    pub fn rpc_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// A response with this result.
    pub fn result(&self, result: &Value) -> Reply {
        json_reply(200, &json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }

    /// A response with this error.
    pub fn error(&self, status: u16, error: &Value) -> Reply {
        json_reply(status, &json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}))
    }

    /// The response to a method that the server does not have.
    pub fn unknown_method(&self) -> Reply {
        self.error(404, &json!({ "code": -32601, "message": "no such method" }))
    }

    /// Whether the request is for an agent card. Gateways send such requests in the background, so
    /// that they are not recorded.
    fn is_for_card(&self) -> bool {
        self.http_method == "GET" && self.path.contains("/.well-known/agent")
    }

    /// Whether the request opens a stream of notifications.
    fn is_listener(&self) -> bool {
        self.http_method == "GET" || self.rpc_method() == "subscriptions/listen"
    }
}

type Handler = dyn Fn(Arc<Received>) -> BoxFuture<'static, Reply> + Send + Sync;

/// A scripted server. It runs until it is stopped, or as long as the runtime.
#[derive(Debug, Clone)]
pub struct Server {
    address: SocketAddr,
    record: Arc<Record>,
    accepting: AbortHandle,
}

/// The requests and connections so far.
#[derive(Debug, Default)]
struct Record {
    seen: Mutex<Vec<Arc<Received>>>,
    connections: AtomicUsize,
    closed_connections: AtomicUsize,
    cut_off: AtomicUsize,
    flooded_bytes: AtomicUsize,
}

impl Server {
    /// Starts a server whose replies do not wait. It refuses streams of notifications and does not
    /// record those requests.
    pub async fn start(handler: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), handler)
    }

    /// The same with a listener of the test.
    pub fn start_on(
        listener: TcpListener,
        handler: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::spawn(listener, false, move |received| ready(handler(&received)))
    }

    /// Starts a server with an asynchronous handler, which gets all requests. It is dropped if the
    /// client closes the connection.
    pub async fn serve<F: Future<Output = Reply> + Send + 'static>(
        handler: impl Fn(Arc<Received>) -> F + Send + Sync + 'static,
    ) -> Self {
        Self::spawn(TcpListener::bind("127.0.0.1:0").await.unwrap(), true, handler)
    }

    fn spawn<F: Future<Output = Reply> + Send + 'static>(
        listener: TcpListener,
        takes_listeners: bool,
        handler: impl Fn(Arc<Received>) -> F + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let record = Arc::<Record>::default();
        let handler: Arc<Handler> = Arc::new(move |received| Box::pin(handler(received)));
        let shared = Arc::clone(&record);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let record = Arc::clone(&shared);
                let connection = Connection {
                    stream: BufReader::new(stream),
                    record,
                    handler: Arc::clone(&handler),
                    takes_listeners,
                };
                let record = Arc::clone(&shared);
                tokio::spawn(async move {
                    connection.run().await;
                    record.closed_connections.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, record, accepting: accepting.abort_handle() }
    }

    /// Stops accepting connections.
    pub fn stop(&self) {
        self.accepting.abort();
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of its MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// All requests of one JSON-RPC method so far.
    pub fn seen(&self, rpc_method: &str) -> Vec<Received> {
        let mut seen = self.all_seen();
        seen.retain(|seen| seen.rpc_method() == rpc_method);
        seen
    }

    /// All requests so far.
    pub fn all_seen(&self) -> Vec<Received> {
        let seen = self.record.seen.lock().unwrap();
        seen.iter().map(|received| Received::clone(received)).collect()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.record.connections.load(Ordering::SeqCst)
    }

    /// The number of connections that ended so far.
    pub fn closed_connections(&self) -> usize {
        self.record.closed_connections.load(Ordering::SeqCst)
    }

    /// The number of connections that the client closed before the end of a reply.
    pub fn cut_off(&self) -> usize {
        self.record.cut_off.load(Ordering::SeqCst)
    }

    /// The number of zeros written by [`Reply::Flood`].
    pub fn flooded_bytes(&self) -> usize {
        self.record.flooded_bytes.load(Ordering::SeqCst)
    }
}

struct Connection {
    stream: BufReader<TcpStream>,
    record: Arc<Record>,
    handler: Arc<Handler>,
    takes_listeners: bool,
}

impl Connection {
    async fn run(mut self) {
        self.stream.get_ref().set_nodelay(true).unwrap();
        while let Some(received) = read_request(&mut self.stream).await {
            if !self.takes_listeners && received.is_listener() {
                let refusal = b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n";
                if self.stream.write_all(refusal).await.is_err() {
                    return;
                }
                continue;
            }
            let received = Arc::new(received);
            let reply = (self.handler)(Arc::clone(&received));
            if !received.is_for_card() {
                self.record.seen.lock().unwrap().push(received);
            }
            let reply = tokio::select! {
                biased;
                reply = reply => reply,
                () = closed(&mut self.stream) => return self.is_cut_off(),
            };
            if !self.write(reply).await {
                return;
            }
        }
    }

    /// Writes a reply. Returns whether the connection stays open.
    async fn write(&mut self, reply: Reply) -> bool {
        let reply = match reply {
            Reply::Late(after, reply) => {
                tokio::time::sleep(after).await;
                *reply
            }
            reply => reply,
        };
        match reply {
            Reply::Late(..) => panic!("a reply has one delay"),
            Reply::Keep(pieces) => {
                for piece in pieces {
                    if self.stream.write_all(&piece).await.is_err() {
                        return false;
                    }
                    tokio::time::sleep(BETWEEN_PIECES).await;
                }
                return true;
            }
            Reply::Stream(mut pieces) => loop {
                let piece = tokio::select! {
                    piece = pieces.next() => piece,
                    () = closed(&mut self.stream) => {
                        self.is_cut_off();
                        return false;
                    }
                };
                let Some(piece) = piece else { return true };
                if self.stream.write_all(&piece).await.is_err() {
                    return false;
                }
            },
            // A client that is gone does not read the rest.
            Reply::Close(bytes) => drop(self.stream.write_all(&bytes).await),
            Reply::Flood(head) => self.flood(&head).await,
            Reply::Hang(bytes) => {
                drop(self.stream.write_all(&bytes).await);
                closed(&mut self.stream).await;
                self.is_cut_off();
            }
            Reply::Reset => self.stream.get_ref().set_zero_linger().unwrap(),
        }
        false
    }

    fn is_cut_off(&self) {
        self.record.cut_off.fetch_add(1, Ordering::SeqCst);
    }

    async fn flood(&mut self, head: &[u8]) {
        drop(self.stream.write_all(head).await);
        let zeros = vec![b'0'; 0x4000];
        while self.stream.write_all(&zeros).await.is_ok() {
            self.record.flooded_bytes.fetch_add(zeros.len(), Ordering::SeqCst);
        }
    }
}

/// Waits until the client closes the connection. A pipelined request stays unread.
async fn closed(stream: &mut BufReader<TcpStream>) {
    if stream.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty()) {
        pending::<()>().await;
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (http_method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let text = String::from_utf8_lossy(&body).into_owned();
    let body = serde_json::from_str(&text).unwrap_or(Value::Null);
    Some(Received { http_method, path, head, headers, text, body })
}
