//! A far side made of a socket: it reads requests, and writes whatever bytes a test wants.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{Addresses, TransportConfig, secret::SecretSource};

/// One request as it came.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) http_method: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Value,
}

impl Seen {
    pub(super) fn rpc_method(&self) -> &str {
        self.body["method"].as_str().unwrap_or("")
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// A response with this result.
    pub(super) fn result(&self, result: &Value) -> Reply {
        json_reply(200, &json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result}))
    }

    /// A response with this error.
    pub(super) fn error(&self, status: u16, error: &Value) -> Reply {
        json_reply(status, &json!({"jsonrpc": "2.0", "id": self.body["id"], "error": error}))
    }
}

/// What is done with a connection after a request.
#[derive(Debug, Clone)]
pub(super) enum Reply {
    /// These pieces are written one by one.
    Keep(Vec<Vec<u8>>),
    /// These bytes, and then the connection is closed.
    Close(Vec<u8>),
    /// This head, and then zeros without end.
    Flood(Vec<u8>),
    /// Nothing, until the other side closes.
    Stall,
    /// These pieces, after a while.
    Late(Duration, Vec<Vec<u8>>),
}

pub(super) fn json_reply(status: u16, body: &Value) -> Reply {
    raw_reply(status, "application/json", body.to_string().as_bytes())
}

pub(super) fn raw_reply(status: u16, media_type: &str, body: &[u8]) -> Reply {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {media_type}\r\ncontent-length: {length}\r\n\r\n"
    );
    Reply::Keep(vec![[head.as_bytes(), body].concat()])
}

/// The same reply, after a while.
pub(super) fn late(after: Duration, reply: Reply) -> Reply {
    let Reply::Keep(pieces) = reply else { panic!("only what is whole comes late") };
    Reply::Late(after, pieces)
}

/// An event stream in these pieces.
pub(super) fn sse_reply<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Reply {
    let head =
        "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut written = vec![head.as_bytes().to_vec()];
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        written.push([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat());
    }
    written.push(b"0\r\n\r\n".to_vec());
    Reply::Keep(written)
}

type Handler = dyn Fn(&Seen) -> Reply + Send + Sync;

/// The far side.
pub(super) struct Fake {
    pub(super) address: std::net::SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    handler: Box<Handler>,
    seen: Mutex<Vec<Seen>>,
    connections: AtomicUsize,
    cut_off: AtomicUsize,
    flooded_bytes: AtomicUsize,
}

impl Fake {
    /// Starts a far side that answers as the handler says.
    pub(super) async fn start(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap(), handler)
    }

    pub(super) fn start_on(
        listener: TcpListener,
        handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let inner = Arc::new(Inner {
            handler: Box::new(handler),
            seen: Mutex::default(),
            connections: AtomicUsize::default(),
            cut_off: AtomicUsize::default(),
            flooded_bytes: AtomicUsize::default(),
        });
        let shared = Arc::clone(&inner);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(Arc::clone(&shared).serve(stream));
            }
        });
        Self { address, inner }
    }

    /// A modern far side: the tool `t` is listed, and calls are answered as the handler says.
    pub(super) async fn modern(call: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(move |seen| modern_basics(seen).unwrap_or_else(|| call(seen))).await
    }

    /// A legacy far side with sessions: the tool `t` is listed, and calls are answered as the
    /// handler says.
    pub(super) async fn legacy(call: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(move |seen| legacy_basics(seen).unwrap_or_else(|| call(seen))).await
    }

    pub(super) fn transport(&self) -> TransportConfig {
        let ours = SecretSource::text("Bearer ours");
        let headers = BTreeMap::from([("Authorization".to_owned(), ours)]);
        TransportConfig::Http {
            url: format!("http://{}/mcp", self.address),
            headers,
            auth: None,
            tls: None,
            addresses: Addresses::Usual,
        }
    }

    /// All requests of one method so far.
    pub(super) fn seen(&self, rpc_method: &str) -> Vec<Seen> {
        let seen = self.inner.seen.lock().unwrap();
        seen.iter().filter(|seen| seen.rpc_method() == rpc_method).cloned().collect()
    }

    pub(super) fn all_seen(&self) -> Vec<Seen> {
        self.inner.seen.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.inner.connections.load(Ordering::SeqCst)
    }

    /// How many stalled connections the other side closed.
    pub(super) fn cut_off(&self) -> usize {
        self.inner.cut_off.load(Ordering::SeqCst)
    }

    pub(super) fn flooded_bytes(&self) -> usize {
        self.inner.flooded_bytes.load(Ordering::SeqCst)
    }
}

pub(super) fn modern_basics(seen: &Seen) -> Option<Reply> {
    match seen.rpc_method() {
        "server/discover" => Some(seen.result(&json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}
        }))),
        "tools/list" => Some(seen.result(&json!({
            "resultType": "complete", "tools": [{"name": "t", "inputSchema": {}}]
        }))),
        _ => None,
    }
}

pub(super) fn legacy_basics(seen: &Seen) -> Option<Reply> {
    match seen.rpc_method() {
        "server/discover" => Some(json_reply(400, &json!({"error": "what is that?"}))),
        "initialize" => {
            let body = json!({"jsonrpc": "2.0", "id": seen.body["id"],
                "result": {"protocolVersion": "2025-11-25", "capabilities": {}}});
            let Reply::Keep(pieces) = json_reply(200, &body) else { unreachable!() };
            let text = String::from_utf8(pieces.concat()).unwrap();
            let text = text.replacen("\r\n", "\r\nMcp-Session-Id: s-1\r\n", 1);
            Some(Reply::Keep(vec![text.into_bytes()]))
        }
        "tools/list" => Some(seen.result(&json!({"tools": [{"name": "t", "inputSchema": {}}]}))),
        method if method.starts_with("notifications/") => Some(raw_reply(202, "text/plain", b"")),
        "" => Some(raw_reply(202, "text/plain", b"")), // an answer, or a DELETE
        _ => None,
    }
}

impl Inner {
    async fn serve(self: Arc<Self>, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut stream = BufReader::new(stream);
        while let Some(seen) = read_request(&mut stream).await {
            // A far side without news of its own.
            if seen.http_method == "GET" || seen.rpc_method() == "subscriptions/listen" {
                let refusal = b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n";
                stream.write_all(refusal).await.unwrap();
                continue;
            }
            let mut reply = (self.handler)(&seen);
            self.seen.lock().unwrap().push(seen);
            if let Reply::Late(after, pieces) = reply {
                tokio::time::sleep(after).await;
                reply = Reply::Keep(pieces);
            }
            match reply {
                Reply::Late(..) => unreachable!(),
                Reply::Keep(pieces) => {
                    for piece in pieces {
                        if stream.write_all(&piece).await.is_err() {
                            return;
                        }
                        stream.flush().await.unwrap();
                        tokio::time::sleep(Duration::from_micros(50)).await;
                    }
                }
                Reply::Close(bytes) => return drop(stream.write_all(&bytes).await),
                Reply::Flood(head) => return self.flood(stream, &head).await,
                Reply::Stall => {
                    let _ = stream.read(&mut [0; 64]).await;
                    self.cut_off.fetch_add(1, Ordering::SeqCst);
                    return;
                }
            }
        }
    }

    async fn flood(&self, mut stream: BufReader<TcpStream>, head: &[u8]) {
        stream.write_all(head).await.unwrap();
        let zeros = vec![b'0'; 0x4000];
        while stream.write_all(&zeros).await.is_ok() {
            self.flooded_bytes.fetch_add(zeros.len(), Ordering::SeqCst);
        }
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Seen> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let http_method = line.split(' ').next()?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    (!http_method.is_empty()).then(|| Seen {
        http_method,
        headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}
