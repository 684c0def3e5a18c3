//! Atomic file replacement: a file is written under a temporary name, flushed and renamed.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The path with more at its end: `registry.json` and `.log` give `registry.json.log`.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// The directory of a file.
pub(crate) fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes renames and removals in the directory of a file survive a crash.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(directory(path))?.sync_all()
}

/// Writes a new file, flushed to the disk.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write(path, bytes, &mut OpenOptions::new())
}

fn write(path: &Path, bytes: &[u8], options: &mut OpenOptions) -> io::Result<()> {
    let mut file = options.write(true).create(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces a file, which is never there in part, nor lost again by a crash.
pub(crate) fn replace_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes, &mut OpenOptions::new())
}

/// The same for a file that only its owner may read.
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

/// Gives a file a second name, atomically; what had that name is gone. There is never a moment
/// without the file itself, nor, once there was one, without a file of the second name.
pub(crate) fn keep_as(path: &Path, second: &Path) -> io::Result<()> {
    let link = beside(second, ".tmp");
    remove(&link)?;
    match fs::hard_link(path, &link) {
        Ok(()) => fs::rename(&link, second),
        // Some file systems have no hard links.
        Err(_) => fs::rename(path, second),
    }
}

/// Removes a file, if it is there.
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
        return Err(io::Error::other("it is no file"));
    }
    let size = found.len();
    if size > max_bytes {
        return Err(io::Error::other(format!("it has {size} bytes, {max_bytes} are allowed")));
    }
    fs::read_to_string(file)
}
