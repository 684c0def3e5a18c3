//! Detects a gateway that starts itself: a file whose child processes include a gateway with the same
//! file would start processes without end.

use std::path::{Path, PathBuf, absolute};

use gateway_upstream::{SecretSource, TargetConfig, TransportConfig};
use registry_core::Digest;

use super::secret::variable;

/// The variable with the digests of the files that configured this process and its ancestors as
/// child processes of gateways.
const VARIABLE: &str = "GATEWAY_AGENT_PARENTS";
const SEPARATOR: char = ',';

/// The file also configures a process that started this gateway.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} starts this gateway recursively; remove the entry that runs `gateway-agent` from it",
    .0.display()
)]
pub(super) struct RecursiveStart(PathBuf);

/// Sets [`VARIABLE`] in the environments of the child processes that `file` configures.
pub(super) fn extend(file: &Path, targets: &mut [TargetConfig]) -> Result<(), RecursiveStart> {
    let environments = targets.iter_mut().filter_map(|target| match &mut target.transport {
        TransportConfig::Stdio { env, .. } => Some(env),
        TransportConfig::Http { .. } | TransportConfig::DataAgent(_) => None,
    });
    let mut environments = environments.peekable();
    if environments.peek().is_none() {
        return Ok(());
    }
    let ancestors = with_ancestor(&variable(VARIABLE).unwrap_or_default(), file)?;
    for env in environments {
        env.insert(VARIABLE.to_owned(), SecretSource::text(ancestors.clone()));
    }
    Ok(())
}

fn with_ancestor(ancestors: &str, file: &Path) -> Result<String, RecursiveStart> {
    // A file that was removed since it was read has no other paths.
    let path = file.canonicalize().or_else(|_| absolute(file)).unwrap_or_else(|_| file.to_owned());
    let own = Digest::compute(path.as_os_str().as_encoded_bytes()).to_string();
    if ancestors.split(SEPARATOR).any(|digest| digest == own) {
        return Err(RecursiveStart(file.to_owned()));
    }
    Ok(if ancestors.is_empty() { own } else { format!("{ancestors}{SEPARATOR}{own}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestor_file_is_detected_by_any_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "").unwrap();
            path
        };
        let (one, other) = (file("a.json"), file("b.json"));
        let link = dir.path().join("link.json");
        std::os::unix::fs::symlink(&one, &link).unwrap();
        let child = with_ancestor("", &one).unwrap();
        let grandchild = with_ancestor(&child, &other).unwrap();
        assert!(grandchild.starts_with(&child));
        for again in [one, other, dir.path().join("./a.json"), link] {
            let error = with_ancestor(&grandchild, &again).unwrap_err();
            assert_eq!(error, RecursiveStart(again));
        }
    }
}
