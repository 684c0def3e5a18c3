//! A TCP proxy in front of a server that breaks connections in every way that a network can: it
//! refuses and cuts them, holds them up, lets them stand half open, and hands bytes on twice, in
//! another order, or once more on a connection of their own.

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

/// How the network is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Every byte arrives at once.
    Fair,
    /// No connection lives, none is made.
    Severed,
    /// Everything takes so many milliseconds longer.
    Delayed(u64),
    /// Connections stand, and nothing passes.
    Frozen,
    /// What the server says is handed on twice.
    Twice,
    /// Of what the server says, each second piece is handed on before the first.
    Swapped,
}

/// The most bytes of a connection that are kept to be said once more.
const KEPT: usize = 64 * 1024;

/// A proxy in front of one address.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    upstream: Arc<Mutex<String>>,
    weather: watch::Sender<Weather>,
    /// Goes up when all connections are to be cut.
    cuts: watch::Sender<u64>,
    /// What the last client said first.
    said: Arc<Mutex<Vec<u8>>>,
}

impl Link {
    /// Starts a proxy on a free port; it leads nowhere yet.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound port").to_string();
        let link = Self {
            address,
            upstream: Arc::default(),
            weather: watch::Sender::new(Weather::Fair),
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

    /// Leads to this address from now on.
    pub(crate) fn lead_to(&self, upstream: &str) {
        upstream.clone_into(&mut lock(&self.upstream));
    }

    /// Changes the weather, also for connections that stand.
    pub(crate) fn turn(&self, weather: Weather) {
        self.weather.send_replace(weather);
        if weather == Weather::Severed {
            self.cut();
        }
    }

    /// Cuts all connections that stand.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Says once more, on a connection of its own, what the last client said first.
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
        if *self.weather.borrow() == Weather::Severed {
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
        let mut weather = self.link.weather.subscribe();
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
            while *weather.borrow_and_update() == Weather::Frozen {
                weather.changed().await.map_err(io::Error::other)?;
            }
            let now = *weather.borrow();
            match (now, self.says) {
                (Weather::Delayed(milliseconds), _) => {
                    sleep(Duration::from_millis(milliseconds)).await;
                    to.write_all(piece).await?;
                }
                (Weather::Twice, Side::Server) => {
                    to.write_all(piece).await?;
                    to.write_all(piece).await?;
                }
                (Weather::Swapped, Side::Server) => match held.take() {
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
