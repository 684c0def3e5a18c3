//! Connections: bounded in number, and closed where nobody says which protocol they speak.
//!
//! Deliberately absent: the time that a request's head, body or answer may take; the protocols see
//! to that.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, StreamExt as _, future::ready, stream};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

use super::{Peer, tls::Tls};

/// How long a connection may take to show its protocol.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes that tell the protocol: the preface of HTTP/2 (RFC 9113 section 3.4).
const PREFACE: usize = 24;
/// How long to wait when no connection can be accepted (no file descriptors, say).
const BREATHER: Duration = Duration::from_millis(100);

/// Accepts for ever, but never more than `most` at once; others wait in the kernel's queue. Nobody
/// waits for another's handshake.
pub(super) fn connections(
    listener: TcpListener,
    most: usize,
    tls: Option<Tls>,
) -> impl Stream<Item = io::Result<Connection>> {
    let room = Arc::new(Semaphore::new(most));
    stream::unfold((listener, room), |(listener, room)| async move {
        let accepted = accept(&listener, &room).await?;
        Some((accepted, (listener, room)))
    })
    .map(move |(stream, place)| open(stream, place, tls.clone(), SILENCE))
    .buffer_unordered(most)
    .filter_map(|opened| ready(opened.map(Ok)))
}

/// A connection whose caller finishes the handshake in time.
async fn open(
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    tls: Option<Tls>,
    patience: Duration,
) -> Option<Connection> {
    let (address, local) = (stream.peer_addr().ok(), stream.local_addr().ok());
    let (stream, certificate) = match tls {
        None => (Socket::Plain(stream), None),
        Some(tls) => {
            let stream = timeout(patience, tls.accept(stream)).await.ok()??;
            let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let certificate = shown.map(|certificate| Arc::new(certificate.clone().into_owned()));
            (Socket::Tls(Box::new(stream)), certificate)
        }
    };
    let silence = Some((Box::pin(sleep(patience)), 0));
    let peer = Peer { address, local, certificate };
    Some(Connection { stream, peer, silence, _place: place })
}

/// A shortage is told once, not ten times a second.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(room).acquire_owned().await.ok()?;
    let mut is_told = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                // Without it answers wait for acknowledgements; where it fails they do.
                let _ = stream.set_nodelay(true);
                return Some((stream, place));
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
pub(super) struct Connection {
    stream: Socket,
    peer: Peer,
    /// Until the protocol is known: when to give up, and the bytes that came.
    silence: Option<(Pin<Box<Sleep>>, usize)>,
    _place: OwnedSemaphorePermit,
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
        let Some((deadline, came)) = &mut self.silence else { return read };
        *came += buffer.filled().len() - before;
        if *came >= PREFACE {
            self.silence = None;
        } else if read.is_pending() && deadline.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
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
        let mut connections = std::pin::pin!(connections(listener, 1, None));
        let _clients = [TcpStream::connect(address).await, TcpStream::connect(address).await];
        let first = connections.next().await.unwrap().unwrap();
        let patience = Duration::from_millis(200);
        assert!(timeout(patience, connections.next()).await.is_err());
        drop(first);
        assert!(timeout(patience, connections.next()).await.is_ok());
    }

    #[tokio::test]
    async fn who_does_not_show_the_protocol_in_time_is_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, room) = (listener.local_addr().unwrap(), Arc::new(Semaphore::new(2)));
        let patience = Duration::from_millis(100);
        for (said, is_closed) in
            [(&b""[..], true), (b"PRI * HTTP", true), (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false)]
        {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(said).await.unwrap();
            let (stream, place) = accept(&listener, &room).await.unwrap();
            let mut connection = open(stream, place, None, patience).await.unwrap();
            let mut came = vec![0; said.len()];
            connection.read_exact(&mut came).await.unwrap();
            let more = timeout(patience * 3, connection.read_u8()).await;
            assert_eq!(more.is_ok(), is_closed, "{said:?}: {more:?}");
        }
    }
}
