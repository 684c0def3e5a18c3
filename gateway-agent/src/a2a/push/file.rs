//! The file of configurations beside the cache, `PATH.push`. Only its owner can read it, because it
//! has the secrets of callers. It is replaced after changes.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use atomic_file::{Access, with_suffix};
use registry_core::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;

use super::{config::Registration, store::PushConfigs};
use crate::batched_file::BatchedFile;

const FORMAT: &str = "gateway-push-v2";
/// The format whose configurations belong to credentials. The ids of their tasks are no longer
/// valid, so that the file is read as an empty one.
const OBSOLETE_FORMAT: &str = "gateway-push-v1";
/// Maximum size of the file, in bytes; above that of all configurations.
const FILE_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Serialize)]
struct Written<'a> {
    format: &'static str,
    configs: Vec<&'a Registration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    format: String,
    configs: Box<RawValue>,
}

/// Keeps the configurations on disk.
#[derive(Debug)]
pub(crate) struct PushFile {
    path: PathBuf,
    configs: Arc<PushConfigs>,
}

impl PushConfigs {
    /// Reads the configurations beside a cache. Blocks.
    pub(crate) fn open(cache: &Path, now: Timestamp) -> io::Result<(Arc<Self>, PushFile)> {
        let path = with_suffix(cache, ".push");
        let configs = Arc::<Self>::default();
        match fs::File::open(&path) {
            Ok(file) => configs.restore(read(file)?, now),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        // The restored configurations are on disk.
        configs.take_changes();
        let file = PushFile { path, configs: Arc::clone(&configs) };
        Ok((configs, file))
    }
}

impl BatchedFile for PushFile {
    const CONTENT: &'static str = "the push notification configurations";

    fn path(&self) -> &Path {
        &self.path
    }

    async fn changed(&self) {
        self.configs.changed.notified().await;
    }

    /// Writes all configurations if one has changed.
    async fn write(&mut self) -> io::Result<()> {
        let Some(configs) = self.configs.take_changes() else { return Ok(()) };
        let path = self.path.clone();
        let written = spawn_blocking(move || {
            let configs = configs.iter().map(|registration| &**registration).collect();
            let text = serde_json::to_vec(&Written { format: FORMAT, configs })?;
            atomic_file::replace(&path, &text, Access::OwnerOnly)
        });
        let outcome = written.await.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()));
        if outcome.is_err() {
            self.configs.write_again();
        }
        outcome
    }
}

fn read(file: fs::File) -> io::Result<Vec<Registration>> {
    let mut text = Vec::new();
    file.take(FILE_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_BYTES {
        return Err(io::Error::other(format!("the file has more than {FILE_BYTES} bytes")));
    }
    // The message of the parser can contain a secret.
    let invalid = |why: String| io::Error::other(format!("the file is invalid: {why}"));
    let Read { format, configs } = serde_json::from_slice(&text)
        .map_err(|e| invalid(format!("line {}, column {}", e.line(), e.column())))?;
    let unreadable = |e: serde_json::Error| invalid(format!("column {} of `configs`", e.column()));
    match format.as_str() {
        FORMAT => serde_json::from_str(configs.get()).map_err(unreadable),
        OBSOLETE_FORMAT => Ok(Vec::new()),
        _ => Err(invalid(format!("the format is not {FORMAT}"))),
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::{
        super::store::tests::{at, insert, registration},
        *,
    };
    use crate::batched_file::write_batches;

    #[tokio::test]
    async fn configurations_survive_a_restart_privately() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("registry.json");
        let (configs, file) = PushConfigs::open(&cache, at(1)).unwrap();
        insert(&configs, registration("a", "1", "t"), at(1)).unwrap().created();
        let mut unanswered = registration("a", "2", "t");
        unanswered.task = None;
        let _pending = insert(&configs, unanswered, at(1)).unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        write_batches(file, stop).await;
        let path = directory.path().join("registry.json.push");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let (again, _) = PushConfigs::open(&cache, at(1)).unwrap();
        let restored = again.find("1", at(1)).unwrap();
        assert_eq!(restored.token.expose(), "token");
        assert_eq!(restored.client.shown("t"), configs.find("1", at(1)).unwrap().client.shown("t"));
        assert!(again.find("2", at(1)).is_none());
        fs::write(&path, r#"{"format":"gateway-push-v1","configs":[{}]}"#).unwrap();
        let (again, _) = PushConfigs::open(&cache, at(1)).unwrap();
        assert!(again.find("1", at(1)).is_none(), "configurations of credentials are dropped");
        fs::write(&path, "{}").unwrap();
        assert!(PushConfigs::open(&cache, at(1)).is_err());
    }
}
