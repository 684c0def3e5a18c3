//! A wall clock that jumps: a small library that is put under a program and shifts what
//! `clock_gettime` says by what a file says. The program itself is the one that is shipped.
//!
//! The monotonic clock is not shifted: no administrator can set it.

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
    /// Compiles the library into a directory; `None`: there is no C compiler.
    pub(crate) fn compile(dir: &Path) -> Option<PathBuf> {
        let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
        std::fs::write(&source, SOURCE).ok()?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
        cc.status().ok()?.success().then_some(library)
    }

    /// A clock that is right for now.
    pub(crate) fn new(library: PathBuf, offset: PathBuf) -> Self {
        let shim = Self { library, offset };
        shim.jump(0);
        shim
    }

    /// Puts it under a program that is about to start.
    pub(crate) fn put_under(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("CLOCK_OFFSET_FILE", &self.offset);
    }

    /// From now on the clock is so many seconds ahead, or behind.
    pub(crate) fn jump(&self, seconds: i64) {
        use std::io::Write as _;
        let open =
            std::fs::File::options().create(true).truncate(false).write(true).open(&self.offset);
        // In place: the library has mapped the file.
        let written = open.and_then(|mut file| file.write_all(&seconds.to_ne_bytes()));
        written.expect("a file of our own can be written");
    }
}
