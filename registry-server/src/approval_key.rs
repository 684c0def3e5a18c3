//! The key of approvals, read from a file or created at the first start.
//!
//! It encrypts the arguments that approvers see, and is the source of the key of the digests of arguments. The database
//! stores its fingerprint only, so that a copy of the database reveals no arguments.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

use aws_lc_rs::{hmac, rand};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use registry_core::Digest;

use crate::{
    key_file,
    store::{self, Store},
};

/// File name, next to the checkpoint key.
pub const FILE: &str = "approval.key";
const BYTES: usize = 32;

/// A key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be read or created.
    #[error(
        "cannot read or create the approval key {path:?}: {reason}; it is next to the checkpoint key \
         (--checkpoint-key). Allow the server to create it, or copy it from another server"
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The failure.
        reason: io::Error,
    },
    /// A file with other content.
    #[error(
        "{0:?} is not an approval key: 32 bytes in base64, such as the output of `openssl rand -base64 32`"
    )]
    Invalid(PathBuf),
    /// A key other than the registered one.
    #[error(
        "the approval key {path:?} does not match this registry: its fingerprint is {actual}, expected \
         {expected}. Copy the file of another server of this database, or restore it from a backup. If \
         the key is lost, run `registry-server checkpoint-key replace` and restart the servers: the \
         arguments of stored requests are then unreadable, standing grants end, and approved calls must \
         be requested again"
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// The fingerprint of the file.
        actual: String,
        /// The fingerprint in the database.
        expected: String,
    },
    /// A database failure.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// The key of approvals.
pub struct ApprovalKey(hmac::Key);

impl ApprovalKey {
    /// Wraps 32 random bytes.
    pub fn new(bytes: &[u8; BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// A key for one purpose.
    pub fn derive(&self, purpose: &str) -> [u8; BYTES] {
        let mut derived = [0; BYTES];
        // The tag of HMAC-SHA256 has this length.
        derived.copy_from_slice(hmac::sign(&self.0, purpose.as_bytes()).as_ref());
        derived
    }

    fn fingerprint(&self) -> String {
        Digest::compute(&self.derive("approval fingerprint 1")).to_string()
    }
}

impl fmt::Debug for ApprovalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApprovalKey")
    }
}

/// Reads the key, or creates one with mode 0600. Concurrent calls return the same key.
pub fn open(path: &Path) -> Result<ApprovalKey, Error> {
    let failed = |reason| Error::File { path: path.to_owned(), reason };
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if create(path).map_err(failed)? {
                tracing::warn!(file.path = %path.display(), "created a new approval key");
            }
            fs::read_to_string(path)
        }
        read => read,
    };
    let bytes = BASE64.decode(text.map_err(failed)?.trim()).ok();
    let bytes: Option<[u8; BYTES]> = bytes.and_then(|bytes| bytes.try_into().ok());
    bytes.map(|bytes| ApprovalKey::new(&bytes)).ok_or_else(|| Error::Invalid(path.to_owned()))
}

/// Registers the first key of a database, and rejects every other key later.
pub async fn register_or_compare(
    store: &Store,
    path: &Path,
    key: &ApprovalKey,
) -> Result<(), Error> {
    let actual = key.fingerprint();
    let expected = store.approval_key(&actual).await?;
    if expected == actual {
        return Ok(());
    }
    Err(Error::Other { path: path.to_owned(), actual, expected })
}

fn create(path: &Path) -> io::Result<bool> {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).map_err(io::Error::other)?;
    key_file::create(path, &format!("{}\n", BASE64.encode(bytes)))
}

#[cfg(test)]
mod tests {
    use registry_core::Timestamp;

    use super::*;
    use crate::store::{DatabaseUrl, NewAccessEvent};

    #[test]
    fn key_file_is_created_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let (created, read) = (open(&path).unwrap(), open(&path).unwrap());
        assert_eq!(created.fingerprint(), read.fingerprint());
        assert_ne!(created.derive("a"), created.derive("b"));
        for text in ["", "something else", &BASE64.encode([7; 31])] {
            fs::write(&path, text).unwrap();
            assert!(matches!(open(&path), Err(Error::Invalid(_))), "{text}");
        }
        assert!(matches!(open(directory.path()), Err(Error::File { .. })));
    }

    #[tokio::test]
    async fn database_rejects_other_key_until_replacement() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let url = DatabaseUrl::sqlite(directory.path().join("registry.db"));
        let store = Store::open(&url).await.unwrap();
        let compare = async |byte: u8| {
            register_or_compare(&store, &path, &ApprovalKey::new(&[byte; BYTES])).await
        };
        assert!(compare(1).await.is_ok() && compare(1).await.is_ok());
        assert!(matches!(compare(2).await, Err(Error::Other { .. })));
        let event = NewAccessEvent {
            at: Timestamp::EPOCH,
            principal: "root".to_owned(),
            method: "local".to_owned(),
            address: String::new(),
            detail: String::new(),
        };
        store.replace_checkpoint_key("another checkpoint key", &event).await.unwrap();
        assert!(compare(2).await.is_ok() && compare(1).await.is_err());
    }
}
