//! A Postgres cluster in a temporary directory, which can be killed, restarted and paused. A shell
//! waits on a pipe from this process. The pipe closes when the process ends or is killed; then the
//! shell stops the cluster and removes the directory.

use std::{
    fs::{self, File},
    io,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, chown},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::binaries;

/// Time limit of start and stop.
const PATIENCE: Duration = Duration::from_mins(1);
/// Ports that are tried. Another program can use a free port before Postgres does.
const PORTS: usize = 5;

/// Waits until its standard input closes, then stops the cluster in directory $0.
const WATCHDOG: &str = r#"
trap '' INT TERM HUP
cat > /dev/null
pid=$(head -n 1 "$0/data/postmaster.pid" 2> /dev/null)
if [ -n "$pid" ]; then
    kill -QUIT "$pid"
    for each in /proc/[0-9]*; do
        grep -qE "^P?Pid:[[:space:]]*$pid\$" "$each/status" && kill -CONT "${each#/proc/}"
    done
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" || break; sleep 0.2; done
    kill -KILL "$pid"
fi
rm -rf "$0"
"#;

/// Whether a commit waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Commits are on disk, as in production.
    On,
    /// Faster, but not safe against a crash of the machine.
    Off,
}

/// A running private cluster.
#[derive(Debug)]
pub struct PrivateCluster {
    /// Keeps the pipe open.
    watchdog: Child,
    directory: TempDir,
    port: u16,
    fsync: Fsync,
    server: Child,
}

impl PrivateCluster {
    /// A cluster that writes commits to disk before it acknowledges them, as in production.
    pub async fn durable() -> Self {
        tokio::task::spawn_blocking(|| Self::start(Fsync::On)).await.expect("the cluster starts")
    }

    /// Creates and starts a cluster. Blocks for one to two seconds.
    pub fn start(fsync: Fsync) -> Self {
        let directory = temporary_directory();
        initialise(directory.path());
        Self::launch(directory, fsync)
    }

    /// Starts a cluster with the data in this directory.
    pub(super) fn launch(directory: TempDir, fsync: Fsync) -> Self {
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG])
            .arg(directory.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell starts");
        let port = free_port();
        let server = spawn(directory.path(), port, fsync);
        let mut cluster = Self { watchdog, directory, port, fsync, server };
        for _ in 1..PORTS {
            if cluster.becomes_ready() {
                return cluster;
            }
            cluster.port = free_port();
            cluster.server = spawn(cluster.directory(), cluster.port, fsync);
        }
        cluster.wait_until_ready();
        cluster
    }

    /// The URL of a database over TCP.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a database over the Unix socket.
    pub fn socket_url(&self, database: &str) -> String {
        let socket = self.directory.path().display();
        format!("postgres://postgres@localhost:{}/{database}?host={socket}", self.port)
    }

    /// Creates an empty database and returns its URL.
    pub async fn create_database(&self, name: &str) -> String {
        super::create_database(&self.url("postgres"), name).await;
        self.url(name)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills all processes of the cluster, like a power failure.
    #[expect(clippy::unused_async, reason = "it takes a while, and callers should see that")]
    pub async fn kill_9(&mut self) {
        let processes = processes(self.server.id());
        signal("KILL", &processes);
        self.server.wait().expect("a child can be awaited");
        await_that("the backends end", || !processes.iter().copied().any(is_running));
    }

    /// Stops the cluster like an operator (`pg_ctl stop -m fast`).
    #[expect(clippy::unused_async, reason = "it takes a while, and callers should see that")]
    pub async fn stop(&mut self) {
        signal("INT", &[self.server.id()]);
        self.server.wait().expect("a child can be awaited");
    }

    /// Starts the cluster again and waits for its recovery.
    #[expect(clippy::unused_async, reason = "it takes a while, and callers should see that")]
    pub async fn restart(&mut self) {
        self.server = spawn(self.directory.path(), self.port, self.fsync);
        self.wait_until_ready();
    }

    /// Pauses every process: connections stay open without responses.
    pub fn pause(&self) {
        // The parent is paused first, so that it starts no process between listing and signal.
        let parent = self.server.id();
        signal("STOP", &[parent]);
        await_that("the parent stands still", || is_stopped(parent));
        let processes = processes(parent);
        signal("STOP", &processes);
        await_that("every process stands still", || processes.iter().copied().all(is_stopped));
    }

    /// Continues all processes after [`PrivateCluster::pause`].
    pub fn resume(&self) {
        signal("CONT", &processes(self.server.id()));
    }

    /// The directory of the cluster.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The log of the server.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    fn wait_until_ready(&mut self) {
        assert!(self.becomes_ready(), "Postgres ended:\n{}", self.log());
    }

    /// Waits for the status in the last line of `postmaster.pid`. Returns false if the server has ended,
    /// for example because another program uses its port.
    fn becomes_ready(&mut self) -> bool {
        let status = self.directory.path().join("data/postmaster.pid");
        let pid = self.server.id().to_string();
        let mut has_ended = false;
        await_that("Postgres is ready", || {
            has_ended = matches!(self.server.try_wait(), Ok(Some(_)));
            if has_ended {
                return true;
            }
            let lines = fs::read_to_string(&status).unwrap_or_default();
            let mut lines = lines.lines();
            lines.next() == Some(&pid)
                && lines.last().is_some_and(|line| matches!(line.trim(), "ready" | "standby"))
        });
        !has_ended
    }
}

impl Drop for PrivateCluster {
    fn drop(&mut self) {
        drop(self.watchdog.stdin.take());
        // The shell would take an unreaped process for a running one.
        let _ = self.server.wait();
        let _ = self.watchdog.wait();
    }
}

/// Whether the state in `/proc` is stopped, or zombie with a stopped parent.
fn is_stopped(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, fields)| fields.starts_with(['T', 'Z']))
}

/// Uses the default directory, unless the socket path would be too long for the kernel.
pub(super) fn temporary_directory() -> TempDir {
    const LONGEST: usize = 80;
    let builder = || tempfile::Builder::new().prefix("pg-").rand_bytes(6).to_owned();
    let directory = if std::env::temp_dir().as_os_str().len() > LONGEST {
        builder().tempdir_in("/tmp")
    } else {
        builder().tempdir()
    };
    let directory = directory.expect("a temporary directory");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).expect("our own");
    directory
}

/// Changes the owner of a directory to the user of Postgres.
pub(super) fn give_away(directory: &Path) {
    if binaries::is_root() {
        let (user, group) = binaries::unprivileged();
        chown(directory, Some(user), Some(group)).expect("root may give files away");
    }
}

fn initialise(directory: &Path) {
    give_away(directory);
    let output = program("initdb", directory)
        .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale"])
        .args(["--no-sync", "--no-instructions", "-D"])
        .arg(directory.join("data"))
        .output()
        .expect("initdb starts");
    assert!(output.status.success(), "initdb: {}", String::from_utf8_lossy(&output.stderr));
}

fn spawn(directory: &Path, port: u16, fsync: Fsync) -> Child {
    let log = File::options().create(true).append(true).open(directory.join("log"));
    let mut command = program("postgres", directory);
    command.arg("-D").arg(directory.join("data")).arg("-k").arg(directory);
    command.args(["-p", &port.to_string(), "-h", "127.0.0.1", "-c", "max_connections=200"]);
    if fsync == Fsync::Off {
        command.args(["-c", "fsync=off", "-c", "full_page_writes=off"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log file"));
    command.spawn().expect("postgres starts")
}

/// A command that runs a Postgres program as a permitted user.
pub(super) fn program(name: &str, directory: &Path) -> Command {
    let path = binaries::directory().join(name);
    let mut command = if binaries::is_root() {
        let (user, group) = binaries::unprivileged();
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={group}")]);
        command.arg("--clear-groups").arg("--").arg(path);
        command
    } else {
        Command::new(path)
    };
    command.current_dir(directory).env("LC_ALL", "C").env("TZ", "UTC");
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("a bound port").port()
}

/// A process and its children. Postgres has no grandchildren.
fn processes(parent: u32) -> Vec<u32> {
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        after_name.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    let all = fs::read_dir("/proc").expect("this is Linux");
    let pids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    std::iter::once(parent).chain(pids.filter(is_child)).collect()
}

/// Whether a process exists and is not a zombie.
fn is_running(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| !state.trim_start().starts_with('Z'))
}

fn signal(name: &str, pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let script = format!("kill -{name} {}", pids.join(" "));
    let status: io::Result<_> = Command::new("sh").args(["-c", &script]).status();
    // The process may have ended already.
    status.expect("a shell starts");
}

fn await_that(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
