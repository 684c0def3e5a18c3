//! The key file: the gateway's own next to the cache, or one shared by several gateways.
//!
//! Each line contains a key in base64url. The first one encrypts, all decrypt. In its own file the
//! gateway stores the creation time of each key, and rotates the key after [`ROTATION`]. A key
//! without a time was set by an operator and is not rotated.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use atomic_file::{Access, with_suffix};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tokio::{task::spawn_blocking, time::sleep};

use super::{Key, Sealer, random_key};
use crate::clock;

/// Age after which the gateway rotates its own key.
const ROTATION: Duration = Duration::from_hours(30 * 24);
/// Number of keys in the gateway's own file. An id is valid for at least twice [`ROTATION`].
const GENERATED_KEYS: usize = 3;
/// Maximum number of keys.
const MAX_KEYS: usize = 8;
/// Maximum file size, in bytes.
const FILE_BYTES: u64 = 4096;
/// Polling interval of the file.
const REFRESH: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
pub(crate) struct KeyFile {
    path: PathBuf,
    /// Whether the file belongs to the gateway, which creates it and rotates the key.
    is_own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct KeyEntry {
    key: Key,
    /// Creation time by the gateway, in Unix seconds.
    created: Option<u64>,
}

impl KeyFile {
    /// `sessionKeyFile`, or the file next to the cache.
    pub(crate) fn new(configured: Option<&Path>, cache: &Path) -> Self {
        match configured {
            Some(path) => Self { path: path.to_owned(), is_own: false },
            None => Self { path: with_suffix(cache, ".key"), is_own: true },
        }
    }

    /// Creates a sealer with the keys of the file. If the file can be neither read nor created,
    /// logs an error and uses a temporary key. Blocks.
    pub(crate) fn open(&self) -> Sealer {
        match self.load(clock::now()) {
            Ok(keys) => Sealer::with(&keys),
            Err(e) => {
                tracing::error!(
                    path = %self.path.display(),
                    "cannot use the key file of session and task ids: {e}. Ids become invalid at a restart. \
                     Correct the file, or delete it to create a new key"
                );
                Sealer::random()
            }
        }
    }

    /// Reads the file every [`REFRESH`], and rotates the gateway's own key.
    pub(crate) async fn refresh(self, sealer: Arc<Sealer>) {
        let mut is_broken = false;
        loop {
            sleep(REFRESH).await;
            let file = self.clone();
            match spawn_blocking(move || file.load(clock::now())).await {
                Ok(Ok(keys)) => {
                    is_broken = false;
                    sealer.replace(&keys);
                }
                Ok(Err(e)) if !std::mem::replace(&mut is_broken, true) => {
                    let path = self.path.display();
                    tracing::warn!(%path, "cannot reload the key file of session and task ids, the current keys stay in use: {e}");
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    fn load(&self, now: SystemTime) -> io::Result<Vec<Key>> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut entries = match read(&self.path) {
            Err(e) if self.is_own && e.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let needs_rotation = match entries.first() {
            None => true,
            Some(KeyEntry { created: Some(created), .. }) => {
                now.saturating_sub(*created) >= ROTATION.as_secs()
            }
            Some(KeyEntry { created: None, .. }) => false,
        };
        if self.is_own && needs_rotation {
            entries.insert(
                0,
                KeyEntry { key: random_key().map_err(io::Error::other)?, created: Some(now) },
            );
            entries.truncate(GENERATED_KEYS);
            atomic_file::replace(&self.path, text(&entries).as_bytes(), Access::OwnerOnly)?;
        }
        Ok(entries.into_iter().map(|entry| entry.key).collect())
    }
}

/// Validates a configured file. Blocks.
pub(crate) fn check(path: &Path) -> Result<(), String> {
    read(path).map(drop).map_err(|e| e.to_string())
}

fn read(path: &Path) -> io::Result<Vec<KeyEntry>> {
    let found = fs::metadata(path)?;
    if !found.is_file() || found.len() > FILE_BYTES {
        return Err(io::Error::other(format!(
            "must be a regular file of at most {FILE_BYTES} bytes"
        )));
    }
    let text = fs::read_to_string(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let entries: Vec<_> = lines
        .map(|(index, line)| {
            let told =
                || format!("line {} must be 32 bytes in base64url (43 characters)", index + 1);
            entry(line).ok_or_else(|| io::Error::other(told()))
        })
        .collect::<Result<_, _>>()?;
    if entries.is_empty() || entries.len() > MAX_KEYS {
        return Err(io::Error::other(format!("must have 1 to {MAX_KEYS} keys, one per line")));
    }
    Ok(entries)
}

fn entry(line: &str) -> Option<KeyEntry> {
    let mut words = line.split_whitespace();
    let key = URL_SAFE_NO_PAD.decode(words.next()?).ok()?.try_into().ok()?;
    let created = words.next().map(str::parse).transpose().ok()?;
    words.next().is_none().then_some(KeyEntry { key, created })
}

fn text(entries: &[KeyEntry]) -> String {
    let mut text = String::new();
    for KeyEntry { key, created } in entries {
        text.push_str(&URL_SAFE_NO_PAD.encode(key));
        if let Some(created) = created {
            let _ = write!(text, " {created}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    fn key_file_in(directory: &TempDir) -> KeyFile {
        KeyFile { path: directory.path().join("registry.json.key"), is_own: true }
    }

    fn after(time: Duration) -> SystemTime {
        UNIX_EPOCH + Duration::from_hours(24) + time
    }

    #[test]
    fn id_opens_after_restart() {
        let directory = tempfile::tempdir().unwrap();
        let file = key_file_in(&directory);
        let sealed = file.open().seal(b"a", b"content").unwrap();
        assert_eq!(file.open().open(b"a", &sealed).unwrap(), b"content");
        assert_eq!(fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn own_key_is_rotated_and_opens_for_two_periods() {
        let directory = tempfile::tempdir().unwrap();
        let file = key_file_in(&directory);
        let first = file.load(after(Duration::ZERO)).unwrap();
        let almost = after(ROTATION) - Duration::from_secs(1);
        assert_eq!(file.load(almost).unwrap(), first);
        let second = file.load(after(ROTATION)).unwrap();
        assert_eq!((second.len(), second[1]), (2, first[0]));
        let third = file.load(after(2 * ROTATION)).unwrap();
        assert_eq!(third[1..], second[..]);
        let fourth = file.load(after(3 * ROTATION)).unwrap();
        assert_eq!((fourth.len(), &fourth[1..]), (GENERATED_KEYS, &third[..2]));
    }

    #[test]
    fn shared_file_is_read_and_never_written() {
        let directory = tempfile::tempdir().unwrap();
        let file = KeyFile { is_own: false, ..key_file_in(&directory) };
        assert_eq!(file.load(after(ROTATION)).unwrap_err().kind(), io::ErrorKind::NotFound);
        let written = format!("{}\n\n{} 5\n", "A".repeat(43), "B".repeat(42) + "A");
        fs::write(&file.path, &written).unwrap();
        assert_eq!(file.load(after(ROTATION)).unwrap().len(), 2);
        assert_eq!(fs::read_to_string(&file.path).unwrap(), written);
    }

    #[test]
    fn operators_key_is_not_rotated() {
        let directory = tempfile::tempdir().unwrap();
        let file = key_file_in(&directory);
        fs::write(&file.path, "A".repeat(43)).unwrap();
        assert_eq!(file.load(after(9 * ROTATION)).unwrap(), [[0; 32]]);
    }

    #[test]
    fn damaged_file_is_left_alone_and_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let file = key_file_in(&directory);
        let many = format!("{}\n", "A".repeat(43)).repeat(MAX_KEYS + 1);
        for damaged in ["", "AAAA", "!", &"A".repeat(44), &format!("{} x", "A".repeat(43)), &many] {
            fs::write(&file.path, damaged).unwrap();
            let unkept = file.open();
            let id = unkept.seal(b"a", b"content").unwrap();
            assert_eq!(unkept.open(b"a", &id).unwrap(), b"content", "it still works");
            assert_eq!(file.open().open(b"a", &id), None);
            assert_eq!(fs::read_to_string(&file.path).unwrap(), damaged);
            assert!(check(&file.path).is_err(), "{damaged}");
        }
    }
}
