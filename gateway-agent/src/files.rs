//! Atomic file replacement: a file is written under a temporary name, flushed and renamed.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// Appends to the file name: `registry.json` and `.log` become `registry.json.log`.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

pub(crate) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes renames and removals in the directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()
}

/// Writes a new file and flushes it.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, &mut OpenOptions::new())
}

fn write(path: &Path, bytes: &[u8], options: &mut OpenOptions) -> io::Result<()> {
    let mut file = options.write(true).create(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces a file atomically and durably.
pub(crate) fn replace_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, &mut OpenOptions::new())
}

/// Replaces a file that only its owner can read.
pub(crate) fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    replace(path, bytes, &mut options)
}

fn replace(path: &Path, bytes: &[u8], options: &mut OpenOptions) -> io::Result<()> {
    let written = beside(path, ".tmp");
    write(&written, bytes, options)?;
    fs::rename(&written, path)?;
    sync_directory(path)
}

/// Gives a file a second name, atomically replacing an existing file. At every moment both names
/// exist, if the second one did before.
pub(crate) fn link_as(path: &Path, second: &Path) -> io::Result<()> {
    let link = beside(second, ".tmp");
    remove(&link)?;
    match fs::hard_link(path, &link) {
        Ok(()) => fs::rename(&link, second),
        // Some file systems do not support hard links.
        Err(_) => fs::rename(path, second),
    }
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Reads a regular file of at most `max_bytes`.
pub(crate) fn read_text(file: &Path, max_bytes: u64) -> io::Result<String> {
    let found = fs::metadata(file)?;
    // Opening a pipe blocks until a writer opens it.
    if !found.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let size = found.len();
    if size > max_bytes {
        return Err(io::Error::other(format!(
            "the file has {size} bytes; the maximum is {max_bytes}"
        )));
    }
    fs::read_to_string(file)
}
