//! A gateway process, with its crash marks on disk.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use acceptance::Process;
use history_check::{BudgetEvent, Event};
use serde_json::Value;
use tokio::{
    sync::{Mutex, watch},
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{answer::CALL_TIMEOUT_MS, catalog::BANK};
use crate::{
    corruption::Corruption, history_writer::HistoryWriter, link::Link, rng::Rng, shim::Shim,
};

/// The cache of the catalog. The crash marks are in the same directory.
const CACHE: &str = "registry-v2.json";
const MARKS: &str = "registry-v2.json.spend";
/// Time limit of the compensations after a restart.
const SAGAS: Duration = Duration::from_secs(30);
/// Time limit of the first catalog.
const READY: Duration = Duration::from_secs(30);

/// The crash marks after a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    Kept,
    Lost,
    Torn,
}

/// The configuration of a gateway.
#[derive(Debug, Clone)]
pub(crate) struct GatewaySetup {
    pub(crate) dir: PathBuf,
    /// The principal of its token. Two gateways may share it.
    pub(crate) principal: String,
    pub(crate) token: String,
    /// The file of the key that all gateways share.
    pub(crate) session_key: PathBuf,
    /// The URL of the backend.
    pub(crate) backend: String,
    pub(crate) shim: Option<Shim>,
}

/// One gateway. A clone is the same one.
#[derive(Debug, Clone)]
pub(crate) struct FleetGateway {
    pub(crate) name: String,
    /// One proxy to each server.
    pub(crate) links: Vec<Link>,
    setup: GatewaySetup,
    history: Arc<HistoryWriter>,
    process: Arc<Mutex<Option<Process>>>,
    /// The address for callers; empty while it does not run.
    address: watch::Sender<String>,
    /// The offset of `CLOCK_BOOTTIME` in seconds.
    suspended: Arc<Mutex<i64>>,
    /// Whether the crash marks of a process were lost.
    has_lost: Arc<AtomicBool>,
}

impl FleetGateway {
    pub(crate) async fn start(
        index: usize,
        setup: GatewaySetup,
        links: Vec<Link>,
        history: Arc<HistoryWriter>,
    ) -> Self {
        let name = format!("gateway-{index}");
        write_config(&name, &setup, &links);
        let gateway = Self {
            name,
            links,
            setup,
            history,
            process: Arc::default(),
            address: watch::Sender::new(String::new()),
            suspended: Arc::default(),
            has_lost: Arc::default(),
        };
        gateway.restart().await;
        gateway
    }

    /// The URL for callers, if it runs.
    pub(crate) fn url(&self) -> Option<String> {
        let address = self.address.borrow();
        (!address.is_empty()).then(|| format!("http://{}/mcp", *address))
    }

    /// Waits for the first catalog.
    pub(crate) async fn ready(&self) {
        let url = format!("http://{}/readyz", *self.address.borrow());
        let deadline = Instant::now() + READY;
        while !reqwest::get(&url).await.is_ok_and(|answer| answer.status().is_success()) {
            assert!(Instant::now() < deadline, "{} has no catalog", self.name);
            sleep(Duration::from_millis(25)).await;
        }
    }

    /// Kills the process, and damages its crash marks.
    pub(crate) async fn kill_9(&self, marks: Marks, rng: &mut Rng) {
        let mut process = self.process.lock().await;
        let Some(mut killed) = process.take() else { return };
        killed.kill_9();
        self.address.send_replace(String::new());
        self.history.note(&self.name, Event::Killed {});
        let path = self.setup.dir.join("cache").join(MARKS);
        let is_lost = match marks {
            Marks::Kept => false,
            Marks::Lost => fs::remove_file(&path).is_ok(),
            Marks::Torn => Corruption::Torn.file(&path, rng),
        };
        if is_lost {
            self.has_lost.store(true, Ordering::Relaxed);
            let gateway = self.setup.principal.clone();
            self.note(BudgetEvent::MarksLost { gateway });
        }
    }

    /// Whether crash marks of this principal were lost here.
    pub(crate) fn has_lost_marks(&self, principal: &str) -> bool {
        self.setup.principal == principal && self.has_lost.load(Ordering::Relaxed)
    }

    /// Starts it unless it runs.
    pub(crate) async fn restart(&self) {
        let mut process = self.process.lock().await;
        if process.is_some() {
            return;
        }
        let setup = self.setup.clone();
        let start = move || {
            Process::start("gateway-agent", &setup.dir, |command| {
                command.arg("--config").arg(setup.dir.join("gateway.yaml"));
                command.args(["--log-format", "json"]);
                command.env("GATEWAY_REGISTRY_TOKEN", &setup.token);
                if let Some(shim) = &setup.shim {
                    shim.put_under(command);
                }
            })
        };
        let started = spawn_blocking(start).await.expect("the gateway starts");
        self.history.note(&self.name, Event::Started { revision: None });
        self.address.send_replace(started.address());
        *process = Some(started);
    }

    /// SIGSTOP or SIGCONT.
    pub(crate) async fn signal(&self, signal: &str) {
        if let Some(process) = &*self.process.lock().await {
            process.signal(signal);
        }
    }

    /// Lets `CLOCK_BOOTTIME` jump ahead. Returns false without a C compiler.
    pub(crate) async fn suspend(&self, seconds: i64) -> bool {
        let Some(shim) = &self.setup.shim else { return false };
        let mut suspended = self.suspended.lock().await;
        *suspended += seconds;
        shim.suspend(*suspended);
        true
    }

    /// Waits until no saga is running or compensated.
    pub(crate) async fn sagas_end(&self) {
        let deadline = Instant::now() + SAGAS;
        while self.has_open_saga().await {
            if Instant::now() > deadline {
                let fault = format!("a saga of {} does not end", self.name);
                let event = Event::Fault { fault, repeats: false, resends: false };
                self.history.note(&self.name, event);
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Whether a saga has not ended, or its state is unknown.
    async fn has_open_saga(&self) -> bool {
        let is_start = |event: &Value| event["target"] == "gateway_agent::server";
        let starts = self.events().into_iter().filter(is_start);
        let mut addresses = starts.filter_map(|event| event["address"].as_str().map(str::to_owned));
        let Some(address) = addresses.next_back() else { return true };
        let Ok(answer) = reqwest::get(format!("http://{address}/admin/sagas")).await else {
            return true;
        };
        let listed: Value = answer.json().await.unwrap_or_default();
        let is_open =
            |saga: &Value| saga["status"] == "running" || saga["status"] == "compensating";
        listed["sagas"].as_array().is_none_or(|sagas| sagas.iter().any(is_open))
    }

    /// The log of all its processes.
    fn events(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.setup.dir.join("gateway-agent.stderr.log"));
        let lines = log.unwrap_or_default();
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The audit log of all its processes.
    pub(crate) fn audit_events(&self) -> Vec<Value> {
        let mut events = self.events();
        events.retain(|event| event["target"] == "audit");
        events
    }

    fn note(&self, budget: BudgetEvent) {
        self.history.note(&self.name, Event::Budget { budget });
    }
}

fn write_config(name: &str, setup: &GatewaySetup, links: &[Link]) {
    let cache = setup.dir.join("cache");
    fs::create_dir_all(&cache).expect("a directory of our own");
    let yaml = config(name, setup, links, &cache.join(CACHE));
    fs::write(setup.dir.join("gateway.yaml"), yaml).expect("a file of our own");
}

fn config(name: &str, setup: &GatewaySetup, links: &[Link], cache: &Path) -> String {
    let addresses: Vec<&str> = links.iter().map(|link| link.address.as_str()).collect();
    format!(
        "name: {name}\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\nidentity: {{ trustHeaders: true }}\n\
         limits: {{ callTimeoutMs: {CALL_TIMEOUT_MS} }}\nsessionKeyFile: {}\n\
         registry:\n  source: grpc://{}\n  cache: {}\n\
         targets:\n  - {{ server: {BANK}, version: \"*\", http: \"{}\" }}\n",
        setup.session_key.display(),
        addresses.join(","),
        cache.display(),
        setup.backend,
    )
}
