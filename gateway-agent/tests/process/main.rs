//! The process: signals, exit codes, the limit of open files, warnings and child processes.

#![cfg(target_os = "linux")]

mod children;
mod stdio;

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

const LOOPBACK: &str = "127.0.0.1:0";

/// A gateway process without a registry.
struct Gateway {
    child: Child,
    port: u16,
    /// The first line of standard output.
    start_line: String,
    dir: TempDir,
}

impl Gateway {
    /// Starts the gateway from a shell that has run these commands.
    fn start(words: &str, listen: &str, source: &str) -> Self {
        Self::start_in(tempfile::tempdir().expect("a directory"), words, listen, source)
    }

    /// Starts a gateway with a target that runs this script, with additional configuration.
    fn with_child(script: &str, words: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("child.sh"), script).expect("a script");
        let child = format!("{{ command: sh, args: [child.sh], {words} }}");
        let targets = format!("targets: [{{ server: s, version: 1.0.0, stdio: {child} }}]\n");
        fs::write(dir.path().join("gateway.yaml"), targets).expect("a configuration");
        Self::start_in(dir, "", LOOPBACK, "grpc://127.0.0.1:9")
    }

    fn start_in(dir: TempDir, words: &str, listen: &str, source: &str) -> Self {
        let log = File::create(dir.path().join("log")).expect("a log");
        let mut child = Command::new("sh")
            .args([
                "-c",
                &format!("{words} exec \"$0\" \"$@\""),
                env!("CARGO_BIN_EXE_gateway-agent"),
            ])
            .args(["--listen", listen, "--insecure", "--registry", source, "--cache", "cache.json"])
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a shell");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let address = line.split_whitespace().find_map(|word| word.strip_prefix("http://"));
        let port = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        let log = || fs::read_to_string(dir.path().join("log"));
        let port = port.unwrap_or_else(|| panic!("{line:?}, {:?}", log()));
        Self { child, port, start_line: line, dir }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).expect("the log")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(3))).expect("a limit");
        stream
    }

    fn is_alive(&self) -> bool {
        let mut stream = self.connect();
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
        let mut status = [0; 12];
        stream.read_exact(&mut status).is_ok() && status == *b"HTTP/1.1 200"
    }

    fn signal(&self, name: &str) {
        send_signal(self.child.id(), name);
    }

    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < Duration::from_secs(10), "never {what}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits briefly for the exit.
    fn ended(&mut self) -> ExitStatus {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                return status;
            }
            assert!(began.elapsed() < Duration::from_secs(5), "it goes on: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Removes what a failed gateway left in its directory.
        for (pid, _) in children::others(self) {
            let _ = Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status();
        }
    }
}

fn send_signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(sent.expect("kill").success());
}

fn without_registry(words: &str) -> Gateway {
    Gateway::start(words, LOOPBACK, "grpc://127.0.0.1:9")
}

#[test]
fn each_stop_signal_exits_cleanly() {
    // Even if the tests run with hang-ups ignored.
    let heeded = r#"exec env --default-signal=HUP "$0" "$@";"#;
    for name in ["TERM", "INT", "HUP"] {
        let mut gateway = without_registry(heeded);
        gateway.signal(name);
        assert_eq!(gateway.ended().code(), Some(0), "{name}: {}", gateway.log());
        assert!(gateway.log().contains(" limit="), "{name}");
    }
}

#[test]
fn nohup_is_respected() {
    let mut gateway = without_registry("trap '' HUP;");
    gateway.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(gateway.is_alive() && !gateway.log().contains("stopping"), "{}", gateway.log());
    gateway.signal("TERM");
    assert_eq!(gateway.ended().code(), Some(0));
}

#[test]
fn second_signal_exits_immediately() {
    let mut gateway = without_registry("");
    // The gateway waits for the running call until its timeout.
    let mut slow = gateway.connect();
    slow.write_all(b"POST /mcp HTTP/1.1\r\n").expect("sent");
    assert!(gateway.is_alive());
    gateway.signal("TERM");
    gateway.until("stopping", |gateway| gateway.log().contains("stopping"));
    gateway.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(gateway.child.try_wait().expect("a status").is_none(), "a hang-up is no second one");
    gateway.signal("INT");
    assert_eq!(gateway.ended().code(), Some(1));
    let log = gateway.log();
    assert!(log.lines().last().is_some_and(|line| line.contains("signal")), "{log}");
}

#[test]
fn irregular_source_file_is_rejected() {
    let mut gateway = Gateway::start("mkfifo pipe;", LOOPBACK, "file://pipe");
    gateway.until("refused", |gateway| gateway.log().contains("regular"));
    gateway.signal("TERM");
    assert_eq!(gateway.ended().code(), Some(0));
}

#[test]
fn open_file_limit_is_raised() {
    let gateway = without_registry("ulimit -S -n 64;");
    let _held: Vec<_> = (0..100).map(|_| gateway.connect()).collect();
    assert!(gateway.is_alive(), "{}", gateway.log());
}

#[test]
fn failed_accepts_are_logged_once() {
    let logged = |gateway: &Gateway, level: &str| {
        gateway.log().matches(&format!("{level} gateway_agent::server::connections: ")).count()
    };
    let failed = |gateway: &Gateway| logged(gateway, "WARN");
    // Each runtime uses about five files; the rest suffices for ten connections, half of the
    // allowed files.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let files = 20 + 5 * cores;
    let dir = tempfile::tempdir().expect("a directory");
    // All connections come from one address.
    let config = format!("limits: {{ addressConnections: {files} }}\n");
    fs::write(dir.path().join("gateway.yaml"), config).expect("a configuration");
    let words = format!("ulimit -n {files};");
    let gateway = Gateway::start_in(dir, &words, LOOPBACK, "grpc://127.0.0.1:9");
    let held: Vec<_> = (0..files).map(|_| gateway.connect()).collect();
    gateway.until("out of files", |gateway| failed(gateway) > 0);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(failed(&gateway), 1, "{}", gateway.log());
    drop(held);
    gateway.until("well", |gateway| {
        drop(gateway.connect());
        logged(gateway, "INFO") > 0
    });
    assert!(gateway.is_alive());
}

#[test]
fn start_line_describes_the_loaded_catalog() {
    let gateway = Gateway::start("", LOOPBACK, "grpc://127.0.0.1:9");
    let line = gateway.start_line.replace(&gateway.port.to_string(), "PORT");
    insta::assert_snapshot!(
        line,
        @"gateway-agent listening on http://127.0.0.1:PORT (0 tools, no cache yet)"
    );
}

#[test]
fn listening_beyond_loopback_is_warned() {
    let open = Gateway::start("", "0.0.0.0:0", "grpc://127.0.0.1:9");
    let is_warned = |gateway: &Gateway| gateway.log().contains("WARN gateway_agent: ");
    assert!(is_warned(&open), "{}", open.log());
    assert!(!is_warned(&without_registry("")));
}
