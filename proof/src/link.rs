//! A TCP proxy in front of a server with network faults: it rejects, cuts and delays connections,
//! keeps them half open, and repeats, reorders or replays data.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    time::{sleep, timeout},
};

/// The current condition of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkCondition {
    /// Every byte arrives at once.
    Fair,
    /// All connections are cut, and new ones are rejected.
    Severed,
    /// All data is delayed by these milliseconds.
    Delayed(u64),
    /// Connections stay open without data.
    Frozen,
    /// Data of the server is repeated.
    Twice,
    /// Every second chunk of the server is sent before the first.
    Swapped,
}

/// The maximum number of bytes that are kept for a replay.
const KEPT: usize = 64 * 1024;

/// A proxy in front of one address.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    upstream: Arc<Mutex<String>>,
    condition: watch::Sender<NetworkCondition>,
    /// Incremented to cut all connections.
    cuts: watch::Sender<u64>,
    /// The first bytes of the last client.
    said: Arc<Mutex<Vec<u8>>>,
}

impl Link {
    /// Starts a proxy on a free port without an upstream.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port").to_string();
        let link = Self {
            address,
            upstream: Arc::default(),
            condition: watch::Sender::new(NetworkCondition::Fair),
            cuts: watch::Sender::new(0),
            said: Arc::default(),
        };
        let accepting = link.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let link = accepting.clone();
                tokio::spawn(async move { link.serve(client).await });
            }
        });
        link
    }

    /// Sets the upstream address.
    pub(crate) fn lead_to(&self, upstream: &str) {
        upstream.clone_into(&mut lock(&self.upstream));
    }

    /// Sets the condition of current and new connections.
    pub(crate) fn set_condition(&self, condition: NetworkCondition) {
        self.condition.send_replace(condition);
        if condition == NetworkCondition::Severed {
            self.cut();
        }
    }

    /// Cuts all connections.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Replays the first bytes of the last client on a new connection.
    pub(crate) async fn replay(&self) -> io::Result<()> {
        let (upstream, said) = (lock(&self.upstream).clone(), lock(&self.said).clone());
        let mut server = TcpStream::connect(upstream).await?;
        server.write_all(&said).await?;
        let mut answer = vec![0; 4096];
        let listen = async { while let Ok(1..) = server.read(&mut answer).await {} };
        let _ = timeout(Duration::from_millis(300), listen).await;
        Ok(())
    }

    async fn serve(&self, client: TcpStream) {
        if *self.condition.borrow() == NetworkCondition::Severed {
            return;
        }
        let mut cuts = self.cuts.subscribe();
        let upstream = lock(&self.upstream).clone();
        let Ok(server) = TcpStream::connect(upstream).await else { return };
        lock(&self.said).clear();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let up = Pump { link: self.clone(), says: Side::Client };
        let down = Pump { link: self.clone(), says: Side::Server };
        tokio::select! {
            _ = up.run(from_client, to_server) => {}
            _ = down.run(from_server, to_client) => {}
            _ = cuts.changed() => {}
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// One direction of a connection.
struct Pump {
    link: Link,
    says: Side,
}

impl Pump {
    async fn run(self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        let mut condition = self.link.condition.subscribe();
        let mut buffer = vec![0; 16 * 1024];
        let mut held: Option<Vec<u8>> = None;
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            let piece = &buffer[..read];
            if self.says == Side::Client {
                self.remember(piece);
            }
            while *condition.borrow_and_update() == NetworkCondition::Frozen {
                condition.changed().await.map_err(io::Error::other)?;
            }
            let now = *condition.borrow();
            match (now, self.says) {
                (NetworkCondition::Delayed(milliseconds), _) => {
                    sleep(Duration::from_millis(milliseconds)).await;
                    to.write_all(piece).await?;
                }
                (NetworkCondition::Twice, Side::Server) => {
                    to.write_all(piece).await?;
                    to.write_all(piece).await?;
                }
                (NetworkCondition::Swapped, Side::Server) => match held.take() {
                    None => held = Some(piece.to_vec()),
                    Some(first) => {
                        to.write_all(piece).await?;
                        to.write_all(&first).await?;
                    }
                },
                _ => {
                    if let Some(first) = held.take() {
                        to.write_all(&first).await?;
                    }
                    to.write_all(piece).await?;
                }
            }
        }
    }

    fn remember(&self, piece: &[u8]) {
        let mut said = lock(&self.link.said);
        let room = KEPT.saturating_sub(said.len()).min(piece.len());
        said.extend_from_slice(&piece[..room]);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
