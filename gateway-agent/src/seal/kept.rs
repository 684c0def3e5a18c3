//! The key on disk, beside the cache, for what outlives the process: clients keep the ids of tasks, and come
//! back with them after a restart.
//!
//! Deliberately absent: another key in the place of one that cannot be read; somebody may want it back.

use std::{fs, io, path::Path};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::{Sealer, random_key};
use crate::cache::{beside, replace_private};

impl Sealer {
    /// With the key beside this cache, which is made where there is none. Where it can be neither
    /// read nor made, which is logged, the key ends with the process. Blocks.
    pub(crate) fn kept(cache: &Path) -> Self {
        let path = beside(cache, ".key");
        match open(&path) {
            Ok(key) => Self::with(&key),
            Err(e) => {
                tracing::error!(
                    path = %path.display(),
                    "the key for the ids of tasks cannot be used: {e}. Tasks that were begun before \
                     are unknown now, and those that are begun now will be after a restart. Correct \
                     the file, or delete it for a new key, and start the gateway again"
                );
                Self::random()
            }
        }
    }
}

fn open(path: &Path) -> io::Result<[u8; 32]> {
    match fs::read_to_string(path) {
        Ok(text) => decoded(&text),
        Err(e) if e.kind() == io::ErrorKind::NotFound => made(path),
        Err(e) => Err(e),
    }
}

fn decoded(text: &str) -> io::Result<[u8; 32]> {
    let invalid = || io::Error::other("it must have 32 bytes in base64url (43 characters)");
    let bytes = URL_SAFE_NO_PAD.decode(text.trim()).map_err(|_| invalid())?;
    bytes.try_into().map_err(|_| invalid())
}

fn made(path: &Path) -> io::Result<[u8; 32]> {
    let key = random_key().map_err(io::Error::other)?;
    replace_private(path, format!("{}\n", URL_SAFE_NO_PAD.encode(key)).as_bytes())?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_was_sealed_before_a_restart_opens_after_it() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("registry.json");
        let sealed = Sealer::kept(&cache).seal(b"a", b"content").unwrap();
        assert_eq!(Sealer::kept(&cache).open(b"a", &sealed).unwrap(), b"content");
        let path = directory.path().join("registry.json.key");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        let elsewhere = Sealer::kept(&directory.path().join("other.json"));
        assert_eq!(elsewhere.open(b"a", &sealed), None);
    }

    #[test]
    fn a_key_that_is_damaged_is_left_alone_and_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("registry.json");
        let path = directory.path().join("registry.json.key");
        for damaged in ["", "AAAA", "!", &"A".repeat(44)] {
            fs::write(&path, damaged).unwrap();
            let unkept = Sealer::kept(&cache);
            let sealed = unkept.seal(b"a", b"content").unwrap();
            assert_eq!(unkept.open(b"a", &sealed).unwrap(), b"content", "it still works");
            assert_eq!(Sealer::kept(&cache).open(b"a", &sealed), None);
            assert_eq!(fs::read_to_string(&path).unwrap(), damaged);
        }
    }
}
