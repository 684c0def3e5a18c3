//! The key that signs checkpoints, read from a file or created at the first start.
//!
//! The file is PKCS #8 in PEM, the format of `openssl genpkey -algorithm ed25519`. The database stores the
//! public key, so a server with a different key does not start. Automatic key rotation is not supported:
//! an operator replaces the key and informs the auditors.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    signature::Ed25519KeyPair,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use registry_core::{Checkpoint, RegistryId};

use crate::{
    key_file,
    store::{self, NewAccessEvent, Store},
};

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// A key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be read or created.
    #[error("cannot read or create the checkpoint key {path:?}: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// The failure.
        reason: io::Error,
    },
    /// A file with other content.
    #[error(
        "{0:?} is not an Ed25519 private key (PKCS #8, PEM); create one with `openssl genpkey -algorithm \
         ed25519`"
    )]
    Invalid(PathBuf),
    /// A key other than the registered one.
    #[error(
        "the checkpoint key {path:?} does not match this registry: its public key is {actual}, expected \
         {expected}. Pass the key file of the other servers of this database (--checkpoint-key) or \
         restore it from a backup. If the key is lost, run `registry-server checkpoint-key replace` \
         and inform auditors"
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// Public key of the file.
        actual: String,
        /// Public key in the database.
        expected: String,
    },
    /// The database of a relay, which has no signing key.
    #[error(
        "the database is a relay's copy of registry {0}. Start the server with --follow, or with another \
         database (--data-dir, --database). If that registry is lost permanently, turn this copy into \
         the registry with `registry-server checkpoint-key replace --promote-relay`"
    )]
    Relay(RegistryId),
    /// A database failure.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Reads the key, or creates one with mode 0600. Concurrent calls return the same key.
pub fn open(path: &Path) -> Result<Ed25519KeyPair, Error> {
    let failed = |reason| Error::File { path: path.to_owned(), reason };
    let pem = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if create(path).map_err(failed)? {
                tracing::warn!(file.path = %path.display(), "created a new checkpoint key");
            }
            fs::read_to_string(path)
        }
        read => read,
    };
    read(&pem.map_err(failed)?).ok_or_else(|| Error::Invalid(path.to_owned()))
}

/// Rejects the database of a relay. With its own key it would be a second registry with the same id.
pub async fn reject_relay(store: &Store) -> Result<(), Error> {
    if store.is_relay().await? {
        return Err(Error::Relay(store.registry().clone()));
    }
    Ok(())
}

/// Registers the first key of a database, and rejects every other key later.
pub async fn register_or_compare(
    store: &Store,
    path: &Path,
    pair: &Ed25519KeyPair,
) -> Result<(), Error> {
    let actual = Checkpoint::verifier_key(store.registry(), pair).to_string();
    let expected = store.checkpoint_key(&actual).await?;
    if expected == actual {
        return Ok(());
    }
    Err(Error::Other { path: path.to_owned(), actual, expected })
}

/// Registers this key instead of the previous one. Returns both public keys, the new one first.
pub async fn replace(
    store: &Store,
    pair: &Ed25519KeyPair,
    event: NewAccessEvent,
) -> Result<(String, String), Error> {
    let key = Checkpoint::verifier_key(store.registry(), pair).to_string();
    let previous = store.checkpoint_key(&key).await?;
    let event = NewAccessEvent { detail: format!("previous key {previous}"), ..event };
    store.replace_checkpoint_key(&key, &event).await?;
    Ok((key, previous))
}

/// Creates the file. Returns false if another process created it first.
fn create(path: &Path) -> io::Result<bool> {
    let pair = Ed25519KeyPair::generate().map_err(io::Error::other)?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(io::Error::other)?;
    key_file::create(path, &format!("{BEGIN}\n{}\n{END}\n", BASE64.encode(der.as_ref())))
}

fn read(pem: &str) -> Option<Ed25519KeyPair> {
    let (_, rest) = pem.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let body: String = body.split_whitespace().collect();
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(&BASE64.decode(body).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use aws_lc_rs::signature::KeyPair as _;

    use super::*;

    #[test]
    fn key_file_is_created_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("checkpoint.key");
        let created = open(&path).unwrap();
        let read = open(&path).unwrap();
        assert_eq!(created.public_key().as_ref(), read.public_key().as_ref());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let files = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 1, "no temporary file remains");
        fs::write(&path, "something else").unwrap();
        assert!(matches!(open(&path), Err(Error::Invalid(_))));
        assert!(matches!(open(directory.path()), Err(Error::File { .. })));
    }
    #[test]
    fn concurrent_starts_share_one_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("checkpoint.key");
        for _ in 0..20 {
            let start = Barrier::new(4);
            let key = || {
                start.wait();
                open(&path).unwrap().public_key().as_ref().to_vec()
            };
            let keys: Vec<_> = thread::scope(|scope| {
                let threads = [(); 4].map(|()| scope.spawn(key));
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(keys.iter().all(|key| *key == keys[0]));
            fs::remove_file(&path).unwrap();
        }
    }
}
