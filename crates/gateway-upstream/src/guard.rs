//! The guard of a child process: a second instance of this program between the gateway and the
//! child.
//!
//! A killed process cannot end its children, and without unsafe code it can limit a child only
//! after the child has started. So the gateway starts itself as a guard, which starts itself again
//! in a process that sets its own limits and then becomes the child. The guard adopts the
//! descendants of the child in all groups and sessions. It kills them when the child ends, on
//! request, and when the gateway ends.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io,
    os::unix::process::{CommandExt as _, parent_id},
    process::{self, Command, ExitCode},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use nix::{
    sys::{
        prctl,
        resource::{Resource, getrlimit, setrlimit},
        signal::{SigSet, Signal, kill, raise},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout},
};

use super::settings::ChildLimits;

/// This program, even after its file was replaced.
pub(crate) const PROGRAM: &str = "/proc/self/exe";
/// The name in process lists.
pub(crate) const NAME: &str = "gateway-agent";

const GUARD: &str = "guard-child";
const CHILD: &str = "become-child";

/// Sent when the gateway, or its thread that started the guard, ends.
const PARENT: Signal = Signal::SIGUSR1;
/// Sent by the gateway to kill the child immediately.
const AT_ONCE: Signal = Signal::SIGUSR2;

/// Time between the request to exit and the kill after the gateway has ended.
const GRACE: Duration = Duration::from_secs(2);

/// The exit codes of shells for a program that is missing or cannot be executed.
const NOT_THERE: u8 = 127;
const CANNOT_RUN: u8 = 126;
/// The exit code for an error of the guard.
const NOT_GUARDED: u8 = 125;

/// Whether this program can be a guard. Tests of the library cannot.
static IS_HERE: AtomicBool = AtomicBool::new(false);

/// Runs as a guard or becomes a child, if this process was started for that.
pub fn run_if_asked() -> Option<ExitCode> {
    IS_HERE.store(true, Ordering::Relaxed);
    let mut args = std::env::args_os().skip(1);
    let role = args.next()?;
    if role != GUARD && role != CHILD {
        return None;
    }
    let Some(order) = Order::read(args) else {
        eprintln!("{NAME}: `{}` is an internal command of the gateway", role.display());
        return Some(ExitCode::from(NOT_GUARDED));
    };
    let outcome = if role == GUARD { guard(&order) } else { become_child(&order) };
    Some(outcome.unwrap_or_else(|error| {
        eprintln!("{NAME}: cannot guard a child process: {error}");
        ExitCode::from(NOT_GUARDED)
    }))
}

/// The arguments that make this program guard another one. `None`: it cannot.
pub(crate) fn arguments<'a>(
    limits: ChildLimits,
    program: &OsStr,
    args: impl Iterator<Item = &'a OsStr>,
) -> Option<Vec<OsString>> {
    let parent = process::id();
    let order =
        Order { parent, limits, program: program.into(), args: args.map(Into::into).collect() };
    IS_HERE.load(Ordering::Relaxed).then(|| order.write(GUARD))
}

/// Makes a guard kill its child and all descendants.
pub(crate) fn end_at_once(guard: u32) {
    if let Ok(pid) = guard.try_into() {
        let _ = kill(Pid::from_raw(pid), AT_ONCE);
    }
}

/// The program, its limits and the expected parent process.
struct Order {
    parent: u32,
    limits: ChildLimits,
    program: OsString,
    args: Vec<OsString>,
}

impl Order {
    fn read(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let parent = args.next()?.to_str()?.parse().ok()?;
        let limits = serde_json::from_str(args.next()?.to_str()?).ok()?;
        Some(Self { parent, limits, program: args.next()?, args: args.collect() })
    }

    fn write(self, role: &str) -> Vec<OsString> {
        let limits = serde_json::to_string(&self.limits).unwrap_or_default();
        let head = [role.into(), self.parent.to_string().into(), limits.into(), self.program];
        head.into_iter().chain(self.args).collect()
    }

    /// Requests a signal at the end of the parent. Fails if the parent has ended.
    fn follow(&self, told: Signal) -> io::Result<()> {
        prctl::set_pdeathsig(told)?;
        if parent_id() == self.parent {
            return Ok(());
        }
        Err(io::Error::other("the gateway has ended"))
    }
}

/// Starts the child and waits for its end or the end of the gateway.
fn guard(order: &Order) -> io::Result<ExitCode> {
    let signals: SigSet = [Signal::SIGCHLD, Signal::SIGTERM, PARENT, AT_ONCE].into_iter().collect();
    signals.thread_block()?;
    prctl::set_child_subreaper(true)?;
    order.follow(PARENT)?;
    let own = Order {
        parent: process::id(),
        limits: order.limits,
        program: order.program.clone(),
        args: order.args.clone(),
    };
    let child = Command::new(PROGRAM).arg0(NAME).args(own.write(CHILD)).spawn()?;
    let child = Pid::from_raw(child.id().try_into().map_err(io::Error::other)?);
    // Closed here, so that the gateway notices when the child closes them.
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    let status = watch(&signals, child, order.parent);
    sweep();
    Ok(end_like(status?))
}

/// Waits for the child. `None`: the child must be killed.
fn watch(signals: &SigSet, child: Pid, gateway: u32) -> io::Result<Option<WaitStatus>> {
    loop {
        match signals.wait()? {
            Signal::SIGCHLD => {
                if let Some(status) = reap(child) {
                    return Ok(Some(status));
                }
            }
            PARENT if parent_id() != gateway => {
                // The child belongs to the same process group.
                kill(Pid::from_raw(0), Signal::SIGTERM)?;
                thread::spawn(|| {
                    thread::sleep(GRACE);
                    end_at_once(process::id());
                });
            }
            AT_ONCE => return Ok(None),
            _ => {}
        }
    }
}

/// Reaps ended processes. Returns the status of the child if it is among them.
fn reap(child: Pid) -> Option<WaitStatus> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(status) if status.pid() == Some(child) => return Some(status),
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Kills all remaining descendants. Orphans become children of this process, and their children
/// follow when they end.
fn sweep() {
    loop {
        for pid in children() {
            let _ = kill(pid, Signal::SIGKILL);
        }
        if waitpid(None, None).is_err() {
            return;
        }
    }
}

/// The children of this process, as the kernel lists processes.
fn children() -> Vec<Pid> {
    let own = process::id().to_string();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name may contain any characters; the state and the parent id follow it.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        parent == Some(own.as_str())
    };
    pids.filter(is_child).map(Pid::from_raw).collect()
}

/// Ends this process with the status of the child, so that the gateway sees it.
fn end_like(status: Option<WaitStatus>) -> ExitCode {
    let signal = match status {
        Some(WaitStatus::Exited(_, code)) => return u8::try_from(code).unwrap_or(1).into(),
        Some(WaitStatus::Signaled(_, signal, _)) => signal,
        _ => Signal::SIGKILL,
    };
    // Only the child writes a core file.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = SigSet::from(signal).thread_unblock();
    // The runtime's handler consumes the first SIGSEGV or SIGBUS.
    let _ = raise(signal).and_then(|()| raise(signal));
    ExitCode::FAILURE
}

/// Sets the limits of this process and becomes the child.
fn become_child(order: &Order) -> io::Result<ExitCode> {
    // The child would inherit the signal mask of the guard and ignore requests to exit.
    SigSet::empty().thread_set_mask()?;
    order.follow(Signal::SIGKILL)?;
    limit(order.limits)?;
    let error = Command::new(&order.program).args(&order.args).exec();
    eprintln!("{NAME}: cannot start `{}`: {error}", order.program.display());
    let is_absent = error.kind() == io::ErrorKind::NotFound;
    Ok(if is_absent { NOT_THERE } else { CANNOT_RUN }.into())
}

/// Sets the configured limits. Limits below those of the gateway stay unchanged.
fn limit(limits: ChildLimits) -> io::Result<()> {
    for (resource, most) in [
        (Resource::RLIMIT_CPU, limits.cpu_seconds),
        (Resource::RLIMIT_NOFILE, limits.open_files),
        (Resource::RLIMIT_NPROC, limits.processes),
        (Resource::RLIMIT_DATA, limits.memory_bytes),
    ] {
        if let Some(most) = most {
            let most = most.min(getrlimit(resource)?.1);
            setrlimit(resource, most, most)?;
        }
    }
    Ok(())
}
