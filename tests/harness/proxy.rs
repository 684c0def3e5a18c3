//! A TCP proxy that cuts connections at chosen bytes, leaves them half open, or changes a text.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A proxy to one address that can break its connections.
#[derive(Debug, Clone)]
pub struct FaultProxy {
    address: SocketAddr,
    /// Bytes from the server per connection; `u64::MAX` is unlimited.
    budget: Arc<AtomicU64>,
    cuts: Arc<AtomicU64>,
    /// Whether the first cut ends all connections.
    is_fatal: Arc<AtomicBool>,
    /// The upstream address.
    upstream: watch::Sender<String>,
    /// The number of times responses were dropped.
    swallows: Arc<AtomicU64>,
    /// The text from the server to change; empty for none.
    falsified: Arc<Mutex<Vec<u8>>>,
}

impl FaultProxy {
    /// Starts a proxy on a free port.
    pub async fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let proxy = Self {
            address: listener.local_addr().expect("an address"),
            budget: Arc::new(AtomicU64::new(u64::MAX)),
            cuts: Arc::new(AtomicU64::new(0)),
            is_fatal: Arc::new(AtomicBool::new(false)),
            upstream: watch::channel(upstream.to_owned()).0,
            swallows: Arc::new(AtomicU64::new(0)),
            falsified: Arc::default(),
        };
        let accepting = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let proxy = accepting.clone();
                tokio::spawn(async move { proxy.serve(client).await });
            }
        });
        proxy
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Cuts every new connection after this many bytes from the server.
    pub fn cut_after(&self, bytes: u64) {
        self.budget.store(bytes, Ordering::SeqCst);
    }

    /// Cuts like [`Self::cut_after`]. After the first cut, no connection works until
    /// [`Self::heal`].
    pub fn fail_after(&self, bytes: u64) {
        self.is_fatal.store(true, Ordering::SeqCst);
        self.cut_after(bytes);
    }

    /// Cuts all connections and changes the upstream address.
    pub fn lead_to(&self, upstream: &str) {
        self.upstream.send_replace(upstream.to_owned());
    }

    /// Stops cutting connections.
    pub fn heal(&self) {
        self.is_fatal.store(false, Ordering::SeqCst);
        self.cut_after(u64::MAX);
    }

    /// Drops all further responses on the current connections and keeps them open. New connections
    /// work.
    pub fn swallow_answers(&self) {
        self.swallows.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes the case of the first letter of this text from the server, if it arrives in one
    /// piece. An empty text ends this.
    pub fn falsify(&self, text: &str) {
        text.as_bytes().clone_into(&mut self.falsified.lock().expect("not poisoned"));
    }

    fn falsified(&self, bytes: &mut [u8]) {
        let text = self.falsified.lock().expect("not poisoned").clone();
        let last = bytes.len().checked_sub(text.len());
        for at in last.filter(|_| !text.is_empty()).map_or(0..0, |last| 0..last + 1) {
            if bytes[at..].starts_with(&text) {
                bytes[at] ^= 0x20;
            }
        }
    }

    /// The number of cut connections.
    pub fn cuts(&self) -> u64 {
        self.cuts.load(Ordering::SeqCst)
    }

    async fn serve(&self, client: TcpStream) {
        let mut leads = self.upstream.subscribe();
        let upstream = leads.borrow_and_update().clone();
        let Ok(server) = TcpStream::connect(upstream).await else { return };
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let up = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
        });
        let swallows = self.swallows.load(Ordering::SeqCst);
        let mut left = self.budget.load(Ordering::SeqCst);
        let mut buffer = vec![0; 16 * 1024];
        loop {
            let read = tokio::select! {
                read = from_server.read(&mut buffer) => read,
                _ = leads.changed() => break,
            };
            let Ok(read @ 1..) = read else { break };
            if self.swallows.load(Ordering::SeqCst) > swallows {
                continue;
            }
            self.falsified(&mut buffer[..read]);
            let pass = usize::try_from(left).unwrap_or(usize::MAX).min(read);
            if to_client.write_all(&buffer[..pass]).await.is_err() {
                break;
            }
            if pass < read {
                self.cuts.fetch_add(1, Ordering::SeqCst);
                if self.is_fatal.load(Ordering::SeqCst) {
                    self.cut_after(0);
                }
                break;
            }
            left = left.saturating_sub(pass as u64);
        }
        up.abort();
    }
}
