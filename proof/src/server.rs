//! A registry server of a history, or a relay, which is one too: started, killed, paused and started
//! again at the same address.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use acceptance::Process;
use history_check::Event;
use tokio::{
    sync::{Mutex, MutexGuard},
    task::spawn_blocking,
    time::sleep,
};

use crate::{book::Book, link::Link, shim::Shim};

/// How long a server may take to start once nothing is in its way.
const PATIENCE: Duration = Duration::from_secs(20);

/// The ways to a server, each through a proxy of its own.
#[derive(Debug, Clone)]
pub(crate) struct Ways {
    /// For writers and readers.
    pub(crate) calls: Link,
    /// For followers.
    pub(crate) streams: Link,
    /// For gateways.
    pub(crate) fleet: Link,
    /// For relays.
    pub(crate) relays: Link,
}

/// How a server is started.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) dir: PathBuf,
    pub(crate) database: String,
    pub(crate) flags: Vec<String>,
    /// Of a relay: whose log it copies.
    pub(crate) follow: Option<String>,
    pub(crate) shim: Option<Shim>,
}

/// One server. A clone is the same one.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) ways: Ways,
    setup: Setup,
    book: Arc<Book>,
    running: Arc<Mutex<Running>>,
}

#[derive(Debug)]
pub(crate) struct Running {
    process: Option<Process>,
    listen: String,
}

impl Server {
    pub(crate) async fn start(index: usize, setup: Setup, book: Arc<Book>) -> Self {
        let ways = Ways {
            calls: Link::start().await,
            streams: Link::start().await,
            fleet: Link::start().await,
            relays: Link::start().await,
        };
        let running = Running { process: None, listen: "127.0.0.1:0".to_owned() };
        let running = Arc::new(Mutex::new(running));
        let kind = if setup.follow.is_some() { "relay" } else { "server" };
        let server = Self { name: format!("{kind}-{index}"), ways, setup, book, running };
        server.restart().await;
        server
    }

    /// The shim under it, where there is one.
    pub(crate) fn shim(&self) -> Option<&Shim> {
        self.setup.shim.as_ref()
    }

    /// The database of its own that a relay has.
    pub(crate) fn copy(&self) -> Option<&str> {
        self.setup.follow.as_ref().map(|_| self.setup.database.as_str())
    }

    /// `kill -9`.
    pub(crate) async fn kill_9(&self) {
        let mut running = self.lock().await;
        if let Some(mut process) = running.process.take() {
            process.kill_9();
            self.book.note(&self.name, Event::Killed {});
        }
    }

    /// SIGSTOP or SIGCONT.
    pub(crate) async fn signal(&self, signal: &str) {
        if let Some(process) = &self.lock().await.process {
            process.signal(signal);
        }
    }

    /// Starts it unless it runs; tries again while its database is away.
    pub(crate) async fn restart(&self) {
        let mut running = self.lock().await;
        let deadline = Instant::now() + PATIENCE;
        while running.process.is_none() {
            match self.spawn(running.listen.clone()).await {
                Ok(process) => {
                    running.listen = process.address();
                    let Ways { calls, streams, fleet, relays } = &self.ways;
                    for way in [calls, streams, fleet, relays] {
                        way.lead_to(&running.listen);
                    }
                    running.process = Some(process);
                    self.book.note(&self.name, Event::Started { revision: None });
                }
                Err(e) if Instant::now() > deadline => panic!("{} never starts: {e}", self.name),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().await
    }

    async fn spawn(&self, listen: String) -> Result<Process, String> {
        let setup = self.setup.clone();
        let start = move || {
            Process::try_start("registry-server", &setup.dir, |command| {
                command.args(["--listen", &listen, "--database", &setup.database]);
                command.arg("--data-dir").arg(&setup.dir).args(&setup.flags);
                command.env("REGISTRY_CHECKPOINT_KEY", setup.dir.with_file_name("checkpoint.key"));
                if let Some(registry) = &setup.follow {
                    command.args(["--follow", registry]);
                }
                if let Some(shim) = &setup.shim {
                    shim.put_under(command);
                }
            })
        };
        spawn_blocking(start).await.expect("starting a program does not panic")
    }
}
