//! The default cache of a gateway that can be started in any directory: one directory per
//! configuration below the user's state directory.

use std::path::PathBuf;

use registry_core::Digest;

use super::{Args, secret::variable};

const NAME: &str = "gateway-agent";
/// Length of the digest in a directory name.
const DIGITS: usize = 16;

/// The cache for the flags. `None` if the user has no home directory.
pub fn state_file(args: &Args) -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = variable(name).map(PathBuf::from);
        // The XDG base directory specification ignores relative paths.
        path.filter(|path| path.is_absolute())
    };
    let base = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(base.join(NAME).join(directory(args)).join("registry-v2.json"))
}

fn directory(args: &Args) -> String {
    let canonical = |path: PathBuf| Some(path.canonicalize().ok()?.display().to_string());
    let servers = args.mcp_servers.clone().and_then(canonical);
    let parts = [canonical(args.file()), args.registry.clone(), servers];
    let identity = parts.map(Option::unwrap_or_default).join("\n");
    let digest = Digest::compute(identity.as_bytes()).to_string();
    digest.trim_start_matches("sha256:").chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_configuration_has_its_own_directory() {
        let dir = tempfile::tempdir().unwrap();
        let args = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "").unwrap();
            Args { config: Some(path), ..Args::default() }
        };
        let (one, other) = (args("a.yaml"), args("b.yaml"));
        let same = Args { config: Some(dir.path().join("./a.yaml")), ..Args::default() };
        assert_eq!(directory(&one), directory(&same));
        assert_ne!(directory(&one), directory(&other));
        assert_eq!(directory(&one).len(), DIGITS);
    }
}
