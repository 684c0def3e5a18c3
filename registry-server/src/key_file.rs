//! Creation of files with secret keys.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use uuid::Uuid;

/// Creates a key file with mode 0600. A temporary file is linked to the path, so that a reader never sees a partial
/// key. Returns false if another process created the file first.
pub(crate) fn create(path: &Path, text: &str) -> io::Result<bool> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", Uuid::now_v7()));
    let linked = write(Path::new(&temporary), text).and_then(|()| fs::hard_link(&temporary, path));
    // The temporary file is missing if `write` failed early.
    let _ = fs::remove_file(&temporary);
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
