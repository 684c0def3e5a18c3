//! Detects a gateway that starts itself: a servers file that runs a gateway with the same file
//! would start processes without end.

use std::{io, path::Path};

use registry_core::Digest;

use super::secret::variable;

/// The variable with the digests of the servers files of this gateway's ancestor processes.
pub(super) const VARIABLE: &str = "GATEWAY_AGENT_PARENTS";
const SEPARATOR: char = ',';

/// Returns the value of [`VARIABLE`] for the children of this gateway, which reads `file`. `None`
/// if an ancestor reads the same file.
pub(super) fn for_children(file: &Path) -> io::Result<Option<String>> {
    extended(variable(VARIABLE), file)
}

fn extended(ancestors: Option<String>, file: &Path) -> io::Result<Option<String>> {
    let own = Digest::compute(file.canonicalize()?.as_os_str().as_encoded_bytes()).to_string();
    let ancestors = ancestors.unwrap_or_default();
    if ancestors.split(SEPARATOR).any(|digest| digest == own) {
        return Ok(None);
    }
    Ok(Some(if ancestors.is_empty() { own } else { format!("{ancestors}{SEPARATOR}{own}") }))
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
        let child = extended(None, &one).unwrap().unwrap();
        let grandchild = extended(Some(child.clone()), &other).unwrap().unwrap();
        assert!(grandchild.starts_with(&child));
        for again in [one, other, dir.path().join("./a.json")] {
            assert_eq!(extended(Some(grandchild.clone()), &again).unwrap(), None);
        }
    }
}
