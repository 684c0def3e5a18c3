//! `export`: the registry as one registry-v2 file. The current state is signed by the registry.

use std::path::Path;

use atomic_file::Access;
use registry_core::registry_file::{self, write_export};

use super::Session;
use crate::{
    cli::{ExportArgs, Format},
    failure::Failure,
    follow::Follower,
    point_in_time,
};

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

/// Writes to the file and prints its path or, without one, writes to standard output.
pub(super) fn save(session: &Session, path: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    let Some(path) = path else { return session.screen.bytes(bytes) };
    save_file(path, bytes)?;
    match session.screen.format {
        Format::Json => Ok(()),
        Format::Table => session.screen.line(&format!("written: {}", path.display())),
    }
}

/// Writes to a file.
pub(super) fn save_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
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
