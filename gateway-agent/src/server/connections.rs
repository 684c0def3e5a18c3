//! Connections with optional TLS. Their number, request sizes, request times and minimum read rate
//! are limited, and they are drained at shutdown.
//!
//! HTTP/2 is selected by ALPN, or without TLS by its preface (prior knowledge). All routes are
//! available in both versions.

use std::{any::Any, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{body::Body, response::Response};
use futures_util::{StreamExt as _, TryFutureExt as _, future::Either, stream::FuturesUnordered};
use gateway_upstream::WorkerRuntimes;
use http::header::UPGRADE;
use hyper::{
    Request,
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use registry_tls::{Acceptor, AddressLimit, AddressPlace, Holder};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    body::DeadlineBody,
    layers,
    limited_stream::{LimitedStream, MinimumRate},
    open_requests::{CountedBody, OpenRequests},
    routes::Routes,
};
use crate::{
    capacity, health,
    identity::{
        credential::PeerCertificate,
        sender::{ClientConnection, RequestSender},
    },
    ingress::{ReceivedBytes, UpgradeSlot},
};

/// Timeout of a request head, and so the idle timeout of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The start of the preface of HTTP/2. No method of HTTP/1.1 begins with it.
const HTTP2_START: &[u8; 3] = b"PRI";
/// Delay between reads of a start that is too short.
const START_RETRY: Duration = Duration::from_millis(10);
/// The ALPN protocol of HTTP/2.
const HTTP2_PROTOCOL: &[u8] = b"h2";
/// Maximum concurrent requests of an HTTP/2 connection. Calls of agents can take minutes.
const HTTP2_STREAMS: u32 = 128;
/// Interval of pings on HTTP/2 connections, and the timeout of their answers.
const PING: Duration = Duration::from_secs(20);
/// Timeout of a TLS handshake, including the wait for other handshakes of the address.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum concurrent handshakes per address.
const HANDSHAKES: usize = 64;
/// Maximum size of a request head, in bytes.
const HEAD_BYTES: u32 = 16 * 1024;
/// Minimum rate of reading a response: 17 KiB/s on average over 30 s.
const MINIMUM_RATE: MinimumRate = MinimumRate { time: Duration::from_secs(30), bytes: 512 * 1024 };
/// Delay after a failed `accept`, for instance without free file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Period without failures before recovery is logged.
const RECOVERY_PERIOD: Duration = Duration::from_secs(1);

/// A bound listener with its limits.
pub(super) struct BoundListener {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<Acceptor>,
    pub(super) lanes: Arc<WorkerRuntimes>,
    /// Maximum connections per address.
    pub(super) max_per_address: usize,
}

/// Serves until `stop`, then lets running calls finish until `abort`.
pub(super) async fn serve(
    BoundListener { listener, tls, lanes, max_per_address }: BoundListener,
    routes: Routes,
    (stop, abort): (CancellationToken, CancellationToken),
) {
    let graceful = GracefulShutdown::new();
    let addresses = AddressLimit::new(max_per_address, HANDSHAKES);
    let max_connections = capacity::connections();
    let slots = Arc::new(Semaphore::new(max_connections));
    let mut failed: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &slots) => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer, slot)) => {
                // One successful `accept` does not end a shortage of file descriptors.
                if failed.take_if(|failed| failed.elapsed() >= RECOVERY_PERIOD).is_some() {
                    tracing::info!("accepting connections again");
                }
                let Some(address) = addresses.admit(peer.ip()) else {
                    health::connection_rejected();
                    continue;
                };
                let (routes, tls) = (routes.clone(), tls.clone());
                let slot = (slot, address);
                let (stop, abort) = (stop.clone(), abort.clone());
                let connection = Connection { routes, peer, tls, stop, abort, slot };
                lanes.spawn(connection.run(stream, graceful.watcher()));
            }
            Err(e) => {
                if failed.replace(Instant::now()).is_none() {
                    tracing::warn!(
                        "cannot accept a connection, retrying every {} ms: {e}",
                        ACCEPT_RETRY.as_millis()
                    );
                }
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
    drop(listener);
    // Connections end before upstreams stop, so that aborted calls are cancelled upstream.
    let _ = abort.run_until_cancelled(graceful.shutdown()).await;
    abort.cancel();
    let _ = slots.acquire_many(u32::try_from(max_connections).unwrap_or(u32::MAX)).await;
}

async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(std::net::TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    // The stream moves to another Tokio runtime.
    Ok((stream.into_std()?, peer, slot))
}

struct Connection {
    routes: Routes,
    peer: SocketAddr,
    tls: Option<Acceptor>,
    stop: CancellationToken,
    /// Cancelled when the drain timeout expires.
    abort: CancellationToken,
    /// The slots in the limits of all connections and of the address.
    slot: (OwnedSemaphorePermit, AddressPlace),
}

impl Connection {
    /// Completes the TLS handshake, if TLS is configured, and serves.
    async fn run(self, stream: std::net::TcpStream, watcher: Watcher) {
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(e) => return tracing::warn!(peer = %self.peer, "cannot use a connection: {e}"),
        };
        // Without this option, responses wait for acknowledgements (Nagle's algorithm).
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else {
            let started = timeout(HEAD_TIMEOUT, starts_http2(&stream));
            if let Some(Ok(Ok(is_http2))) = self.abort.run_until_cancelled(started).await {
                self.serve(stream, is_http2, None, watcher).await;
            }
            return;
        };
        let accepted = timeout(HANDSHAKE_TIMEOUT, async {
            let _turn = self.slot.1.handshake().await;
            tls.accept(stream).await
        });
        if let Some(Ok(Some(stream))) = self.stop.run_until_cancelled(accepted).await {
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.map(|shown| PeerCertificate(Holder::read(shown)));
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2_PROTOCOL);
            self.serve(stream, is_http2, certificate, watcher).await;
        }
    }

    async fn serve<S>(
        self,
        stream: S,
        is_http2: bool,
        certificate: Option<PeerCertificate>,
        watcher: Watcher,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { routes, peer, stop, abort, slot, .. } = self;
        // An upgraded connection keeps its place when this function returns.
        let place: Arc<dyn Any + Send + Sync> = Arc::new(slot);
        let received = ReceivedBytes::default();
        // Shared, because a clone of the token takes a lock that all connections share.
        let upgrade_slot = Arc::new(UpgradeSlot::new(&place, abort.clone(), received.clone()));
        let client = Arc::new(ClientConnection::new(peer, certificate));
        let respond = move |mut request: Request<Incoming>| {
            let is_upgrade = request.headers().contains_key(UPGRADE);
            if is_upgrade {
                request.extensions_mut().insert(Arc::clone(&upgrade_slot));
            }
            let request = request.map(|body| Body::new(DeadlineBody::new(body)));
            let sender = RequestSender::on(Arc::clone(&client));
            layers::serve(routes.clone(), request, sender)
        };
        let stream = TokioIo::new(LimitedStream::new(stream, MINIMUM_RATE, received));
        let open = OpenRequests::default();
        let counted = open.clone();
        let service = service_fn(move |request| {
            let open = counted.begin();
            let until_sent = |response: Response| response.map(|body| CountedBody::new(body, open));
            respond(request).map_ok(until_sent)
        });
        let served = if is_http2 {
            let connection = watcher.watch(http2_settings().serve_connection(stream, service));
            abort.run_until_cancelled(until_idle(connection, &open)).await
        } else {
            let mut http = http1::Builder::new();
            http.header_read_timeout(None::<Duration>).max_header_size(HEAD_BYTES as usize);
            let connection = http.serve_connection(stream, service);
            let mut connection = pin!(connection.with_upgrades());
            // A poll of a token takes locks that all connections share. The set polls a token only
            // after its wakeup.
            let signals = [
                Either::Left(signal(&stop, Signal::Stop)),
                Either::Left(signal(&abort, Signal::Abort)),
                Either::Right(idle(&open)),
            ];
            let mut signals = signals.into_iter().collect::<FuturesUnordered<_>>();
            let served = loop {
                tokio::select! {
                    biased;
                    served = &mut connection => break Some(served),
                    signal = signals.next() => match signal {
                        Some(Signal::Stop) => connection.as_mut().graceful_shutdown(),
                        Some(Signal::Abort | Signal::Idle) | None => break None,
                    },
                }
            };
            // The shutdown waits for all watchers. They cannot watch connections with upgrades.
            drop(watcher);
            served
        };
        if let Some(Err(e)) = served {
            tracing::debug!(%peer, "a connection failed: {e}");
        }
    }
}

/// Why a connection ends.
#[derive(Debug, Clone, Copy)]
enum Signal {
    /// Running calls may finish.
    Stop,
    Abort,
    /// No head of a request arrived in time.
    Idle,
}

async fn signal(token: &CancellationToken, signal: Signal) -> Signal {
    token.cancelled().await;
    signal
}

async fn idle(open: &OpenRequests) -> Signal {
    open.idle(HEAD_TIMEOUT).await;
    Signal::Idle
}

/// Whether a connection without TLS begins with the preface of HTTP/2. No byte is consumed.
async fn starts_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut start = [0; HTTP2_START.len()];
    loop {
        let received = stream.peek(&mut start).await?;
        let is_decided = received == 0 || received == start.len();
        if is_decided || !HTTP2_START.starts_with(&start[..received]) {
            return Ok(start == *HTTP2_START);
        }
        // The next read returns at once, because bytes have arrived.
        sleep(START_RETRY).await;
    }
}

fn http2_settings() -> http2::Builder<TokioExecutor> {
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_header_list_size(HEAD_BYTES)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    http
}

/// Closes a connection without open requests, also one whose preface does not arrive.
async fn until_idle(
    connection: impl Future<Output = hyper::Result<()>>,
    open: &OpenRequests,
) -> hyper::Result<()> {
    tokio::select! {
        served = connection => served,
        () = open.idle(HEAD_TIMEOUT) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn preface_selects_http2() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for (pieces, expected) in [
            (&[&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..]][..], true),
            (&[b"P", b"R", b"I * HTTP/2.0"], true),
            (&[b"POST / HTTP/1.1\r\n"], false),
            (&[b"P", b"UT / HTTP/1.1\r\n"], false),
            (&[b"G"], false),
            (&[], false),
        ] {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.set_nodelay(true).unwrap();
            let (server, _) = listener.accept().await.unwrap();
            let sending = async move {
                for piece in pieces {
                    client.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
                client.shutdown().await.unwrap();
                client
            };
            let started = timeout(Duration::from_secs(5), starts_http2(&server));
            let (started, _client) = tokio::join!(started, sending);
            assert_eq!(started.unwrap().unwrap(), expected, "{pieces:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_without_open_request_is_closed() {
        let requests = OpenRequests::default();
        let idle = until_idle(std::future::pending(), &requests);
        timeout(HEAD_TIMEOUT * 2, idle).await.unwrap().unwrap();
        let _open = requests.begin();
        let busy = until_idle(std::future::pending(), &requests);
        assert!(timeout(HEAD_TIMEOUT * 2, busy).await.is_err());
    }
}
