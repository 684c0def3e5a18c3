//! The connections to one upstream: over HTTP/1.1 one for each running request, over HTTP/2 one for
//! all.

mod worker;

use std::{
    error::Error as StdError,
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{
    HeaderValue, Request, Response, Uri,
    header::{CONTENT_LENGTH, HOST},
    uri::Parts,
};
use http_body::Body as _;
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::{client::legacy::connect::Connection as _, rt::TokioExecutor};
use tokio::time::timeout;

use self::worker::WorkerPool;
use super::{Error, connector::Connector, send_error};
use crate::{TargetId, UpstreamLimits, send_state::Body, workers::PerWorker};

/// Maximum idle time of a connection. Common servers close theirs after five seconds, and a request
/// on a closing connection is lost.
const IDLE: Duration = Duration::from_secs(4);
/// That time over HTTP/2, whose servers announce the end of a connection. Load balancers forget idle
/// connections after 350 s and more.
const HTTP2_IDLE: Duration = Duration::from_mins(5);
/// Maximum unread bytes of one response of an upstream for HTTP/2 only, and of all responses of a
/// connection. A caller that does not read its stream must not block those of others.
const HTTP2_STREAM_WINDOW: u32 = 128 * 1024;
const HTTP2_CONNECTION_WINDOW: u32 = 128 * HTTP2_STREAM_WINDOW;

/// The connections to one upstream.
#[derive(Debug)]
pub(super) struct ConnectionPool {
    connector: Connector,
    url: Uri,
    connect_timeout_ms: u64,
    /// Whether requests share a connection. With ALPN, the latest connection decides it.
    is_http2: AtomicBool,
    /// A connection belongs to the worker that opened it.
    workers: PerWorker<Arc<WorkerPool>>,
}

impl ConnectionPool {
    /// Creates a pool for the host of a URL without connecting.
    pub(super) fn new(connector: Connector, url: &Uri, limits: UpstreamLimits) -> Self {
        Self {
            url: url.clone(),
            connect_timeout_ms: limits.connect_timeout_ms,
            is_http2: AtomicBool::new(connector.is_http2()),
            connector,
            workers: PerWorker::default(),
        }
    }

    /// Sends a request, whose URI is a path, and waits for the head of the response. A reused
    /// connection that closed before anything was sent is replaced silently.
    pub(super) async fn send(
        &self,
        server: &TargetId,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, Error> {
        let worker = self.workers.get_or_init(|| self.new_worker());
        set_content_length(&mut request);
        loop {
            let (mut connection, is_reused) = match worker.take() {
                Some(connection) => (connection, true),
                // Boxed, because most requests open no connection.
                None => Box::pin(self.open(server, worker)).await?,
            };
            self.set_host(&mut request, &connection, worker);
            let sent = match &mut connection {
                Connection::Http1(sender) => sender.try_send_request(request).await,
                Connection::Http2(sender) => sender.try_send_request(request).await,
            };
            let mut error = match sent {
                Ok(response) => {
                    worker.release(connection);
                    return Ok(response);
                }
                Err(error) => error,
            };
            request = match error.take_message() {
                Some(unsent) if is_reused => unsent,
                unsent => {
                    let (error, is_unsent) = (error.error(), unsent.is_some());
                    return Err(send_error::of_request(server, error, is_unsent, is_reused));
                }
            };
        }
    }

    fn new_worker(&self) -> Arc<WorkerPool> {
        let idle = if self.connector.is_http2() { HTTP2_IDLE } else { IDLE };
        Arc::new(WorkerPool::new(host(&self.url), idle))
    }

    /// Sets the host of a request: over HTTP/1.1 in a header, which may be configured, and over HTTP/2
    /// in the URI.
    fn set_host(&self, request: &mut Request<Body>, connection: &Connection, worker: &WorkerPool) {
        let is_http2 = matches!(connection, Connection::Http2(_));
        if !is_http2 {
            request.headers_mut().entry(HOST).or_insert_with(|| worker.host.clone());
        }
        if request.uri().authority().is_some() != is_http2 {
            let path = mem::take(request.uri_mut()).into_parts().path_and_query;
            let mut parts = if is_http2 { self.url.clone().into_parts() } else { Parts::default() };
            parts.path_and_query = path;
            let uri = Uri::from_parts(parts);
            *request.uri_mut() = uri.expect("the parts are those of valid URIs");
        }
    }

    /// Opens a connection, or takes one that another request no longer needs. Also returns whether the
    /// connection is reused.
    async fn open(
        &self,
        server: &TargetId,
        worker: &Arc<WorkerPool>,
    ) -> Result<(Connection, bool), Error> {
        let limit = Duration::from_millis(self.connect_timeout_ms);
        let mut connecting = Box::pin(connect(self.connector.clone(), self.url.clone(), limit));
        let is_http2 = || self.is_http2.load(Ordering::Relaxed);
        if is_http2() {
            // Requests that waited while the upstream changed to HTTP/1.1 connect concurrently.
            let known = || match worker.take() {
                Some(connection) => Some(Some((connection, true))),
                None => (!is_http2()).then_some(None),
            };
            let attempt = async {
                let opened = (&mut connecting).await;
                self.opened(server, worker, opened).map(|connection| Some((connection, false)))
            };
            if let Some(opened) = worker.attempts.make(server, known, attempt).await? {
                return Ok(opened);
            }
        }
        let opened = tokio::select! {
            biased;
            Ok(released) = worker.wait() => {
                // Later requests need it: this one found no idle connection.
                worker.put_later(async move { connecting.await.ok() });
                return Ok((released, true));
            }
            opened = &mut connecting => opened,
        };
        self.opened(server, worker, opened).map(|connection| (connection, false))
    }

    fn opened(
        &self,
        server: &TargetId,
        worker: &Arc<WorkerPool>,
        opened: Result<Connection, ConnectError>,
    ) -> Result<Connection, Error> {
        let connection = opened
            .map_err(|error| send_error::of_connection(server, &*error, self.connect_timeout_ms))?;
        let shared = connection.share();
        self.is_http2.store(shared.is_some(), Ordering::Relaxed);
        if let Some(shared) = shared {
            worker.put(shared);
        }
        Ok(connection)
    }
}

/// Sets the length of a body, which may have replaced another.
fn set_content_length(request: &mut Request<Body>) {
    let length = request.body().size_hint().exact().filter(|length| *length > 0);
    let headers = request.headers_mut();
    let Some(length) = length else {
        headers.remove(CONTENT_LENGTH);
        return;
    };
    // The conversion of a number, which hyper would use, allocates twice.
    let length = HeaderValue::try_from(length.to_string());
    headers.insert(CONTENT_LENGTH, length.expect("digits are visible ASCII"));
}

/// The value of `Host`: the host, and the port unless it is the default.
fn host(url: &Uri) -> HeaderValue {
    let default_port = if url.scheme_str() == Some("https") { 443 } else { 80 };
    let host = url.host().unwrap_or_default();
    let text = match url.port_u16().filter(|port| *port != default_port) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    HeaderValue::try_from(text).expect("the host of a URI is visible ASCII")
}

/// The sender of requests on a connection, which a task reads and writes.
#[derive(Debug)]
enum Connection {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

type ConnectError = Box<dyn StdError + Send + Sync>;

/// Opens a connection within a time limit, which includes the TLS handshake.
async fn connect(
    connector: Connector,
    url: Uri,
    limit: Duration,
) -> Result<Connection, ConnectError> {
    timeout(limit, handshake(connector, url)).await.map_err(io::Error::from)?
}

async fn handshake(connector: Connector, url: Uri) -> Result<Connection, ConnectError> {
    let stream = connector.connect(url).await?;
    let is_http2_only = connector.is_http2();
    if !is_http2_only && !stream.connected().is_negotiated_h2() {
        let (sender, connection) = http1::handshake(stream).await?;
        tokio::spawn(connection);
        return Ok(Connection::Http1(sender));
    }
    let mut builder = http2::Builder::new(TokioExecutor::new());
    if is_http2_only {
        builder
            .initial_stream_window_size(HTTP2_STREAM_WINDOW)
            .initial_connection_window_size(HTTP2_CONNECTION_WINDOW);
    }
    let (sender, connection) = builder.handshake(stream).await?;
    tokio::spawn(connection);
    Ok(Connection::Http2(sender))
}

impl Connection {
    /// Whether it takes a request: over HTTP/1.1, it is open and no other request uses it.
    fn is_ready(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_ready(),
            Self::Http2(sender) => sender.is_ready(),
        }
    }

    /// Waits until it takes a request.
    async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        }
    }

    /// The same connection for another request. `None`: it takes one request at a time.
    fn share(&self) -> Option<Self> {
        match self {
            Self::Http1(_) => None,
            Self::Http2(sender) => Some(Self::Http2(sender.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, fs, future::ready, path::PathBuf};

    use bytes::Bytes;
    use gateway_testkit::{Server, raw_reply};
    use http::{StatusCode, Version};
    use hyper::{
        server::conn::{http1 as http1_server, http2 as http2_server},
        service::service_fn,
    };
    use hyper_util::rt::TokioIo;
    use registry_tls::{Acceptor, ClientAuth, ClientFiles, MetricsHooks, ServerFiles};
    use tempfile::TempDir;
    use tokio::{
        io::duplex,
        net::TcpListener,
        task::{JoinHandle, yield_now},
    };

    use super::*;
    use crate::{Addresses, Phase};

    /// An upstream over TLS.
    struct TlsUpstream {
        listener: TcpListener,
        files: TempDir,
    }

    impl TlsUpstream {
        async fn start() -> Self {
            let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let upstream = Self { listener, files: tempfile::tempdir().unwrap() };
            fs::write(upstream.certificate(), own.cert.pem()).unwrap();
            fs::write(upstream.key(), own.signing_key.serialize_pem()).unwrap();
            upstream
        }

        fn certificate(&self) -> PathBuf {
            self.files.path().join("tls.crt")
        }

        fn key(&self) -> PathBuf {
            self.files.path().join("tls.key")
        }

        /// A pool that trusts the upstream.
        fn pool(&self) -> ConnectionPool {
            let files = ClientFiles { ca: Some(self.certificate()), identity: None };
            let tls = files.open(|_| ()).unwrap();
            let connector = Connector::alone(true, Some(tls), Addresses::Usual);
            let url = format!("https://{}/mcp", self.listener.local_addr().unwrap());
            ConnectionPool::new(connector, &url.parse().unwrap(), UpstreamLimits::default())
        }

        /// Accepts one connection with one of these protocols, and serves it in a task.
        async fn accept(&self, protocols: &'static [&'static str]) -> JoinHandle<()> {
            let files = ServerFiles {
                certificate: self.certificate(),
                key: self.key(),
                client_ca: None,
                client_crl: None,
                client_auth: ClientAuth::Optional,
                protocols,
            };
            let hooks = MetricsHooks { reloaded: |_| (), rejected: || () };
            let acceptor = Acceptor::open(files, hooks).unwrap();
            let (stream, _) = self.listener.accept().await.unwrap();
            let stream = acceptor.accept(stream).await.unwrap();
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2".as_slice());
            let (stream, executor) = (TokioIo::new(stream), TokioExecutor::new());
            let answer = service_fn(|_: Request<Incoming>| {
                ready(Ok::<_, Infallible>(Response::new(String::new())))
            });
            tokio::spawn(async move {
                // The result depends on the end of the connection.
                if is_http2 {
                    let builder = http2_server::Builder::new(executor);
                    drop(builder.serve_connection(stream, answer).await);
                } else {
                    let builder = http1_server::Builder::new();
                    drop(builder.serve_connection(stream, answer).await);
                }
            })
        }
    }

    fn pool(url: &str, limits: UpstreamLimits) -> ConnectionPool {
        let connector = Connector::alone(false, None, Addresses::Usual);
        ConnectionPool::new(connector, &url.parse().unwrap(), limits)
    }

    fn server() -> TargetId {
        "server/s@1.0.0".parse().unwrap()
    }

    fn post() -> Request<Body> {
        Request::post("/mcp").body(Bytes::from_static(b"{}").into()).unwrap()
    }

    #[tokio::test]
    async fn closed_connection_of_another_request_is_replaced_silently() {
        let fake = Server::start(|_| raw_reply(200, "text/plain", b"")).await;
        let (pool, server) = (pool(&fake.url(), UpstreamLimits::default()), server());
        let worker = pool.workers.get_or_init(|| pool.new_worker());
        let (near, far) = duplex(1024);
        let (sender, task) = http1::handshake(TokioIo::new(near)).await.unwrap();
        drop(far);
        // The result depends on the end of the stream, and the connection is closed either way.
        drop(task.await);
        let (sent, ()) = tokio::join!(biased; pool.send(&server, post()), async {
            worker.put(Connection::Http1(sender));
        });
        assert_eq!(sent.unwrap().status(), StatusCode::OK);
        assert_eq!(fake.all_seen().len(), 1);
    }

    #[tokio::test]
    async fn upstream_that_loses_http2_is_reached_over_http1() {
        let upstream = TlsUpstream::start().await;
        let (pool, server) = (upstream.pool(), server());
        let call = async |protocols: &'static [&'static str]| {
            let (sent, serving) =
                tokio::join!(pool.send(&server, post()), upstream.accept(protocols));
            (sent.unwrap().version(), serving)
        };
        let (version, serving) = call(&["h2", "http/1.1"]).await;
        assert_eq!(version, Version::HTTP_2);
        serving.abort();
        let worker = pool.workers.get_or_init(|| pool.new_worker());
        while worker.take().is_some() {
            yield_now().await;
        }
        let (version, _serving) = call(&["http/1.1"]).await;
        assert_eq!(version, Version::HTTP_11);
        // The connection over HTTP/1.1 is reused.
        assert_eq!(pool.send(&server, post()).await.unwrap().version(), Version::HTTP_11);
    }

    #[tokio::test]
    async fn tls_handshake_has_time_limit() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/mcp", silent.local_addr().unwrap());
        let limits = UpstreamLimits { connect_timeout_ms: 50, ..UpstreamLimits::default() };
        let error = pool(&url, limits).send(&server(), post()).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { phase: Phase::Connect, after_ms: 50 }), "{error}");
    }

    #[test]
    fn content_length_is_that_of_the_body() {
        let mut request = post();
        for (body, wanted) in [("{}", Some("2")), ("[1]", Some("3")), ("", None)] {
            *request.body_mut() = Bytes::from_static(body.as_bytes()).into();
            set_content_length(&mut request);
            let length = request.headers().get(CONTENT_LENGTH);
            assert_eq!(length.map(|length| length.to_str().unwrap()), wanted, "{body}");
        }
    }

    #[test]
    fn host_has_port_unless_default() {
        for (url, wanted) in [
            ("http://example.com/mcp", "example.com"),
            ("http://example.com:80", "example.com"),
            ("https://user:password@example.com:443/", "example.com"),
            ("http://example.com:443/", "example.com:443"),
            ("https://[::1]:8443/mcp", "[::1]:8443"),
        ] {
            assert_eq!(host(&url.parse().unwrap()), wanted, "{url}");
        }
    }
}
