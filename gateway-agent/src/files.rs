//! Operations on the gateway's own files.

use std::{fs, io, path::Path};

use atomic_file::with_suffix;

/// Gives a file a second name, atomically replacing an existing file. At every moment both names
/// exist, if the second one did before.
pub(crate) fn link_as(path: &Path, second: &Path) -> io::Result<()> {
    let link = with_suffix(second, ".tmp");
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

/// Reads a regular file in UTF-8 of at most `max_bytes`.
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
    fs::read_to_string(file).map_err(|e| match e.kind() {
        io::ErrorKind::InvalidData => io::Error::new(e.kind(), "not UTF-8; save it as UTF-8"),
        _ => e,
    })
}
