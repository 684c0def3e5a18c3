//! HTTP/1.1 connections with keep-alive and optional TLS. Their number, request sizes, request
//! times and minimum read rate are limited, and they are drained at shutdown.
//!
//! HTTP/2 is not supported.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, extract::ConnectInfo};
use gateway_upstream::WorkerRuntimes;
use hyper::{Request, body::Incoming, server::conn::http1};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use registry_tls::{Acceptor, AddressLimit, AddressPlace, Holder};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{
    body::DeadlineBody,
    minimum_rate::{MinimumRate, MinimumRateStream},
};
use crate::{capacity, health, identity::credential::PeerCertificate};

/// Timeout of a request head, and so the idle timeout of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a TLS handshake, including the wait for other handshakes of the address.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum concurrent handshakes per address.
const HANDSHAKES: usize = 64;
/// Maximum size of a request head, in bytes.
const HEAD_BYTES: usize = 16 * 1024;
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
    router: Router,
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
                let (router, tls) = (router.clone(), tls.clone());
                let slot = (slot, address);
                let (stop, abort) = (stop.clone(), abort.clone());
                let connection = Connection { router, peer, tls, stop, abort, slot };
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
    router: Router,
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
        let Some(tls) = &self.tls else { return self.serve(stream, None, watcher).await };
        let accepted = timeout(HANDSHAKE_TIMEOUT, async {
            let _turn = self.slot.1.handshake().await;
            tls.accept(stream).await
        });
        if let Some(Ok(Some(stream))) = self.stop.run_until_cancelled(accepted).await {
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.map(|shown| PeerCertificate(Holder::read(shown)));
            self.serve(stream, certificate, watcher).await;
        }
    }

    async fn serve<S>(self, stream: S, certificate: Option<PeerCertificate>, watcher: Watcher)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let peer = self.peer;
        let service = self.router.map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(ConnectInfo(peer));
            if let Some(certificate) = certificate.clone() {
                request.extensions_mut().insert(certificate);
            }
            request.map(DeadlineBody::new)
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_header_size(HEAD_BYTES);
        let stream = TokioIo::new(MinimumRateStream::new(stream, MINIMUM_RATE));
        let connection = http.serve_connection(stream, TowerToHyperService::new(service));
        let served = self.abort.run_until_cancelled(watcher.watch(connection)).await;
        if let Some(Err(e)) = served {
            tracing::debug!(%peer, "a connection failed: {e}");
        }
    }
}
