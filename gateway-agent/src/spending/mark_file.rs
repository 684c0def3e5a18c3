//! The file of crash marks beside the cache: `PATH.spend`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use atomic_file::{Access, with_suffix};
use ledger::{ProcessMarks, decode_marks, encode_marks};
use registry_core::Timestamp;

/// The file of crash marks.
#[derive(Debug, Clone)]
pub(super) struct MarkFile {
    path: PathBuf,
}

impl MarkFile {
    /// Opens the file beside a cache, and reads the marks of earlier processes. A file that cannot be
    /// used is kept under another name: the rights of its processes stay in doubt.
    pub(super) fn open(cache: &Path, now: Timestamp) -> io::Result<(Self, Vec<ProcessMarks>)> {
        let path = with_suffix(cache, ".spend");
        let bytes = match fs::read(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Ok((Self { path }, Vec::new()));
            }
            read => read?,
        };
        let marks = match decode_marks(&bytes) {
            Ok(marks) => marks,
            Err(e) => {
                let kept = with_suffix(&path, &format!(".damaged-{}", now.as_millis()));
                fs::rename(&path, &kept)?;
                tracing::warn!(
                    path = %path.display(),
                    kept = %kept.display(),
                    "{e}. The rights of the last process stay in doubt until their windows end or \
                     an operator reclaims them with `registryctl budget reclaim`"
                );
                Vec::new()
            }
        };
        Ok((Self { path }, marks))
    }

    /// Replaces the file. Blocks.
    pub(super) fn write(&self, marks: &[ProcessMarks]) -> io::Result<()> {
        atomic_file::replace(&self.path, &encode_marks(marks), Access::OwnerOnly)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use ledger::{AccountKey, BudgetKey, Epoch, Mark, WindowId};
    use registry_core::Amount;

    use super::*;

    fn marks() -> Vec<ProcessMarks> {
        let budget = BudgetKey { policy: "p".into(), budget: "b".into(), subject: "a".into() };
        let process = Epoch::new(1);
        let account = AccountKey { budget, window: WindowId::new("total"), epoch: process };
        let mark = Mark { account, settled: Amount::from_micros(15_000), forced: Amount::ZERO };
        let (owner, marks, allowances) = (None, vec![mark], Vec::new());
        vec![ProcessMarks { process, owner, written_at: Timestamp::EPOCH, marks, allowances }]
    }

    #[test]
    fn marks_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("registry.json");
        let (file, known) = MarkFile::open(&cache, Timestamp::EPOCH).unwrap();
        assert_eq!(known, []);
        file.write(&marks()).unwrap();
        assert_eq!(MarkFile::open(&cache, Timestamp::EPOCH).unwrap().1, marks());
    }

    #[test]
    fn torn_file_is_kept_under_another_name() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path().join("registry.json");
        let path = directory.path().join("registry.json.spend");
        let whole = encode_marks(&marks());
        let torn = &whole[..whole.len() / 2];
        fs::write(&path, torn).unwrap();
        assert_eq!(MarkFile::open(&cache, Timestamp::EPOCH).unwrap().1, []);
        assert!(!path.exists());
        let kept = directory.path().join("registry.json.spend.damaged-0");
        assert_eq!(fs::read(kept).unwrap(), torn);
    }
}
