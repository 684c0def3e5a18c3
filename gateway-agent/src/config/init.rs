//! `gateway-agent config init`: a configuration file with every option, commented out.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::InitArgs;

/// The file. A line that starts with `#` and an option, without a space between, is the default or
/// an example; `#  #` is an alternative to the option before.
pub const TEMPLATE: &str = include_str!("template.yaml");

/// A file that was not written.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    /// There is one already.
    #[error("{} exists; overwrite it with --force", .0.display())]
    Exists(PathBuf),
    /// The path of a directory.
    #[error("{} is a directory; name a file, for instance {}", .0.display(), .0.join("gateway.yaml").display())]
    Directory(PathBuf),
    /// The file system.
    #[error("cannot write {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl NotWritten {
    /// Whether other arguments help.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Exists(_) | Self::Directory(_))
    }
}

/// Writes the file.
pub fn init(args: &InitArgs) -> Result<(), NotWritten> {
    let failed = |source| NotWritten::Io { path: args.path.clone(), source };
    if args.path == Path::new("-") {
        return io::stdout().write_all(TEMPLATE.as_bytes()).map_err(failed);
    }
    if args.path.is_dir() {
        return Err(NotWritten::Directory(args.path.clone()));
    }
    let mut options = File::options();
    options.write(true).truncate(args.force).create(args.force).create_new(!args.force);
    let mut file = options.open(&args.path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => NotWritten::Exists(args.path.clone()),
        _ => failed(source),
    })?;
    file.write_all(TEMPLATE.as_bytes()).map_err(failed)?;
    let path = args.path.display();
    eprintln!("written: {path}");
    eprintln!(
        "next: set `registry.source` in it, then run `gateway-agent --config {path} --check`; or \
         add `--mcp-servers FILE` to that command"
    );
    Ok(())
}
