//! Accepts connections, with limits in total and for each address, and closes connections whose client does
//! not show its protocol in time. The protocols limit the time of requests and responses.

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

use crate::{
    metrics,
    peer::{FollowerCount, Peer},
};

/// Time for a client to show its protocol.
const PROTOCOL_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that identify the protocol: the HTTP/2 preface (RFC 9113, section 3.4).
const PREFACE: usize = 24;
/// Maximum concurrent new connections. When thousands arrive at once, the rest wait, so that established
/// connections are not delayed.
const MAX_NEW: usize = 256;
/// Maximum concurrent new connections of one address.
const MAX_NEW_PER_ADDRESS: usize = MAX_NEW / 4;
/// Time during which a silent connection counts as new.
const NEW_FOR: Duration = Duration::from_millis(100);
/// Delay after a failed accept, for example without free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Bytes that are written without waiting for messages to other followers. HTTP/2 buffers up to 16 KiB.
const FULL_WRITE: usize = 8 * 1024;
/// The length of a write that begins a long message: h2 fills its buffer to this length, and adds no further message.
const LONG_MESSAGE: usize = 1024;

/// Remedy for a failure to listen on an address.
pub fn listen_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "stop the other process or choose another port",
        io::ErrorKind::AddrNotAvailable => "choose an address of this host",
        io::ErrorKind::PermissionDenied => "choose a port above 1023",
        _ => "choose another address",
    }
}

/// Maximum open connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections of all addresses. Further ones wait in the kernel's queue.
    pub(crate) all: usize,
    /// Connections of one address. Further ones are closed.
    pub(crate) per_address: usize,
}

/// Accepts connections. A slow handshake does not delay other connections.
pub(crate) fn connections(
    listener: TcpListener,
    limits: Limits,
    tls: Option<Acceptor>,
) -> impl Stream<Item = io::Result<Connection>> {
    let capacity = Capacity::new(
        limits.all,
        AddressLimit::new(limits.per_address, MAX_NEW_PER_ADDRESS),
        MAX_NEW,
    );
    stream::unfold((listener, capacity), move |(listener, capacity)| {
        let tls = tls.clone();
        async move {
            let (stream, address, permits) = accept(&listener, &capacity).await?;
            let new = Arc::clone(&capacity.new);
            let opening = async move {
                let permits = permits.begin(new).await?;
                open((stream, address), permits, tls, PROTOCOL_TIMEOUT).await
            };
            Some((opening, (listener, capacity)))
        }
    })
    .buffer_unordered(limits.all)
    .filter_map(|opened| ready(opened.map(Ok)))
}

/// Permits for open and new connections.
struct Capacity {
    open: Arc<Semaphore>,
    addresses: AddressLimit,
    new: Arc<Semaphore>,
}

impl Capacity {
    fn new(max: usize, addresses: AddressLimit, new: usize) -> Self {
        let (open, new) = (Arc::new(Semaphore::new(max)), Arc::new(Semaphore::new(new)));
        Self { open, addresses, new }
    }
}

/// Permits of one connection, released when it closes.
struct Permits {
    _any: OwnedSemaphorePermit,
    address: AddressPlace,
    /// Permits of a new connection: of its address and of all addresses.
    new: Option<[OwnedSemaphorePermit; 2]>,
}

impl Permits {
    /// Waits for the permits of a new connection.
    async fn begin(mut self, new: Arc<Semaphore>) -> Option<Self> {
        // The permit of the address comes first, so that waiting connections of one address hold no
        // permits that others need.
        self.new = Some([self.address.handshake().await?, new.acquire_owned().await.ok()?]);
        Some(self)
    }
}

/// Completes the TLS handshake, or returns `None` if it fails or times out.
async fn open(
    (stream, address): (TcpStream, SocketAddr),
    mut permits: Permits,
    tls: Option<Acceptor>,
    limit: Duration,
) -> Option<Connection> {
    let (address, local) = (Some(address), stream.local_addr().ok());
    let (stream, certificate) = match tls {
        None => (Socket::Plain(stream), None),
        Some(tls) => {
            let mut handshake = pin!(timeout(limit, tls.accept(stream)));
            let stream = if let Ok(done) = timeout(NEW_FOR, &mut handshake).await {
                done
            } else {
                permits.new = None;
                handshake.await
            };
            let stream = stream.ok()??;
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.map(|certificate| Arc::new(certificate.clone().into_owned()));
            (Socket::Tls(Box::new(stream)), certificate)
        }
    };
    let detection = Some(Detection { timer: Box::pin(sleep(NEW_FOR)), received: 0, limit });
    let peer = Peer { address, local, certificate, followers: FollowerCount::default() };
    Some(Connection { stream, peer, detection, permits, delayed: 0 })
}

/// Accepts the next connection and closes those above the limit of their address. Repeated failures are
/// logged once.
async fn accept(
    listener: &TcpListener,
    capacity: &Capacity,
) -> Option<(TcpStream, SocketAddr, Permits)> {
    let any = capacity.open.clone().acquire_owned().await.ok()?;
    let mut is_logged = false;
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let Some(of_address) = capacity.addresses.admit(address.ip()) else {
                    metrics::connection_rejected();
                    continue;
                };
                // Avoids delays by Nagle's algorithm. A failure only costs latency.
                let _ = stream.set_nodelay(true);
                return Some((
                    stream,
                    address,
                    Permits { _any: any, address: of_address, new: None },
                ));
            }
            Err(e) => {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::warn!("cannot accept connections, retrying: {e}");
                }
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Transport of a connection.
enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls a method of the socket.
macro_rules! on_socket {
    ($connection:expr, $method:ident($($argument:expr),*)) => {
        match &mut $connection.stream {
            Socket::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Socket::Tls(stream) => Pin::new(&mut **stream).$method($($argument),*),
        }
    };
}

/// An open connection with its permits.
pub(crate) struct Connection {
    stream: Socket,
    peer: Peer,
    /// `None` once the protocol is known.
    detection: Option<Detection>,
    permits: Permits,
    /// Bytes of the delayed write; `usize::MAX` from the first write until the next flush.
    delayed: usize,
}

/// State of a connection until the client has sent enough bytes to identify its protocol.
struct Detection {
    /// First the end of the new state, then the protocol timeout.
    timer: Pin<Box<Sleep>>,
    /// Received bytes.
    received: usize,
    limit: Duration,
}

impl Connection {
    /// Whether to delay a write, because other followers may add messages to it. A commit makes all followers of a
    /// connection ready, and the runtime polls the connection after each of them. Without the delay, each
    /// message needs a write of its own. A write is delayed by one turn of the scheduler as long as it grows.
    fn delays_write(&mut self, bytes: usize) -> bool {
        let is_growing = self.delayed < bytes && bytes < FULL_WRITE && bytes != LONG_MESSAGE;
        let is_delayed = is_growing && self.peer.followers.is_shared();
        self.delayed = if is_delayed { bytes } else { usize::MAX };
        is_delayed
    }
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
        let Self { detection, permits, .. } = &mut *self;
        let Some(Detection { timer, received, limit }) = detection else { return read };
        *received += buffer.filled().len() - before;
        if *received >= PREFACE {
            (*detection, permits.new) = (None, None);
            return read;
        }
        if read.is_pending() && timer.as_mut().poll(cx).is_ready() {
            if permits.new.take().is_none() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            timer.as_mut().reset(Instant::now() + *limit);
            cx.waker().wake_by_ref();
        }
        read
    }
}

/// Without vectored writes, HTTP/2 copies the frames of up to 1 KiB of all streams into one buffer. With them, each frame
/// of 256 bytes or more needs a write of its own, for example each message to a follower.
impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.delays_write(bytes.len()) {
            // Schedules the connection behind the streams that are ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        on_socket!(self, poll_write(cx, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.delayed = 0;
        on_socket!(self, poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_socket!(self, poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::poll_immediate;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn connection_limit_bounds_open_connections() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections =
            std::pin::pin!(connections(listener, Limits { all: 1, per_address: 1 }, None));
        let _clients = [TcpStream::connect(address).await, TcpStream::connect(address).await];
        let first = connections.next().await.unwrap().unwrap();
        let limit = Duration::from_millis(200);
        assert!(timeout(limit, connections.next()).await.is_err());
        drop(first);
        assert!(timeout(limit, connections.next()).await.is_ok());
    }

    fn capacity(open: usize, new: usize) -> Capacity {
        Capacity::new(open, AddressLimit::new(open, new), new)
    }

    /// Accepts a connection and waits for its permits.
    async fn begun(
        listener: &TcpListener,
        capacity: &Capacity,
    ) -> ((TcpStream, SocketAddr), Permits) {
        let (stream, address, permits) = accept(listener, capacity).await.unwrap();
        ((stream, address), permits.begin(capacity.new.clone()).await.unwrap())
    }

    #[tokio::test]
    async fn connection_beyond_the_address_limit_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let capacity = Capacity::new(9, AddressLimit::new(1, 1), 9);
        let mut clients = [(); 2].map(|()| std::net::TcpStream::connect(address).unwrap());
        let first = accept(&listener, &capacity).await.unwrap();
        assert!(timeout(NEW_FOR, accept(&listener, &capacity)).await.is_err());
        assert_eq!(
            std::io::Read::read(&mut clients[1], &mut [0]).unwrap(),
            0,
            "the server closed it"
        );
        drop(first);
        let _client = std::net::TcpStream::connect(address).unwrap();
        assert!(accept(&listener, &capacity).await.is_some());
    }

    #[tokio::test]
    async fn new_connection_waits_for_a_silent_one_briefly() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, capacity) = (listener.local_addr().unwrap(), capacity(9, 1));
        for sends_bytes in [true, false] {
            let mut clients = Vec::new();
            for _ in 0..2 {
                clients.push(TcpStream::connect(address).await.unwrap());
            }
            let (stream, permits) = begun(&listener, &capacity).await;
            let mut connection = open(stream, permits, None, PROTOCOL_TIMEOUT).await.unwrap();
            let mut next = pin!(begun(&listener, &capacity));
            assert!(timeout(NEW_FOR, &mut next).await.is_err(), "it waits");
            if sends_bytes {
                clients[0].write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
            }
            let reading = tokio::spawn(async move {
                let _ = connection.read_exact(&mut [0; PREFACE + 1]).await;
            });
            assert!(timeout(PROTOCOL_TIMEOUT / 2, next).await.is_ok());
            reading.abort();
        }
    }

    /// Whether one poll writes the bytes.
    async fn writes(connection: &mut Connection, bytes: &[u8]) -> bool {
        poll_immediate(connection.write(bytes)).await.is_some()
    }

    #[tokio::test]
    async fn write_to_several_followers_waits_while_it_grows() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, capacity) = (listener.local_addr().unwrap(), capacity(1, 1));
        let _client = TcpStream::connect(address).await.unwrap();
        let (stream, permits) = begun(&listener, &capacity).await;
        let mut connection = open(stream, permits, None, PROTOCOL_TIMEOUT).await.unwrap();
        // Afterwards the socket accepts bytes without waiting.
        connection.write_all(b"settings").await.unwrap();
        connection.flush().await.unwrap();

        let count = connection.peer.followers.clone();
        let _first = count.add();
        assert!(writes(&mut connection, b"1").await, "one follower");
        connection.flush().await.unwrap();
        let second = count.add();
        for (bytes, is_written) in [(&b"1"[..], false), (b"12", false), (b"12", true), (b"3", true)]
        {
            assert_eq!(writes(&mut connection, bytes).await, is_written, "{bytes:?}");
        }
        connection.flush().await.unwrap();
        assert!(writes(&mut connection, &[0; FULL_WRITE]).await, "a full write");
        connection.flush().await.unwrap();
        assert!(writes(&mut connection, &[0; LONG_MESSAGE]).await, "a long message");
        connection.flush().await.unwrap();
        let woken = timeout(PROTOCOL_TIMEOUT, connection.write_all(b"1")).await;
        woken.expect("the delayed write is woken").unwrap();
        connection.flush().await.unwrap();
        assert!(!writes(&mut connection, b"1").await, "after a flush");
        drop(second);
        assert!(writes(&mut connection, b"12").await, "one follower is left");
    }

    #[tokio::test]
    async fn connection_without_protocol_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, capacity) = (listener.local_addr().unwrap(), capacity(2, 2));
        let limit = Duration::from_millis(100);
        for (sent, is_closed) in
            [(&b""[..], true), (b"PRI * HTTP", true), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false)]
        {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(sent).await.unwrap();
            let (stream, permits) = begun(&listener, &capacity).await;
            let mut connection = open(stream, permits, None, limit).await.unwrap();
            let mut received = vec![0; sent.len()];
            connection.read_exact(&mut received).await.unwrap();
            let more = timeout(NEW_FOR + limit * 3, connection.read_u8()).await;
            assert_eq!(more.is_ok(), is_closed, "{sent:?}: {more:?}");
        }
    }
}
