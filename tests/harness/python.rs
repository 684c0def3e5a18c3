//! Python packages in a virtual environment that is created once. `make test` installs Python.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::Mutex,
};

/// A virtual environment with pinned packages.
#[derive(Debug)]
pub struct PythonEnvironment {
    dir: PathBuf,
}

/// Allows one test at a time to create an environment.
static MAKING: Mutex<()> = Mutex::new(());

impl PythonEnvironment {
    /// The environment of a requirements file, below `dir`. Created if it is missing or the file
    /// has changed.
    pub fn of(requirements: &Path, dir: &Path) -> Self {
        let _alone = MAKING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let wanted = fs::read_to_string(requirements).expect("a requirements file");
        let environment = Self { dir: dir.join("python") };
        let complete = environment.dir.join("complete.txt");
        if fs::read_to_string(&complete).is_ok_and(|made| made == wanted) {
            return environment;
        }
        let mut venv = Command::new("python3");
        succeed(
            venv.args(["-m", "venv", "--clear"]).arg(&environment.dir),
            "Python with venv is needed (`make test` sees to it; Debian: apt-get install python3 python3-venv)",
        );
        let mut pip = environment.python();
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        succeed(pip.arg(requirements), "the packages are installed from the package index");
        fs::write(complete, wanted).expect("the environment is writable");
        environment
    }

    /// The interpreter.
    pub fn python(&self) -> Command {
        Command::new(self.program("python"))
    }

    /// The path of a program of a package.
    pub fn program(&self, name: &str) -> PathBuf {
        self.dir.join("bin").join(name)
    }
}

/// Runs a setup command that must succeed.
pub(crate) fn succeed(command: &mut Command, why: &str) {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|e| panic!("{why}: {command:?}: {e}"));
    let said = [stdout, stderr].concat();
    assert!(status.success(), "{why}: {command:?}:\n{}", String::from_utf8_lossy(&said));
}
