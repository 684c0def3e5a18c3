//! `gateway-agent config init`: a configuration file with every option, commented out.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use super::InitArgs;

/// The template. A line with `#` and an option, without a space between, is a default or an
/// example; `#  #` is an alternative to the option before it.
pub const TEMPLATE: &str = include_str!("template.yaml");

/// Why the file was not written.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The file exists, and `--force` is absent.
    #[error("{} exists; overwrite it with --force", .0.display())]
    Exists(PathBuf),
    /// The path is a directory.
    #[error("{} is a directory; name a file, for instance {}", .0.display(), .0.join("gateway.yaml").display())]
    Directory(PathBuf),
    /// The file system reported an error.
    #[error("cannot write {}: {source}", .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
}

impl InitError {
    /// Whether other arguments avoid the error.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Exists(_) | Self::Directory(_))
    }
}

/// Writes the template to a new file, or to standard output.
pub fn init(args: &InitArgs) -> Result<(), InitError> {
    let failed = |source| InitError::Io { path: args.path.clone(), source };
    if args.path == Path::new("-") {
        return io::stdout().write_all(TEMPLATE.as_bytes()).map_err(failed);
    }
    if args.path.is_dir() {
        return Err(InitError::Directory(args.path.clone()));
    }
    let mut options = File::options();
    options.write(true).truncate(args.force).create(args.force).create_new(!args.force);
    let mut file = options.open(&args.path).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => InitError::Exists(args.path.clone()),
        _ => failed(source),
    })?;
    file.write_all(TEMPLATE.as_bytes()).map_err(failed)?;
    let path = args.path.display();
    eprintln!("written: {path}");
    eprintln!(
        "next: set `registry.source` in it, then run `gateway-agent --config {path} --check`; or \
         run it with `--mcp-servers FILE` instead of a registry"
    );
    Ok(())
}
