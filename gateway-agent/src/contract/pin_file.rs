//! The pin file next to the cache: JSON with its own digest, replaced atomically.
//!
//! A damaged or edited file is rejected as a whole.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use atomic_file::Access;
use registry_core::{Digest, Key, document::parse_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    definition::digest_of_value,
    pin::{Content, Pins},
    pins_path,
};

const FORMAT: &str = "gateway-pins-v1";
/// Maximum file size, in bytes; above that of all pins with the longest names.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Why a pin file is rejected.
#[derive(Debug, thiserror::Error)]
enum InvalidPinFile {
    #[error("cannot read the file: {0}")]
    Io(#[from] io::Error),
    #[error("the file has {0} bytes; the maximum is {FILE_BYTES}")]
    TooLarge(u64),
    #[error("not a pin file: {0}")]
    Form(String),
    #[error("the digest does not match: the file was damaged or edited")]
    Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: String,
    digest: Digest,
    content: Value,
}

#[derive(Debug)]
pub(super) struct PinFile {
    path: PathBuf,
}

impl PinFile {
    /// Opens the pin file next to a cache, and reads it.
    pub(super) fn open(cache: &Path) -> (Self, Pins) {
        let path = pins_path(cache);
        let pins = match read(&path) {
            Ok(content) => Pins::read(content),
            Err(InvalidPinFile::Io(e)) if e.kind() == io::ErrorKind::NotFound => Pins::default(),
            Err(e) => {
                tracing::error!(
                    path = %path.display(),
                    "the pin file is rejected: {e}. The first seen definitions are unknown: tools with \
                     `contractDrift: quarantine` and unregistered parts stay quarantined until their \
                     definitions are accepted or newer versions are registered"
                );
                Pins::lost()
            }
        };
        (Self { path }, pins)
    }

    pub(super) fn write(&self, content: &Content) -> io::Result<()> {
        let content = serde_json::to_value(content)?;
        let digest = digest_of_value(&content);
        let written = Written { format: FORMAT.to_owned(), digest, content };
        let bytes = serde_json::to_vec(&written)?;
        atomic_file::replace(&self.path, &bytes, Access::Default)
    }
}

fn read(path: &Path) -> Result<Content, InvalidPinFile> {
    let size = fs::metadata(path)?.len();
    if size > FILE_BYTES {
        return Err(InvalidPinFile::TooLarge(size));
    }
    let form = |e: &dyn std::fmt::Display| InvalidPinFile::Form(e.to_string());
    let value = parse_json(&fs::read(path)?).map_err(|e| form(&e))?;
    let written: Written = serde_json::from_value(value).map_err(|e| form(&e))?;
    if written.format != FORMAT {
        return Err(form(&format!("the format is not {FORMAT}")));
    }
    if digest_of_value(&written.content) != written.digest {
        return Err(InvalidPinFile::Digest);
    }
    let content: Content = serde_json::from_value(written.content).map_err(|e| form(&e))?;
    for key in content.pins.keys() {
        key.parse::<Key>().map_err(|e| form(&e))?;
    }
    Ok(content)
}
