//! Atomic and durable replacement of files.
//!
//! The new content is written to a temporary file in the same directory, flushed to disk and
//! renamed. A reader, and the file system after a crash, see either the old or the new content.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The access of others to a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The access that the umask of the process allows.
    Default,
    /// Only the owner can read and write the file.
    OwnerOnly,
}

impl Access {
    /// The mode of a new file before the umask.
    #[cfg(unix)]
    fn mode(self) -> u32 {
        match self {
            Self::Default => 0o666,
            Self::OwnerOnly => 0o600,
        }
    }
}

/// Appends a suffix to a path: `registry.json` and `.log` give `registry.json.log`.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The directory of a file; `.` for a bare file name.
pub fn parent_directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes renames and removals in the directory of a file durable.
#[cfg(unix)]
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(parent_directory(path))?.sync_all()
}

/// Makes renames and removals in the directory of a file durable. Other systems cannot flush
/// directories.
#[cfg(not(unix))]
pub fn sync_directory(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Writes a file and flushes it to disk. The write is not atomic.
pub fn write_synced(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    let mut options = OpenOptions::new();
    write(options.create(true).truncate(true), path, (bytes, None), access)
}

/// Replaces a file that only this process writes. The temporary file is `PATH.tmp`; one that a crash
/// left is overwritten.
pub fn replace(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    let temporary = with_suffix(path, ".tmp");
    write_synced(&temporary, bytes, access)?;
    fs::rename(&temporary, path)?;
    sync_directory(path)
}

/// Replaces a file that the user named. An existing file keeps its permissions, and a symbolic link
/// is followed. Concurrent processes do not share a temporary file, and a failure leaves none.
pub fn replace_user_file(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    let path = if path.is_symlink() { &fs::canonicalize(path)? } else { path };
    let permissions = match fs::metadata(path) {
        Ok(existing) => Some(existing.permissions()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let temporary = with_suffix(path, &format!(".{}.new", std::process::id()));
    // A killed process with the same id may have left its temporary file.
    match fs::remove_file(&temporary) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let access = if permissions.is_some() { Access::OwnerOnly } else { access };
    let mut options = OpenOptions::new();
    let written = write(options.create_new(true), &temporary, (bytes, permissions), access)
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The error of the write is the one to report.
        let _ = fs::remove_file(&temporary);
        return written;
    }
    sync_directory(path)
}

fn write(
    options: &mut OpenOptions,
    path: &Path,
    (bytes, permissions): (&[u8], Option<Permissions>),
    access: Access,
) -> io::Result<()> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, access.mode());
    #[cfg(not(unix))]
    let _ = access;
    let mut file = options.write(true).open(path)?;
    file.write_all(bytes)?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions)?;
    }
    file.sync_all()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("the file").permissions().mode() & 0o777
    }

    #[test]
    fn replaced_file_overwrites_a_stale_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(with_suffix(&file, ".tmp"), "a longer text of a crashed process").unwrap();
        replace(&file, b"new", Access::Default).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn existing_user_files_keep_their_mode_and_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        replace_user_file(&link, b"new", Access::OwnerOnly).unwrap();
        assert!(link.is_symlink());
        assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), 0o640));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn owner_only_files_are_not_readable_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for replace in [replace, replace_user_file] {
            replace(&file, b"x", Access::OwnerOnly).unwrap();
            assert_eq!(mode(&file), 0o600);
            fs::remove_file(&file).unwrap();
        }
        let link = dir.path().join("link");
        symlink("missing", &link).unwrap();
        assert!(replace_user_file(&link, b"x", Access::OwnerOnly).is_err());
    }
}
