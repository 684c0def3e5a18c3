//! The registrations of a gateway without a registry: a registry file in the data directory, which
//! `registryctl apply` accepts. The discovery of MCP servers adds them to its catalog.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use atomic_file::{Access, parent_directory};
use registry_core::{Kind, Name, document::parse_json};
use registry_import::Draft;
use serde_json::Value;
use tokio::sync::watch;

use super::{NotRegistered, content::Documents};
use crate::files::read_text;

/// Maximum size of the file, in bytes.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// The documents of each data agent.
pub type LocalAgents = Arc<BTreeMap<Name, Draft>>;

/// The registrations in a file.
#[derive(Debug)]
pub struct LocalRegistrations {
    file: PathBuf,
    agents: watch::Sender<LocalAgents>,
    /// Serializes writes.
    writing: Mutex<()>,
}

impl LocalRegistrations {
    /// Opens a file. A missing one has no registrations.
    pub fn open(file: PathBuf) -> io::Result<Self> {
        let agents = match read_text(&file, FILE_BYTES) {
            Ok(text) => read(&text)?,
            Err(e) if e.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return Err(e),
        };
        Ok(Self { file, agents: watch::channel(Arc::new(agents)).0, writing: Mutex::new(()) })
    }

    /// Subscribes to the registrations.
    pub fn subscribe(&self) -> watch::Receiver<LocalAgents> {
        self.agents.subscribe()
    }

    /// Replaces the documents of an agent. They are on disk before the catalog has them.
    ///
    /// The write is not stopped if its caller disconnects: a later one must not start without it.
    pub(super) async fn put(
        self: &Arc<Self>,
        name: &Name,
        documents: Documents,
    ) -> Result<(), NotRegistered> {
        documents.parse()?;
        let (this, name) = (Arc::clone(self), name.clone());
        let writing = tokio::task::spawn_blocking(move || this.replace(name, documents.0));
        let written = writing.await.unwrap_or_else(|e| Err(io::Error::other(e)));
        written.map_err(|e| NotRegistered::Unavailable(format!("{}: {e}", self.file.display())))
    }

    fn replace(&self, name: Name, documents: Draft) -> io::Result<()> {
        let _one_at_a_time = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut agents = BTreeMap::clone(&self.agents.borrow());
        agents.insert(name, documents);
        let bytes = write(&agents);
        if bytes.len() as u64 > FILE_BYTES {
            let problem = format!("the maximum is {FILE_BYTES} bytes; remove agents from the file");
            return Err(io::Error::other(problem));
        }
        std::fs::create_dir_all(parent_directory(&self.file))?;
        atomic_file::replace(&self.file, &bytes, Access::Default)?;
        self.agents.send_replace(Arc::new(agents));
        Ok(())
    }
}

fn write(agents: &BTreeMap<Name, Draft>) -> Vec<u8> {
    let mut all = Draft::default();
    for draft in agents.values() {
        all.servers.extend_from_slice(&draft.servers);
        all.tools.extend_from_slice(&draft.tools);
        all.agents.extend_from_slice(&draft.agents);
    }
    all.write()
}

fn read(text: &str) -> io::Result<BTreeMap<Name, Draft>> {
    let invalid = |problem: String| io::Error::new(ErrorKind::InvalidData, problem);
    let file = parse_json(text.as_bytes()).map_err(|e| invalid(e.to_string()))?;
    let mut agents = BTreeMap::<Name, Draft>::new();
    for (section, owner) in [("servers", "/name"), ("tools", "/source/server"), ("agents", "/name")]
    {
        for document in file[section].as_array().into_iter().flatten() {
            let name = document.pointer(owner).and_then(Value::as_str).unwrap_or_default();
            let name = Name::parse(Kind::Server, name)
                .map_err(|e| invalid(format!("{section}: the owner `{name}`: {e}")))?;
            let draft = agents.entry(name).or_default();
            let documents = match section {
                "servers" => &mut draft.servers,
                "tools" => &mut draft.tools,
                _ => &mut draft.agents,
            };
            documents.push(document.clone());
        }
    }
    Ok(agents)
}
