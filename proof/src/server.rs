//! A registry server or relay that is started, killed, paused and restarted at the same address.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use acceptance::{Process, process::FailedStart};
use history_check::Event;
use tokio::{
    sync::{Mutex, MutexGuard},
    task::spawn_blocking,
    time::sleep,
};

use crate::{history_writer::HistoryWriter, link::Link, shim::Shim};

/// Time limit of a start without faults.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Separate proxies to a server for each kind of client.
#[derive(Debug, Clone)]
pub(crate) struct ServerLinks {
    /// For writers and readers.
    pub(crate) calls: Link,
    /// For followers.
    pub(crate) streams: Link,
    /// For gateways.
    pub(crate) fleet: Link,
    /// For relays.
    pub(crate) relays: Link,
}

/// The configuration of a server.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) dir: PathBuf,
    pub(crate) database: String,
    pub(crate) flags: Vec<String>,
    /// The source of a relay.
    pub(crate) follow: Option<String>,
    pub(crate) shim: Option<Shim>,
}

/// One server. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) links: ServerLinks,
    setup: Setup,
    history: Arc<HistoryWriter>,
    running: Arc<Mutex<Running>>,
}

#[derive(Debug)]
pub(crate) struct Running {
    process: Option<Process>,
    listen: String,
}

impl Server {
    pub(crate) async fn start(index: usize, setup: Setup, history: Arc<HistoryWriter>) -> Self {
        let links = ServerLinks {
            calls: Link::start().await,
            streams: Link::start().await,
            fleet: Link::start().await,
            relays: Link::start().await,
        };
        let running = Running { process: None, listen: "127.0.0.1:0".to_owned() };
        let running = Arc::new(Mutex::new(running));
        let kind = if setup.follow.is_some() { "relay" } else { "server" };
        let server = Self { name: format!("{kind}-{index}"), links, setup, history, running };
        server.restart().await;
        server
    }

    /// The clock shim, if any.
    pub(crate) fn shim(&self) -> Option<&Shim> {
        self.setup.shim.as_ref()
    }

    /// Shifts the clock for a time. Returns whether it can be shifted.
    pub(crate) async fn shift_clock(&self, seconds: i64, lasts: Duration) -> bool {
        let Some(shim) = self.shim() else { return false };
        shim.jump(seconds);
        sleep(lasts).await;
        shim.jump(0);
        true
    }

    /// The database of a relay.
    pub(crate) fn copy(&self) -> Option<&str> {
        self.setup.follow.as_ref().map(|_| self.setup.database.as_str())
    }

    /// `kill -9`.
    pub(crate) async fn kill_9(&self) {
        let mut running = self.lock().await;
        if let Some(mut process) = running.process.take() {
            process.kill_9();
            self.history.note(&self.name, Event::Killed {});
        }
    }

    /// SIGSTOP or SIGCONT.
    pub(crate) async fn signal(&self, signal: &str) {
        if let Some(process) = &self.lock().await.process {
            process.signal(signal);
        }
    }

    /// Starts the server if it is not running. Retries while its database is unavailable.
    pub(crate) async fn restart(&self) {
        let mut running = self.lock().await;
        let deadline = Instant::now() + TIMEOUT;
        while running.process.is_none() {
            match self.spawn(running.listen.clone()).await {
                Ok(process) => {
                    running.listen = process.address();
                    let ServerLinks { calls, streams, fleet, relays } = &self.links;
                    for link in [calls, streams, fleet, relays] {
                        link.lead_to(&running.listen);
                    }
                    running.process = Some(process);
                    self.history.note(&self.name, Event::Started { revision: None });
                }
                Err(e) if Instant::now() > deadline => panic!("{} never starts: {e}", self.name),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
        }
    }

    async fn lock(&self) -> MutexGuard<'_, Running> {
        self.running.lock().await
    }

    async fn spawn(&self, listen: String) -> Result<Process, FailedStart> {
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
