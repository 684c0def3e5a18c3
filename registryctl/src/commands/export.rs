//! `export`: the whole registry as one registry-v2 file, as it is (signed by the registry) or as it
//! was, and proven.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use registry_core::registry_file::{write, write_export};

use super::Session;
use crate::{cli::ExportArgs, copy, failure::Failure, follow::Follower};

pub(super) async fn run(session: &Session, args: &ExportArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let catalog = if let Some(at) = args.at.at {
        copy::fetch(&client, at).await?
    } else {
        let head = client.head().await?;
        Follower::open(&client, None).await?.catalog(head).await?
    };
    let bytes = if args.plain { write(&catalog) } else { write_export(&catalog) };
    save(session, args.out.as_deref(), &bytes)
}

/// Writes to the file or, where there is none, to standard output.
pub(super) fn save(session: &Session, path: Option<&Path>, bytes: &[u8]) -> Result<(), Failure> {
    let Some(path) = path else { return session.screen.bytes(bytes) };
    replace(path, bytes).map_err(|e| Failure::File {
        action: "write",
        path: path.to_path_buf(),
        reason: e.to_string(),
    })
}

/// Writes beside the file and renames, so that a reader never sees a part of it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = PathBuf::from(name);
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, path)
    });
    if written.is_err() {
        // What is left of it helps nobody; the error itself is what the user needs.
        let _ = fs::remove_file(&new);
    }
    written
}
