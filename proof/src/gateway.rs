//! A gateway process with its cache on disk. Changes of its revision and cache are recorded.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use acceptance::Process;
use history_check::{Event, log::digits};
use tokio::{
    sync::{Mutex, watch},
    task::spawn_blocking,
    time::sleep,
};

use crate::{corruption::Corruption, history_writer::HistoryWriter, rng::Rng};

/// The polling interval.
const LOOK: Duration = Duration::from_millis(150);
/// The files of a cache.
const FILES: [&str; 2] = ["registry-v2.json", "registry-v2.json.previous"];
const JOURNAL: &str = "registry-v2.json.log";

/// One gateway. A clone is the same one.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    history: Arc<HistoryWriter>,
    state: Arc<Mutex<State>>,
    /// The served and the persisted revision.
    at: watch::Sender<(u64, u64)>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Process>,
    /// The last recorded content of the cache.
    cache: String,
    /// Corrupted contents of files, which may stay on disk for a while.
    spoiled: HashSet<String>,
    served: u64,
}

impl Gateway {
    /// Starts a gateway with this registry configuration.
    pub(crate) async fn start(
        index: usize,
        dir: PathBuf,
        (registry, history): (String, Arc<HistoryWriter>),
    ) -> Self {
        let name = format!("gateway-{index}");
        write_config(&dir, &name, &registry);
        let state = Arc::default();
        let gateway = Self { name, dir, history, state, at: watch::Sender::new((0, 0)) };
        gateway.restart().await;
        gateway
    }

    /// The directory of its cache.
    pub(crate) fn cache(&self) -> PathBuf {
        self.dir.join("cache")
    }

    /// Kills the gateway, records its cache, corrupts it, and records it again.
    pub(crate) async fn kill_9(&self, corruption: Corruption, rng: &mut Rng) {
        let mut state = self.state.lock().await;
        let Some(mut process) = state.process.take() else { return };
        process.kill_9();
        self.history.note(&self.name, Event::Killed {});
        for file in [FILES[0], FILES[1], JOURNAL] {
            let path = self.cache().join(file);
            // Sometimes the previous file is corrupted too.
            let wanted =
                if file == FILES[0] || rng.chance(40) { corruption } else { Corruption::Nothing };
            let is_spoiled = wanted.file(&path, rng);
            let content = if file == JOURNAL { read_digits(&path) } else { read(&path) };
            if let Some(content) = content {
                if is_spoiled {
                    state.spoiled.insert(content.clone());
                }
                self.note_cache(file, content, &state);
            }
        }
        state.cache.clear();
        state.served = 0;
    }

    /// SIGSTOP or SIGCONT.
    pub(crate) async fn signal(&self, signal: &str) {
        if let Some(process) = &self.state.lock().await.process {
            process.signal(signal);
        }
    }

    /// Starts it unless it runs.
    pub(crate) async fn restart(&self) {
        let mut state = self.state.lock().await;
        if state.process.is_some() {
            return;
        }
        let dir = self.dir.clone();
        let start = move || {
            Process::start("gateway-agent", &dir, |command| {
                command.arg("--config").arg(dir.join("gateway.yaml"));
            })
        };
        let process = spawn_blocking(start).await.expect("the gateway starts");
        let revision = loaded(&process.greeting);
        self.history.note(&self.name, Event::Started { revision });
        state.process = Some(process);
    }

    /// Polls the gateway until dropped.
    pub(crate) async fn watch(self) {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(1)).build();
        let client = client.expect("a client");
        loop {
            self.look(&client).await;
            sleep(LOOK).await;
        }
    }

    /// The last recorded served and persisted revisions.
    pub(crate) fn at(&self) -> (u64, u64) {
        *self.at.borrow()
    }

    async fn look(&self, client: &reqwest::Client) {
        let mut state = self.state.lock().await;
        let Some(process) = &state.process else { return };
        let url = format!("http://{}/metrics", process.address());
        let Some((revision, persisted)) = revisions(client, &url).await else { return };
        if revision != state.served {
            state.served = revision;
            self.history.note(&self.name, Event::Serves { revision });
        }
        if let Some(content) = read(&self.cache().join(FILES[0]))
            && content != state.cache
        {
            state.cache.clone_from(&content);
            self.note_cache(FILES[0], content, &state);
        }
        self.at.send_replace((revision, persisted));
    }

    fn note_cache(&self, file: &str, content: String, state: &State) {
        let (file, spoiled) = (file.to_owned(), state.spoiled.contains(&content));
        self.history.note(&self.name, Event::Cache { file, content, spoiled });
    }
}

/// Reads the served and the persisted revision.
async fn revisions(client: &reqwest::Client, url: &str) -> Option<(u64, u64)> {
    let text = client.get(url).send().await.ok()?.text().await.ok()?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line?.parse().ok()
    };
    Some((number("gateway_catalog_revision")?, number("gateway_catalog_persisted_revision")?))
}

/// A file as text, if it exists.
fn read(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A file as hexadecimal digits, if it exists.
fn read_digits(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| digits(&bytes))
}

/// The revision in `(catalog revision 7 from cache)`.
fn loaded(greeting: &str) -> Option<u64> {
    let (_, rest) = greeting.split_once("catalog revision ")?;
    rest.split_whitespace().next()?.parse().ok()
}

fn write_config(dir: &Path, name: &str, registry: &str) {
    let cache = dir.join("cache").join(FILES[0]);
    let yaml = format!(
        "name: {name}\nlisten: 127.0.0.1:0\nregistry:\n{registry}  cache: {}\n",
        cache.display()
    );
    fs::create_dir_all(dir.join("cache")).expect("a directory of our own");
    fs::write(dir.join("gateway.yaml"), yaml).expect("a file of our own");
}
