//! A program of this workspace as a child process: start, wait, signal, stop.

use std::{
    fmt,
    fs::File,
    io::{BufRead, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Time limit until a program reports its address.
const START: Duration = Duration::from_mins(1);
/// Time limit between SIGTERM and exit.
const STOP: Duration = Duration::from_secs(30);
/// Wait for audit events, which gateways write about 10 ms after a call, and later on a busy machine.
const AUDIT_DELAY: Duration = Duration::from_millis(200);

/// A running program; killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stderr: PathBuf,
    /// The first output line, with the address.
    pub greeting: String,
}

/// A program that exited before it listened.
#[derive(Debug)]
pub struct FailedStart {
    /// The exit code; `None` after a signal.
    pub code: Option<i32>,
    /// The standard error.
    pub log: String,
}

impl FailedStart {
    /// Whether another program had the port.
    fn lacks_port(&self) -> bool {
        let used = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = used.local_addr().expect("it is bound");
        let reason = TcpListener::bind(address).expect_err("it is used").to_string();
        self.log.lines().last().is_some_and(|line| line.contains(&reason))
    }
}

impl fmt::Display for FailedStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {:?} before listening:\n{}", self.code, self.log)
    }
}

/// The path of a program of this workspace, next to the running test or benchmark.
pub fn binary(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("the running program has a path");
    let profile = running
        .ancestors()
        .find(|dir| dir.join(".cargo-lock").exists() || dir.join(name).is_file())
        .unwrap_or_else(|| panic!("{name} is not built: run `make build` first"));
    let path = profile.join(name);
    assert!(path.is_file(), "{} is not built: run `make build` first", path.display());
    path
}

/// The root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the root").to_path_buf()
}

impl Process {
    /// Starts a program and waits for a line with `listening on`. Its standard error goes to a file
    /// in `dir`, which is printed on failures.
    pub fn start(name: &str, dir: &Path, configure: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(binary(name));
        configure(&mut command);
        // Another program can have the port of an earlier run.
        let mut starts = (0..5).map(|_| Self::spawn(name, dir, &mut command));
        let started = starts.find(|started| !started.as_ref().is_err_and(FailedStart::lacks_port));
        started.expect("a free port").unwrap_or_else(|e| panic!("{e}"))
    }

    /// Like [`Process::start`]. A program that exits before it listens is an error.
    pub fn try_start(
        name: &str,
        dir: &Path,
        configure: impl FnOnce(&mut Command),
    ) -> Result<Self, FailedStart> {
        let mut command = Command::new(binary(name));
        configure(&mut command);
        Self::run(name, dir, command)
    }

    /// Like [`Process::try_start`], for any program.
    pub fn run(name: &str, dir: &Path, mut command: Command) -> Result<Self, FailedStart> {
        Self::spawn(name, dir, &mut command)
    }

    fn spawn(name: &str, dir: &Path, command: &mut Command) -> Result<Self, FailedStart> {
        let stderr = dir.join(format!("{name}.stderr.log"));
        let log = File::options().create(true).append(true).open(&stderr).expect("a log file");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{name} starts: {e}"));
        let stdout = child.stdout.take().expect("standard output is piped");
        if let Some(greeting) = first_line(stdout) {
            return Ok(Self { name: name.to_owned(), child, stderr, greeting });
        }
        let _ = child.kill();
        let status = child.wait().expect("a child can be awaited");
        let log = std::fs::read_to_string(&stderr).unwrap_or_default();
        Err(FailedStart { code: status.code(), log })
    }

    /// The address after `listening on http(s)://`.
    pub fn address(&self) -> String {
        let (_, rest) = self.greeting.split_once("://").expect("an address in the greeting");
        rest.split_whitespace().next().expect("an address").to_owned()
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The standard error so far, with the audit events of all answered calls.
    pub fn stderr(&self) -> String {
        thread::sleep(AUDIT_DELAY);
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// The lines of standard error that contain each of these parts: a level, a module, a field.
    pub fn logged(&self, parts: &[&str]) -> Vec<String> {
        let log = self.stderr();
        let has_parts = |line: &&str| parts.iter().all(|part| line.contains(part));
        log.lines().filter(has_parts).map(str::to_owned).collect()
    }

    /// Sends a signal, like `kill -SIGNAL`.
    pub fn signal(&self, signal: &str) {
        signal_process(self.id(), signal);
    }

    /// Kills the process and waits for its end.
    pub fn kill_9(&mut self) {
        self.child.kill().expect("SIGKILL is delivered");
        self.child.wait().expect("a child can be awaited");
    }

    /// Sends SIGTERM and waits for the exit.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        self.wait(STOP)
    }

    /// Waits until the process exits.
    pub fn wait(&mut self, within: Duration) -> ExitStatus {
        let deadline = Instant::now() + within;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be awaited") {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{} did not end within {within:?}:\n{}",
                self.name,
                self.stderr()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Resident memory in bytes.
    pub fn resident_bytes(&self) -> u64 {
        resident_bytes(self.id())
    }

    /// Peak resident memory in bytes.
    pub fn peak_bytes(&self) -> u64 {
        memory(self.id(), "VmHWM:")
    }

    /// User and system processor time in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.id())
    }
}

/// Resident memory of a process in bytes.
pub fn resident_bytes(id: u32) -> u64 {
    memory(id, "VmRSS:")
}

fn memory(id: u32, what: &str) -> u64 {
    let path = format!("/proc/{id}/status");
    let status = std::fs::read_to_string(path).expect("a running process has a status");
    let line = status.lines().find_map(|line| line.strip_prefix(what)).expect("a size");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes * 1024
}

/// User and system processor time of a process in seconds.
pub fn cpu_seconds(id: u32) -> f64 {
    /// Ticks per second in `/proc/PID/stat`, fixed at 100 on Linux.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).expect("a running process");
    let (_, fields) = stat.rsplit_once(')').expect("the command ends with a parenthesis");
    let ticks: f64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|field| field.parse::<f64>().expect("a number"))
        .sum();
    ticks / TICKS
}

/// Sends a signal to any process, like `kill -SIGNAL`.
pub fn signal_process(id: u32, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), &id.to_string()]).status();
    assert!(status.expect("kill runs").success(), "kill -{signal} {id}");
}

/// The first output line with `listening`. A thread reads the rest.
fn first_line(stdout: ChildStdout) -> Option<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if line.contains("listening") {
                let _ = sender.send(line);
            }
        }
    });
    receiver.recv_timeout(START).ok()
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.stderr();
            let tail: Vec<_> = log.lines().rev().take(30).collect();
            let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
            eprintln!("--- end of {}'s standard error ---\n{tail}", self.name);
        }
    }
}
