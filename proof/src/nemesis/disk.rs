//! A small in-memory disk that can be filled. Mounting must be permitted; there is no fallback.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Enough for a cache, the previous one, a temporary one, and a journal.
const SIZE: &str = "size=16m";
const FILLER: &str = "filler";

/// A mounted disk; unmounted when dropped.
#[derive(Debug)]
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts a disk over an empty directory, if permitted.
    pub(crate) fn mount(dir: &Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", SIZE, "tmpfs"]).arg(dir).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(dir.to_path_buf()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Whether this directory is such a disk.
pub(super) fn is_small(dir: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == dir.to_str())
}

/// Fills the disk.
pub(super) fn fill(dir: &Path) {
    use std::io::Write as _;
    let Ok(mut filler) = fs::File::create(dir.join(FILLER)) else { return };
    let block = [0; 1024];
    while filler.write_all(&block).is_ok() {}
}

/// Frees the space.
pub(super) fn empty(dir: &Path) {
    let _ = fs::remove_file(dir.join(FILLER));
}
