//! Clocks that jump: a preloaded library shifts `clock_gettime` by the offsets in a file. The program
//! itself is unchanged.
//!
//! The wall clock jumps in both directions. `CLOCK_BOOTTIME` jumps ahead, as after a suspension. The
//! monotonic clock is not shifted, because no administrator can set it.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

const SOURCE: &str = include_str!("../shim/clock.c");

/// A clock that can be set.
#[derive(Debug, Clone)]
pub(crate) struct Shim {
    library: PathBuf,
    offset: PathBuf,
}

impl Shim {
    /// Compiles the library into a directory, if a C compiler exists.
    pub(crate) fn compile(dir: &Path) -> Option<PathBuf> {
        let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
        std::fs::write(&source, SOURCE).ok()?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
        cc.status().ok()?.success().then_some(library)
    }

    /// A clock without an offset.
    pub(crate) fn new(library: PathBuf, offset: PathBuf) -> Self {
        let shim = Self { library, offset };
        shim.write(0, 0);
        shim.write(1, 0);
        shim
    }

    /// Preloads the library for a command.
    pub(crate) fn put_under(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("CLOCK_OFFSET_FILE", &self.offset);
    }

    /// Sets the offset of the wall clock in seconds.
    pub(crate) fn jump(&self, seconds: i64) {
        self.write(0, seconds);
    }

    /// Sets the offset of `CLOCK_BOOTTIME` in seconds.
    pub(crate) fn suspend(&self, seconds: i64) {
        self.write(1, seconds);
    }

    fn write(&self, number: u64, seconds: i64) {
        use std::os::unix::fs::FileExt as _;
        let open =
            std::fs::File::options().create(true).truncate(false).write(true).open(&self.offset);
        // In place: the library has mapped the file.
        let written = open.and_then(|file| file.write_all_at(&seconds.to_ne_bytes(), number * 8));
        written.expect("a file of our own can be written");
    }
}
