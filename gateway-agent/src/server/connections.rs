//! Connections: HTTP/1 with keep-alive, over TLS where there is a certificate. They are bounded in
//! number, in the size and the time of what a client sends, in the time that it does not read, and
//! drained at the end.
//!
//! HTTP/2 is not supported.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, extract::ConnectInfo};
use gateway_upstream::Lanes;
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
    body::Timely,
    writes::{Pace, TimelyWrites},
};
use crate::{capacity, health, identity::proof::PeerCertificate};

/// How long the head of a request may take, and so how long an idle connection is kept.
const HEAD: Duration = Duration::from_secs(30);
/// How long the handshake of TLS may take, with the wait for other handshakes of the address.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How many handshakes of one address run at the same time.
const HANDSHAKES: usize = 64;
/// Largest head of a request, in bytes.
const HEAD_BYTES: usize = 16 * 1024;
/// The slowest reading of an answer: 17 KiB/s on average over half a minute.
const PACE: Pace = Pace { time: Duration::from_secs(30), bytes: 512 * 1024 };
/// How long to wait when no connection can be accepted (no file descriptors, say).
const BREATHER: Duration = Duration::from_millis(100);
/// How long nothing must have failed before it is said that connections are accepted again.
const CALM: Duration = Duration::from_secs(1);

/// Where callers come in.
pub(super) struct Door {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<Acceptor>,
    pub(super) lanes: Arc<Lanes>,
    /// Most connections of one address.
    pub(super) of_address: usize,
}

/// Serves until `stop`; then lets calls that have begun finish, until `cut`.
pub(super) async fn serve(
    Door { listener, tls, lanes, of_address }: Door,
    router: Router,
    (stop, cut): (CancellationToken, CancellationToken),
) {
    let graceful = GracefulShutdown::new();
    let addresses = AddressLimit::new(of_address, HANDSHAKES);
    let most = capacity::connections();
    let room = Arc::new(Semaphore::new(most));
    let mut failed: Option<Instant> = None;
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &room) => accepted,
            () = stop.cancelled() => break,
        };
        match accepted {
            Ok((stream, peer, place)) => {
                // One freed descriptor does not end the shortage.
                if failed.take_if(|failed| failed.elapsed() >= CALM).is_some() {
                    tracing::info!("connections are accepted again");
                }
                let Some(address) = addresses.admit(peer.ip()) else {
                    health::connection_rejected();
                    continue;
                };
                let (router, tls) = (router.clone(), tls.clone());
                let place = (place, address);
                let (stop, cut) = (stop.clone(), cut.clone());
                let connection = Connection { router, peer, tls, stop, cut, place };
                lanes.spawn(connection.run(stream, graceful.watcher()));
            }
            Err(e) => {
                if failed.replace(Instant::now()).is_none() {
                    tracing::warn!(
                        "a connection could not be accepted, trying again every {} ms: {e}",
                        BREATHER.as_millis()
                    );
                }
                sleep(BREATHER).await;
            }
        }
    }
    drop(listener);
    // All connections end before the upstreams do: an interrupted call is cancelled there.
    let _ = cut.run_until_cancelled(graceful.shutdown()).await;
    cut.cancel();
    let _ = room.acquire_many(u32::try_from(most).unwrap_or(u32::MAX)).await;
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(std::net::TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    // It goes to another runtime.
    Ok((stream.into_std()?, peer, place))
}

/// One connection and its place among those allowed.
struct Connection {
    router: Router,
    peer: SocketAddr,
    tls: Option<Acceptor>,
    stop: CancellationToken,
    /// Cancelled when there is no more time for what has begun.
    cut: CancellationToken,
    /// Among all connections, and among those of its address.
    place: (OwnedSemaphorePermit, AddressPlace),
}

impl Connection {
    /// Shakes hands where there is TLS, unless it is time to stop.
    async fn run(self, stream: std::net::TcpStream, watcher: Watcher) {
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(e) => return tracing::warn!(peer = %self.peer, "a connection was lost: {e}"),
        };
        // Without it answers wait for acknowledgements; where it fails they do.
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return self.serve(stream, None, watcher).await };
        let accepted = timeout(HANDSHAKE, async {
            let _turn = self.place.1.handshake().await;
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
            request.map(Timely::new)
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_header_size(HEAD_BYTES);
        let stream = TokioIo::new(TimelyWrites::new(stream, PACE));
        let connection = http.serve_connection(stream, TowerToHyperService::new(service));
        let served = self.cut.run_until_cancelled(watcher.watch(connection)).await;
        if let Some(Err(e)) = served {
            tracing::debug!(%peer, "a connection broke: {e}");
        }
    }
}
