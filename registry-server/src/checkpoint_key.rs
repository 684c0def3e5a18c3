//! The key that signs checkpoints: read from its file, or made there at the first start.
//!
//! PKCS #8 in PEM, as `openssl genpkey -algorithm ed25519` writes it. Deliberately absent: rotation;
//! whoever replaces the file tells auditors the new public key.

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
}

/// Reads the key, or makes one that only its owner may read.
pub fn open(path: &Path) -> Result<Ed25519KeyPair, Error> {
    let failed = |reason| Error::File { path: path.to_owned(), reason };
    match fs::read_to_string(path) {
        Ok(pem) => read(&pem).ok_or_else(|| Error::NoKey(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let pair = Ed25519KeyPair::generate().map_err(|e| failed(io::Error::other(e)))?;
            let der: Pkcs8V1Der<'_> = pair.as_der().map_err(|e| failed(io::Error::other(e)))?;
            write(path, der.as_ref()).map_err(failed)?;
            tracing::info!(file.path = %path.display(), "made a key that signs checkpoints");
            Ok(pair)
        }
        Err(error) => Err(failed(error)),
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
        fs::write(&path, "something else").unwrap();
        assert!(matches!(open(&path), Err(Error::NoKey(_))));
        assert!(matches!(open(directory.path()), Err(Error::File { .. })));
    }
}
