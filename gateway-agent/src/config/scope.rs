//! `registry.scope` and `registry.scopeFile`: which part of the registry is followed.
//!
//! Deliberately absent: looking at the file again, which the source does.

use std::path::{Path, PathBuf};

use registry_core::Scope;

use super::{Args, ScopeConfig, Source, load::read_text, read::Section};

/// Largest file, in bytes.
const FILE_BYTES: u64 = 1024 * 1024;

pub(super) fn read(section: &Section<'_>, args: &Args, source: Option<&Source>) -> ScopeConfig {
    let file = section.find("scopeFile").and_then(|field| field.text()).map(PathBuf::from);
    let written = section.find("scope").and_then(|field| field.texts());
    let (roots, file) = match &args.scope[..] {
        [] => (written, file),
        told => (Some(told.to_vec()), None),
    };
    if (roots.is_some() || file.is_some()) && !matches!(source, Some(Source::Grpc(_)) | None) {
        section.problem("`scope` needs a grpc(s):// source; the others always bring everything");
    }
    let scope = match (roots, &file) {
        (Some(_), Some(_)) => Err("has a scope and a `scopeFile`; keep one of them".to_owned()),
        (None, Some(file)) => ScopeConfig::read(file),
        (Some(roots), None) => Scope::of_roots(&roots).map_err(|e| format!("`scope`: {e}")),
        (None, None) => Ok(Scope::Everything),
    };
    let scope = scope.map_err(|e| section.problem(e)).unwrap_or_default();
    ScopeConfig { scope, file }
}

impl ScopeConfig {
    /// Reads a file with one root a line; empty lines, and those that begin with `#`, do not count.
    pub fn read(file: &Path) -> Result<Scope, String> {
        let name = file.display();
        let text = read_text(file, FILE_BYTES);
        let text = text.map_err(|e| format!("{name} cannot be read: {e}"))?;
        let lines = text.lines().map(str::trim);
        let roots: Vec<_> =
            lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        Scope::of_roots(&roots).map_err(|e| format!("{name}: {e}"))
    }
}
