//! Connections: bounded in number, in all and for each address, and closed where the client does not
//! show its protocol in time. The protocols bound the time of requests and answers.

mod settings;
mod tls;

use std::{
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, StreamExt as _, future::ready, stream};
use registry_tls::{Acceptor, AddressLimit, AddressPlace};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, Sleep, sleep, timeout},
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

pub use settings::{AdminListen, ServeConfig};
pub use tls::TlsConfig;

use crate::{metrics, peer::Peer};

/// How long a connection may take to show its protocol.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes that tell the protocol: the preface of HTTP/2 (RFC 9113 section 3.4).
const PREFACE: usize = 24;
/// How many new connections are served at the same time. When thousands come at once, the others
/// wait, so that connections that are already served are not delayed.
const NEW: usize = 256;
/// The same for one address.
const NEW_OF_ADDRESS: usize = NEW / 4;
/// For how long a connection counts as new, if it says nothing.
const NEW_FOR: Duration = Duration::from_millis(100);
/// How long to wait when no connection can be accepted (no file descriptors, say).
const BREATHER: Duration = Duration::from_millis(100);

/// The maximum numbers of open connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections of all addresses. More wait in the kernel's queue.
    pub(crate) all: usize,
    /// Connections of one address. More are closed.
    pub(crate) per_address: usize,
}

/// Accepts connections. No connection waits for the handshake of another one.
pub(crate) fn connections(
    listener: TcpListener,
    limits: Limits,
    tls: Option<Acceptor>,
) -> impl Stream<Item = io::Result<Connection>> {
    let room = Room::new(limits.all, AddressLimit::new(limits.per_address, NEW_OF_ADDRESS), NEW);
    stream::unfold((listener, room), move |(listener, room)| {
        let tls = tls.clone();
        async move {
            let (stream, address, place) = accept(&listener, &room).await?;
            let new = Arc::clone(&room.new);
            let opening = async move {
                let place = place.begin(new).await?;
                open((stream, address), place, tls, SILENCE).await
            };
            Some((opening, (listener, room)))
        }
    })
    .buffer_unordered(limits.all)
    .filter_map(|opened| ready(opened.map(Ok)))
}

/// How many connections there may be.
struct Room {
    places: Arc<Semaphore>,
    addresses: AddressLimit,
    new: Arc<Semaphore>,
}

impl Room {
    fn new(most: usize, addresses: AddressLimit, new: usize) -> Self {
        let (places, new) = (Arc::new(Semaphore::new(most)), Arc::new(Semaphore::new(new)));
        Self { places, addresses, new }
    }
}

/// A connection's place in all counts.
struct Place {
    _any: OwnedSemaphorePermit,
    address: AddressPlace,
    /// While it is new: its turn in its address, and among all.
    new: Option<[OwnedSemaphorePermit; 2]>,
}

impl Place {
    /// Waits for a turn as a new connection.
    async fn begin(mut self, new: Arc<Semaphore>) -> Option<Self> {
        // The address first: the connections of one that wait take no turns from others.
        self.new = Some([self.address.handshake().await?, new.acquire_owned().await.ok()?]);
        Some(self)
    }
}

/// A connection whose caller finishes the handshake in time.
async fn open(
    (stream, address): (TcpStream, SocketAddr),
    mut place: Place,
    tls: Option<Acceptor>,
    patience: Duration,
) -> Option<Connection> {
    let (address, local) = (Some(address), stream.local_addr().ok());
    let (stream, certificate) = match tls {
        None => (Socket::Plain(stream), None),
        Some(tls) => {
            let mut handshake = pin!(timeout(patience, tls.accept(stream)));
            let stream = if let Ok(done) = timeout(NEW_FOR, &mut handshake).await {
                done
            } else {
                place.new = None;
                handshake.await
            };
            let stream = stream.ok()??;
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.map(|certificate| Arc::new(certificate.clone().into_owned()));
            (Socket::Tls(Box::new(stream)), certificate)
        }
    };
    let silence = Some(Silence { timer: Box::pin(sleep(NEW_FOR)), came: 0, patience });
    let peer = Peer { address, local, certificate };
    Some(Connection { stream, peer, silence, place })
}

/// The next connection whose address has room for it. A shortage is logged once, not ten times a
/// second.
async fn accept(listener: &TcpListener, room: &Room) -> Option<(TcpStream, SocketAddr, Place)> {
    let any = room.places.clone().acquire_owned().await.ok()?;
    let mut is_told = false;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let Some(of_address) = room.addresses.admit(address.ip()) else {
                    metrics::connection_rejected();
                    continue;
                };
                // Without it answers wait for acknowledgements; where it fails they do.
                let _ = stream.set_nodelay(true);
                return Some((
                    stream,
                    address,
                    Place { _any: any, address: of_address, new: None },
                ));
            }
            Err(e) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!("connections cannot be accepted: {e}; they wait");
                }
                sleep(BREATHER).await;
            }
        }
    }
}

/// What bytes go over.
enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls a method of whichever socket it is.
macro_rules! on_socket {
    ($connection:expr, $method:ident($($argument:expr),*)) => {
        match &mut $connection.stream {
            Socket::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Socket::Tls(stream) => Pin::new(&mut **stream).$method($($argument),*),
        }
    };
}

/// One connection and its place among those allowed.
pub(crate) struct Connection {
    stream: Socket,
    peer: Peer,
    /// Until the protocol is known.
    silence: Option<Silence>,
    place: Place,
}

/// A connection whose caller has yet to say which protocol it speaks.
struct Silence {
    /// When it is no longer new; then, when it is given up.
    timer: Pin<Box<Sleep>>,
    /// How many bytes came.
    came: usize,
    patience: Duration,
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = on_socket!(self, poll_read(cx, buffer));
        let Self { silence, place, .. } = &mut *self;
        let Some(Silence { timer, came, patience }) = silence else { return read };
        *came += buffer.filled().len() - before;
        if *came >= PREFACE {
            (*silence, place.new) = (None, None);
            return read;
        }
        if read.is_pending() && timer.as_mut().poll(cx).is_ready() {
            if place.new.take().is_none() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(Instant::now() + *patience);
            cx.waker().wake_by_ref();
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_socket!(self, poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_socket!(self, poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Socket::Plain(stream) => stream.is_write_vectored(),
            Socket::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn no_more_than_allowed_are_open_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections =
            std::pin::pin!(connections(listener, Limits { all: 1, per_address: 1 }, None));
        let _clients = [TcpStream::connect(address).await, TcpStream::connect(address).await];
        let first = connections.next().await.unwrap().unwrap();
        let patience = Duration::from_millis(200);
        assert!(timeout(patience, connections.next()).await.is_err());
        drop(first);
        assert!(timeout(patience, connections.next()).await.is_ok());
    }

    fn room(places: usize, new: usize) -> Room {
        Room::new(places, AddressLimit::new(places, new), new)
    }

    /// The next connection with its turn as a new one.
    async fn begun(listener: &TcpListener, room: &Room) -> ((TcpStream, SocketAddr), Place) {
        let (stream, address, place) = accept(listener, room).await.unwrap();
        ((stream, address), place.begin(room.new.clone()).await.unwrap())
    }

    #[tokio::test]
    async fn connection_beyond_the_address_limit_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let room = Room::new(9, AddressLimit::new(1, 1), 9);
        let mut clients = [(); 2].map(|()| std::net::TcpStream::connect(address).unwrap());
        let first = accept(&listener, &room).await.unwrap();
        assert!(timeout(NEW_FOR, accept(&listener, &room)).await.is_err());
        assert_eq!(std::io::Read::read(&mut clients[1], &mut [0]).unwrap(), 0, "it is closed");
        drop(first);
        let _client = std::net::TcpStream::connect(address).unwrap();
        assert!(accept(&listener, &room).await.is_some());
    }

    #[tokio::test]
    async fn the_next_one_waits_until_one_has_said_something_but_not_for_long() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, room) = (listener.local_addr().unwrap(), room(9, 1));
        for says_something in [true, false] {
            let mut clients = Vec::new();
            for _ in 0..2 {
                clients.push(TcpStream::connect(address).await.unwrap());
            }
            let (stream, place) = begun(&listener, &room).await;
            let mut connection = open(stream, place, None, SILENCE).await.unwrap();
            let mut next = pin!(begun(&listener, &room));
            assert!(timeout(NEW_FOR, &mut next).await.is_err(), "it waits");
            if says_something {
                clients[0].write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
            }
            let reading = tokio::spawn(async move {
                let _ = connection.read_exact(&mut [0; PREFACE + 1]).await;
            });
            assert!(timeout(SILENCE / 2, next).await.is_ok());
            reading.abort();
        }
    }

    #[tokio::test]
    async fn who_does_not_show_the_protocol_in_time_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, room) = (listener.local_addr().unwrap(), room(2, 2));
        let patience = Duration::from_millis(100);
        for (said, is_closed) in
            [(&b""[..], true), (b"PRI * HTTP", true), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false)]
        {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(said).await.unwrap();
            let (stream, place) = begun(&listener, &room).await;
            let mut connection = open(stream, place, None, patience).await.unwrap();
            let mut came = vec![0; said.len()];
            connection.read_exact(&mut came).await.unwrap();
            let more = timeout(NEW_FOR + patience * 3, connection.read_u8()).await;
            assert_eq!(more.is_ok(), is_closed, "{said:?}: {more:?}");
        }
    }
}
