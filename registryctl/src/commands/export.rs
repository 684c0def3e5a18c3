//! `export`: the registry as one registry-v2 file. The current state is signed by the registry.

use std::path::Path;

use atomic_file::Access;
use registry_core::registry_file::{self, write_export};

use super::Session;
use crate::{cli::ExportArgs, failure::Failure, follow::Follower, point_in_time};

/// The mode of a new file before the umask of the process.
const PUBLIC: u32 = 0o666;
/// The mode of a file that may contain secrets.
const PRIVATE: u32 = 0o600;

pub(super) async fn run(session: &Session, args: &ExportArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let catalog = if let Some(at) = args.as_of.at {
        point_in_time::fetch(&client, at).await?
    } else {
        let head = client.head().await?;
        Follower::open(&client, None).await?.catalog(head).await?
    };
    let bytes = if args.plain { registry_file::write(&catalog) } else { write_export(&catalog) };
    save(session, args.out.as_deref(), &bytes)
}

/// Writes to the file or, without one, to standard output.
pub(super) fn save(session: &Session, path: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    let Some(path) = path else { return session.screen.bytes(bytes) };
    write(path, bytes, Access::Default)
}

/// Writes to a file. Only the owner may read a new file.
pub(super) fn save_private(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    write(path, bytes, Access::OwnerOnly)
}

fn write(path: &Path, bytes: &[u8], access: Access) -> Result<(), Failure> {
    atomic_file::replace_user_file(path, bytes, access).map_err(|e| Failure::File {
        action: "write",
        path: path.to_path_buf(),
        reason: e.to_string(),
    })
}

/// Replaces a file atomically. An existing file keeps its permissions, and a symbolic link stays.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let path = if path.is_symlink() { &fs::canonicalize(path)? } else { path };
    let permissions = match fs::metadata(path) {
        Ok(existing) => Some(existing.permissions()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    let mode = if permissions.is_some() { PRIVATE } else { mode };
    let written = create(&new, mode).and_then(|mut file| {
        file.write_all(bytes)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        file.sync_all()?;
        fs::rename(&new, path)
    });
    if written.is_err() {
        // The error of the write is reported instead.
        let _ = fs::remove_file(&new);
        return written;
    }
    sync_directory(path)
}

/// Creates a temporary file. A killed process with the same id may have left one.
fn create(new: &Path, mode: u32) -> io::Result<File> {
    match fs::remove_file(new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(new)
}

/// Makes a rename durable.
#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("the file").permissions().mode() & 0o777
    }

    #[test]
    fn existing_files_keep_their_mode_and_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        replace(&link, b"new", PRIVATE).unwrap();
        assert!(link.is_symlink());
        assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), 0o640));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn new_private_files_are_readable_by_the_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        replace(&file, b"x", PRIVATE).unwrap();
        assert_eq!(mode(&file), 0o600);
        let link = dir.path().join("link");
        symlink("missing", &link).unwrap();
        assert!(replace(&link, b"x", PRIVATE).is_err());
    }
}
