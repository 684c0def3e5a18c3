//! The key that signs checkpoints: read from its file, or made there at the first start.
//!
//! PKCS #8 in PEM, as `openssl genpkey -algorithm ed25519` writes it. The database remembers the
//! public key, so that no other one signs by accident. Automatic key rotation is not supported: an
//! operator adopts another key and informs the auditors.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use aws_lc_rs::{
    encoding::{AsDer as _, Pkcs8V1Der},
    signature::Ed25519KeyPair,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use registry_core::{Checkpoint, RegistryId};
use uuid::Uuid;

use crate::store::{self, Store};

const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("the checkpoint key {path:?} cannot be read or made: {reason}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: io::Error,
    },
    /// The file holds something else.
    #[error(
        "{0:?} holds no Ed25519 private key in PEM (PKCS #8); openssl genpkey -algorithm ed25519 writes one"
    )]
    NoKey(PathBuf),
    /// Another key signed before.
    #[error(
        "the checkpoint key {path:?} is not the one that signs for this registry: it is {ours}, auditors \
         know {known}; name the file that the other servers of this database have \
         (--checkpoint-key), or bring it back from a backup; only where it is lost, accept the new \
         one with `registry-server checkpoint-key adopt`, and tell auditors"
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// Its public key.
        ours: String,
        /// The public key that the database remembers.
        known: String,
    },
    /// The database is a relay's, which signs nothing.
    #[error(
        "the database is a relay's copy of the registry {0}, whose log goes on elsewhere: start the server \
         with --follow, or on a database of its own (--data-dir, --database); only where that registry is \
         lost for good, make this copy the registry with `registry-server checkpoint-key adopt \
         --promote-relay`"
    )]
    Relay(RegistryId),
    /// The database.
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// Reads the key, or makes one that only its owner may read. Several may do so at once: all get the
/// same one.
pub fn open(path: &Path) -> Result<Ed25519KeyPair, Error> {
    let failed = |reason| Error::File { path: path.to_owned(), reason };
    let pem = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if make(path).map_err(failed)? {
                tracing::warn!(file.path = %path.display(), "made a new key that signs checkpoints");
            }
            fs::read_to_string(path)
        }
        read => read,
    };
    read(&pem.map_err(failed)?).ok_or_else(|| Error::NoKey(path.to_owned()))
}

/// Refuses a database whose states another registry signs: with a key of its own it would be a second
/// registry of that name.
pub async fn refuse_relay(store: &Store) -> Result<(), Error> {
    if store.is_relay().await? {
        return Err(Error::Relay(store.registry().clone()));
    }
    Ok(())
}

/// Refuses a key that is not the one by which the database's checkpoints are known.
pub async fn recognise(store: &Store, path: &Path, pair: &Ed25519KeyPair) -> Result<(), Error> {
    let ours = Checkpoint::verifier_key(store.registry(), pair).to_string();
    let known = store.checkpoint_key(&ours).await?;
    if known == ours {
        return Ok(());
    }
    Err(Error::Other { path: path.to_owned(), ours, known })
}

/// Makes this the key by which the database's checkpoints are known; and what it was before.
pub async fn adopt(store: &Store, pair: &Ed25519KeyPair) -> Result<(String, String), Error> {
    let ours = Checkpoint::verifier_key(store.registry(), pair).to_string();
    let before = store.checkpoint_key(&ours).await?;
    store.replace_checkpoint_key(&ours).await?;
    Ok((ours, before))
}

/// Writes a new key beside the file and links it to its place, so that there never is half a key.
/// False: somebody else was first.
fn make(path: &Path) -> io::Result<bool> {
    let pair = Ed25519KeyPair::generate().map_err(io::Error::other)?;
    let der: Pkcs8V1Der<'_> = pair.as_der().map_err(io::Error::other)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".{}", Uuid::now_v7()));
    let linked =
        write(Path::new(&beside), der.as_ref()).and_then(|()| fs::hard_link(&beside, path));
    // It may not be there.
    let _ = fs::remove_file(&beside);
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn read(pem: &str) -> Option<Ed25519KeyPair> {
    let (_, rest) = pem.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let body: String = body.split_whitespace().collect();
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(&BASE64.decode(body).ok()?).ok()
}

fn write(path: &Path, der: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(file, "{BEGIN}\n{}\n{END}", BASE64.encode(der))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::{sync::Barrier, thread};

    use aws_lc_rs::signature::KeyPair as _;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("checkpoint.key");
        let made = open(&path).unwrap();
        let read = open(&path).unwrap();
        assert_eq!(made.public_key().as_ref(), read.public_key().as_ref());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        let files = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 1, "nothing is left beside it");
        fs::write(&path, "something else").unwrap();
        assert!(matches!(open(&path), Err(Error::NoKey(_))));
        assert!(matches!(open(directory.path()), Err(Error::File { .. })));
    }
    #[test]
    fn several_that_start_at_once_have_one_key() {
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
