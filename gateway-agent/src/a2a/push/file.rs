//! The file of configurations beside the cache, `PATH.push`. Only its owner can read it, because it
//! has the secrets of callers. It is replaced after changes.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use atomic_file::{Access, with_suffix};
use registry_core::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::{task::spawn_blocking, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{config::Registration, store::PushConfigs};

const FORMAT: &str = "gateway-push-v1";
/// Maximum size of the file, in bytes; above that of all configurations.
const FILE_BYTES: u64 = 256 * 1024 * 1024;
/// Delay that combines bursts of changes.
const BATCH_DELAY: Duration = Duration::from_millis(200);
/// Delay before a failed write is retried.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Serialize)]
struct Written<'a> {
    format: &'static str,
    configs: Vec<&'a Registration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    format: String,
    configs: Vec<Registration>,
}

/// Keeps the configurations on disk.
#[derive(Debug)]
pub(crate) struct PushFile {
    path: PathBuf,
    configs: Arc<PushConfigs>,
    is_failing: bool,
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
        let file = PushFile { path, configs: Arc::clone(&configs), is_failing: false };
        Ok((configs, file))
    }
}

impl PushFile {
    /// Writes changes until `stop`, then flushes.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.configs.changed.notified() => {
                    stop.run_until_cancelled(sleep(BATCH_DELAY)).await;
                }
            }
            while !self.flush().await && !stop.is_cancelled() {
                stop.run_until_cancelled(sleep(RETRY)).await;
            }
            if stop.is_cancelled() {
                return;
            }
        }
    }

    /// Writes all configurations if one has changed. Returns whether the disk is up to date.
    async fn flush(&mut self) -> bool {
        let Some(configs) = self.configs.take_changes() else { return true };
        let path = self.path.clone();
        let written = spawn_blocking(move || {
            let configs = configs.iter().map(|registration| &**registration).collect();
            let text = serde_json::to_vec(&Written { format: FORMAT, configs })?;
            atomic_file::replace(&path, &text, Access::OwnerOnly)
        });
        let outcome = written.await.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()));
        let path = self.path.display().to_string();
        match outcome {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(
                        path,
                        "writing the push notification configurations works again"
                    );
                }
                true
            }
            Err(e) => {
                self.configs.write_again();
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(
                        path,
                        "cannot write the push notification configurations, a restart would forget \
                         the latest ones; retrying every {} s: {e}",
                        RETRY.as_secs(),
                    );
                }
                false
            }
        }
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
    if format != FORMAT {
        return Err(invalid(format!("the format is not {FORMAT}")));
    }
    Ok(configs)
}

#[cfg(test)]
mod tests {
    use super::{
        super::store::tests::{at, registration},
        *,
    };

    #[tokio::test]
    async fn configurations_survive_a_restart_privately() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("registry.json");
        let (configs, file) = PushConfigs::open(&cache, at(1)).unwrap();
        configs.insert(registration("a", "1", "t"), at(1)).unwrap().created();
        let mut unanswered = registration("a", "2", "t");
        unanswered.task = None;
        let _pending = configs.insert(unanswered, at(1)).unwrap();
        let stop = CancellationToken::new();
        stop.cancel();
        file.run(stop).await;
        let path = directory.path().join("registry.json.push");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let (again, _) = PushConfigs::open(&cache, at(1)).unwrap();
        let restored = again.find("1").unwrap();
        assert_eq!(restored.token.expose(), "token");
        assert_eq!(restored.client.shown("t"), configs.find("1").unwrap().client.shown("t"));
        assert!(again.find("2").is_none());
        fs::write(&path, "{}").unwrap();
        assert!(PushConfigs::open(&cache, at(1)).is_err());
    }
}
