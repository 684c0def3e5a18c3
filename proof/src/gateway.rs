//! A gateway of a history: a real process with its cache on disk. What it says that it serves and
//! what its cache holds are written down as they change.

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

use crate::{book::Book, rng::Rng, spoil::Spoil};

/// How often a gateway is looked at.
const LOOK: Duration = Duration::from_millis(150);
/// The files of a cache.
const FILES: [&str; 2] = ["registry-v2.json", "registry-v2.json.previous"];
const JOURNAL: &str = "registry-v2.json.log";

/// One gateway. A clone is the same one.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    book: Arc<Book>,
    state: Arc<Mutex<State>>,
    /// The revisions that it serves and that it has on disk.
    at: watch::Sender<(u64, u64)>,
}

#[derive(Debug, Default)]
struct State {
    process: Option<Process>,
    /// The last seen content of the cache.
    cache: String,
    /// What the nemesis made of files; it may stay on the disk for a while.
    spoiled: HashSet<String>,
    served: u64,
}

impl Gateway {
    /// Starts a gateway with these lines about its registry.
    pub(crate) async fn start(
        index: usize,
        dir: PathBuf,
        (registry, book): (String, Arc<Book>),
    ) -> Self {
        let name = format!("gateway-{index}");
        write_config(&dir, &name, &registry);
        let state = Arc::default();
        let gateway = Self { name, dir, book, state, at: watch::Sender::new((0, 0)) };
        gateway.restart().await;
        gateway
    }

    /// The directory of its cache.
    pub(crate) fn cache(&self) -> PathBuf {
        self.dir.join("cache")
    }

    /// `kill -9`; then its cache is looked at, spoiled, and looked at again.
    pub(crate) async fn kill_9(&self, spoil: Spoil, rng: &mut Rng) {
        let mut state = self.state.lock().await;
        let Some(mut process) = state.process.take() else { return };
        process.kill_9();
        self.book.note(&self.name, Event::Killed {});
        for file in [FILES[0], FILES[1], JOURNAL] {
            let path = self.cache().join(file);
            // Sometimes the copy before it is spoiled too.
            let wanted = if file == FILES[0] || rng.chance(40) { spoil } else { Spoil::Nothing };
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
        self.book.note(&self.name, Event::Started { revision });
        state.process = Some(process);
    }

    /// Looks at it until it is dropped.
    pub(crate) async fn watch(self) {
        let client = reqwest::Client::builder().timeout(Duration::from_secs(1)).build();
        let client = client.expect("a client");
        loop {
            self.look(&client).await;
            sleep(LOOK).await;
        }
    }

    /// The revisions that it serves and that it has on disk, as last seen.
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
            self.book.note(&self.name, Event::Serves { revision });
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
        self.book.note(&self.name, Event::Cache { file, content, spoiled });
    }
}

/// The revisions that a gateway serves and that it has on disk.
async fn revisions(client: &reqwest::Client, url: &str) -> Option<(u64, u64)> {
    let text = client.get(url).send().await.ok()?.text().await.ok()?;
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line?.parse().ok()
    };
    Some((number("gateway_catalog_revision")?, number("gateway_catalog_persisted_revision")?))
}

/// A file as text; `None`: it is not there.
fn read(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A file in hexadecimal digits; `None`: it is not there.
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
