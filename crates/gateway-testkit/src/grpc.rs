//! A scripted A2A agent over gRPC. Messages are JSON, and replies can violate the protocol.

use std::{
    future::pending,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use h2::{
    Reason, RecvStream,
    server::{SendResponse, handshake},
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header::CONTENT_TYPE};
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A call as it arrived.
#[derive(Debug, Clone)]
pub struct GrpcCall {
    /// The path.
    pub path: String,
    /// The metadata.
    pub metadata: HeaderMap,
    /// The request as JSON, or `null` if it is invalid.
    pub request: Value,
}

impl GrpcCall {
    /// The method.
    pub fn method(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The text of metadata.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.metadata.get(name)?.to_str().ok()
    }
}

/// A part of a reply. The head of the response precedes the first part.
#[derive(Debug, Clone)]
pub enum GrpcStep {
    /// A message.
    Message(Value),
    /// Bytes instead of a message.
    Bytes(Vec<u8>),
    /// Trailers, which end the response. As the first part they are its head.
    Trailers(HeaderMap),
    /// The end of the response without trailers.
    End,
    /// A response with another HTTP status, without a body.
    Status(StatusCode),
    /// The reset of the stream.
    Reset(Reason),
    /// No further part, on an open stream.
    Hang,
}

impl GrpcStep {
    /// Trailers with a status without a message.
    pub fn status(code: i32) -> Self {
        Self::Trailers(HeaderMap::from_iter([(a2a_grpc::status::STATUS, HeaderValue::from(code))]))
    }
}

type Handler = dyn Fn(&GrpcCall) -> Vec<GrpcStep> + Send + Sync;

/// A scripted agent. It runs as long as the runtime, and resets requests that are no calls.
#[derive(Debug, Clone)]
pub struct GrpcServer {
    address: SocketAddr,
    record: Arc<Record>,
    go_away: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Record {
    seen: Mutex<Vec<GrpcCall>>,
    connections: AtomicUsize,
}

impl GrpcServer {
    /// Starts an agent on a free port.
    pub async fn start(
        handler: impl Fn(&GrpcCall) -> Vec<GrpcStep> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (record, go_away) = (Arc::<Record>::default(), watch::Sender::new(()));
        let handler: Arc<Handler> = Arc::new(handler);
        let (shared, shutdowns) = (Arc::clone(&record), go_away.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                let (record, handler) = (Arc::clone(&shared), Arc::clone(&handler));
                tokio::spawn(serve(stream, record, handler, shutdowns.subscribe()));
            }
        });
        Self { address, record, go_away }
    }

    /// The URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All calls of one method so far.
    pub fn seen(&self, method: &str) -> Vec<GrpcCall> {
        let seen = self.record.seen.lock().unwrap();
        seen.iter().filter(|call| call.method() == method).cloned().collect()
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.record.connections.load(Ordering::SeqCst)
    }

    /// Closes all connections after their running calls, with `GOAWAY`.
    pub fn go_away(&self) {
        self.go_away.send_replace(());
    }
}

async fn serve(
    stream: TcpStream,
    record: Arc<Record>,
    handler: Arc<Handler>,
    mut shutdowns: watch::Receiver<()>,
) {
    let Ok(mut connection) = handshake(stream).await else { return };
    loop {
        tokio::select! {
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { return };
                tokio::spawn(answer(request, respond, Arc::clone(&record), Arc::clone(&handler)));
            }
            Ok(()) = shutdowns.changed() => connection.graceful_shutdown(),
        }
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    record: Arc<Record>,
    handler: Arc<Handler>,
) {
    let is_call = request.method() == Method::POST;
    let call = read(request).await;
    record.seen.lock().unwrap().push(call.clone());
    if !is_call {
        respond.send_reset(Reason::PROTOCOL_ERROR);
        return;
    }
    let mut sending = None;
    for step in handler(&call) {
        let head = |headers: HeaderMap| {
            let mut response = Response::new(());
            *response.headers_mut() = headers;
            let media_type = HeaderValue::from_static("application/grpc");
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            response
        };
        let bytes = match step {
            GrpcStep::Hang => pending().await,
            GrpcStep::Reset(reason) => {
                respond.send_reset(reason);
                return;
            }
            GrpcStep::Status(status) => {
                let mut response = Response::new(());
                *response.status_mut() = status;
                let _ = respond.send_response(response, true);
                return;
            }
            GrpcStep::Trailers(trailers) if sending.is_none() => {
                let _ = respond.send_response(head(trailers), true);
                return;
            }
            GrpcStep::Message(message) => {
                let message = a2a_grpc::encode_response(call.method(), &message).unwrap();
                Ok(a2a_grpc::frame(&message))
            }
            GrpcStep::Bytes(bytes) => Ok(bytes),
            GrpcStep::Trailers(trailers) => Err(Some(trailers)),
            GrpcStep::End => Err(None),
        };
        // The client may have closed the connection.
        if sending.is_none() {
            sending = respond.send_response(head(HeaderMap::new()), false).ok();
        }
        let Some(stream) = &mut sending else { return };
        let sent = match bytes {
            Ok(bytes) => stream.send_data(bytes.into(), false),
            Err(Some(trailers)) => stream.send_trailers(trailers),
            Err(None) => stream.send_data(Bytes::new(), true),
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn read(request: Request<RecvStream>) -> GrpcCall {
    let (head, mut body) = request.into_parts();
    let mut bytes = Vec::new();
    while let Some(Ok(chunk)) = body.data().await {
        let _ = body.flow_control().release_capacity(chunk.len());
        bytes.extend_from_slice(&chunk);
    }
    let path = head.uri.path().to_owned();
    let mut call = GrpcCall { path, metadata: head.headers, request: Value::Null };
    if let Ok(message) = a2a_grpc::message(&bytes)
        && let Ok(request) = a2a_grpc::decode_request(call.method(), message)
    {
        call.request = request;
    }
    call
}
