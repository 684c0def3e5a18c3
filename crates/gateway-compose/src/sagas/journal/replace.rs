//! Atomic replacement of the journal.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Appends an ending to a path: `registry.json` and `.sagas` give `registry.json.sagas`.
pub(in crate::sagas) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// Replaces a file that only its owner may read. After a crash it has the old or the new content.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let written = beside(path, ".tmp");
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.write(true).create(true).truncate(true).open(&written)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&written, path)?;
    // Without this, a crash can undo the rename.
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
