//! System calls and allocations of running processes, counted by `perf`.
//!
//! The kernel counts the calls of the allocator's functions with breakpoints, so the measured
//! program is the shipped one. Breakpoints cost time: CPU is measured in other loads.

use std::{
    path::PathBuf,
    process::{self, Child, Command, Stdio},
    thread,
    time::Duration,
};

use acceptance::process::signal_process;
use tempfile::TempDir;

const SYSTEM_CALLS: &str = "raw_syscalls:sys_enter";
/// Time for `perf` to attach to all threads.
const ATTACH: Duration = Duration::from_secs(1);

/// The functions that allocate in a program or library, including reallocations.
#[derive(Debug)]
pub(crate) struct Allocator {
    pub(crate) file: PathBuf,
    pub(crate) functions: &'static [&'static str],
}

/// The number of calls between start and stop.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) system_calls: u64,
    pub(crate) allocations: u64,
}

/// A running count.
#[derive(Debug)]
pub(crate) struct Counter {
    perf: Child,
    dir: TempDir,
    _breakpoints: Breakpoints,
}

impl Counter {
    /// Starts to count. Fails if `perf` is not installed, or not permitted to trace.
    pub(crate) fn start(processes: &[u32], allocator: &Allocator) -> Result<Self, String> {
        let breakpoints = Breakpoints::set(allocator)?;
        let dir = tempfile::tempdir().expect("a temporary directory");
        let ids: Vec<_> = processes.iter().map(u32::to_string).collect();
        let perf = Command::new("perf")
            .args(["stat", "-x", ",", "-e", SYSTEM_CALLS])
            .args(["-e", &format!("{}:*", breakpoints.group), "-p", &ids.join(","), "-o"])
            .arg(dir.path().join("counts"))
            .spawn()
            .map_err(|e| format!("perf: {e}"))?;
        thread::sleep(ATTACH);
        Ok(Self { perf, dir, _breakpoints: breakpoints })
    }

    /// Stops and returns the counts.
    pub(crate) fn stop(mut self) -> Counts {
        signal_process(self.perf.id(), "INT");
        self.perf.wait().expect("a child can be awaited");
        let text = std::fs::read_to_string(self.dir.path().join("counts")).expect("counts");
        let counts = read(&text);
        assert!(counts.system_calls > 0, "perf did not count: {text}");
        counts
    }
}

/// Reads lines of `COUNT,UNIT,EVENT,…`.
fn read(text: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines() {
        let fields: Vec<_> = line.split(',').collect();
        let [count, _, event, ..] = fields[..] else { continue };
        let Ok(count) = count.parse::<u64>() else { continue };
        if event == SYSTEM_CALLS {
            counts.system_calls += count;
        } else {
            counts.allocations += count;
        }
    }
    counts
}

/// Breakpoints in the functions of an allocator, removed when dropped.
#[derive(Debug)]
struct Breakpoints {
    group: String,
}

impl Breakpoints {
    fn set(allocator: &Allocator) -> Result<Self, String> {
        let group = format!("bench_{}", process::id());
        let mut perf = Command::new("perf");
        perf.args(["probe", "-q", "-x"]).arg(&allocator.file);
        for function in allocator.functions {
            perf.args(["-a", &format!("{group}:{function}={function}")]);
        }
        let output = perf.output().map_err(|e| format!("perf: {e}"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(format!("perf probe {}: {}", allocator.file.display(), reason.trim()));
        }
        Ok(Self { group })
    }
}

impl Drop for Breakpoints {
    fn drop(&mut self) {
        let mut perf = Command::new("perf");
        perf.args(["probe", "-q", "-d", &format!("{}:*", self.group)]);
        let _ = perf.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
