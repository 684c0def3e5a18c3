//! The pins on disk, beside the cache: one JSON file with its own digest, replaced as a whole.
//!
//! A file that is torn or edited is refused, and nothing of it counts.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use registry_core::{Digest, Key, document::parse_json};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    definition::digest_of_value,
    pin::{Content, Pins},
    pins_path,
};
use crate::files::replace_synced;

const FORMAT: &str = "gateway-pins-v1";
/// Largest file that is read, in bytes; all pins with the longest names take less.
const FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Why a file of pins is not used.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it has {0} bytes, {FILE_BYTES} are allowed")]
    TooLarge(u64),
    #[error("it is no file of pins: {0}")]
    Form(String),
    #[error("it does not have its digest: it was torn or edited")]
    Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: String,
    digest: Digest,
    content: Value,
}

/// Where the pins are kept.
#[derive(Debug)]
pub(super) struct PinFile {
    path: PathBuf,
}

impl PinFile {
    /// The file beside this cache, and what is in it.
    pub(super) fn open(cache: &Path) -> (Self, Pins) {
        let path = pins_path(cache);
        let pins = match read(&path) {
            Ok(content) => Pins::read(content),
            Err(Refused::Io(e)) if e.kind() == io::ErrorKind::NotFound => Pins::default(),
            Err(e) => {
                tracing::error!(
                    path = %path.display(),
                    "the pins are refused: {e}. What upstreams first said is not known any more: \
                     where it is not registered, tools with `contractDrift: quarantine` stay out \
                     until their definitions are accepted or newer versions are registered"
                );
                Pins::lost()
            }
        };
        (Self { path }, pins)
    }

    /// Replaces what is written.
    pub(super) fn write(&self, content: &Content) -> io::Result<()> {
        let content = serde_json::to_value(content)?;
        let digest = digest_of_value(&content);
        let written = Written { format: FORMAT.to_owned(), digest, content };
        let bytes = serde_json::to_vec(&written)?;
        replace_synced(&self.path, &bytes)
    }
}

fn read(path: &Path) -> Result<Content, Refused> {
    let size = fs::metadata(path)?.len();
    if size > FILE_BYTES {
        return Err(Refused::TooLarge(size));
    }
    let form = |e: &dyn std::fmt::Display| Refused::Form(e.to_string());
    let value = parse_json(&fs::read(path)?).map_err(|e| form(&e))?;
    let written: Written = serde_json::from_value(value).map_err(|e| form(&e))?;
    if written.format != FORMAT {
        return Err(form(&format!("its format is not {FORMAT}")));
    }
    if digest_of_value(&written.content) != written.digest {
        return Err(Refused::Digest);
    }
    let content: Content = serde_json::from_value(written.content).map_err(|e| form(&e))?;
    for key in content.pins.keys() {
        key.parse::<Key>().map_err(|e| form(&e))?;
    }
    Ok(content)
}
