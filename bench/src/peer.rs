//! A proxy or server for comparison as a child process.

use std::{
    env,
    fs::{self, File},
    iter,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use acceptance::process::{cpu_seconds, resident_bytes, signal_process};
use tempfile::TempDir;

/// A running program, stopped when dropped.
#[derive(Debug)]
pub(crate) struct Peer {
    process: Child,
    dir: TempDir,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
}

impl Peer {
    /// Starts a program with an empty directory and a free port, and waits until it accepts
    /// connections. `None` if it is not installed.
    pub(crate) fn start(command: impl FnOnce(&Path, u16) -> Command) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let log = File::create(dir.path().join("log")).expect("a log file");
        let mut command = command(dir.path(), port);
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file")).stderr(log);
        let process = command.spawn().ok()?;
        let peer = Self { process, dir, address: format!("127.0.0.1:{port}") };
        peer.wait_until_ready();
        Some(peer)
    }

    /// Starts this program again, with arguments for a port.
    pub(crate) fn start_self(add_arguments: impl FnOnce(&mut Command, u16)) -> Self {
        let start = |_: &Path, port| {
            let mut command = Command::new(env::current_exe().expect("a path of the program"));
            add_arguments(&mut command, port);
            command
        };
        Self::start(start).expect("this program starts")
    }

    fn wait_until_ready(&self) {
        for _ in 0..100 {
            if TcpStream::connect(&self.address).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        panic!("the peer does not listen on {}: {log}", self.address);
    }

    /// The ids of the process and of its workers.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let id = self.process.id();
        let path = format!("/proc/{id}/task/{id}/children");
        let children = fs::read_to_string(path).unwrap_or_default();
        let workers = children.split_whitespace().filter_map(|id| id.parse().ok());
        iter::once(id).chain(workers).collect()
    }

    /// Resident memory of the process in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        resident_bytes(self.process.id())
    }

    /// CPU time of the process and of its workers in seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.processes().into_iter().map(cpu_seconds).sum()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        signal_process(self.process.id(), "TERM");
        let _ = self.process.wait();
    }
}
