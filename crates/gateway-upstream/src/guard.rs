//! The guard of a child process: this program once more, between the gateway and the child.
//!
//! A process cannot end its children when it is killed outright, and without unsafe code it can
//! limit a child only after that has begun to run. So the gateway starts itself as a guard; that
//! starts itself again in a process that limits itself and becomes the child. The guard adopts the
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

/// This program, also after its file was replaced.
pub(crate) const PROGRAM: &str = "/proc/self/exe";
/// Its name in lists of processes.
pub(crate) const NAME: &str = "gateway-agent";

const GUARD: &str = "guard-child";
const CHILD: &str = "become-child";

/// The gateway is gone, or the thread of it that started the guard.
const PARENT: Signal = Signal::SIGUSR1;
/// How the gateway says that all must end at once.
const AT_ONCE: Signal = Signal::SIGUSR2;

/// How long a child that was asked to end may take, once the gateway is gone.
const GRACE: Duration = Duration::from_secs(2);

/// What a shell, too, says of a program that is not there, or that cannot run.
const NOT_THERE: u8 = 127;
const CANNOT_RUN: u8 = 126;
/// What went wrong before.
const NOT_GUARDED: u8 = 125;

/// Whether this program is the gateway's, which can be a guard; tests of the library cannot.
static IS_HERE: AtomicBool = AtomicBool::new(false);

/// Runs as a guard or becomes a child, if that is what this process was started for.
pub fn run_if_asked() -> Option<ExitCode> {
    IS_HERE.store(true, Ordering::Relaxed);
    let mut args = std::env::args_os().skip(1);
    let role = args.next()?;
    if role != GUARD && role != CHILD {
        return None;
    }
    let Some(order) = Order::read(args) else {
        eprintln!("{NAME}: `{}` is for the gateway itself", role.display());
        return Some(ExitCode::from(NOT_GUARDED));
    };
    let outcome = if role == GUARD { guard(&order) } else { become_child(&order) };
    Some(outcome.unwrap_or_else(|error| {
        eprintln!("{NAME}: a child could not be guarded: {error}");
        ExitCode::from(NOT_GUARDED)
    }))
}

/// The arguments with which this program guards another one; `None` where it cannot.
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

/// Tells a guard to end its child, and all that it started, at once.
pub(crate) fn end_at_once(guard: u32) {
    if let Ok(pid) = guard.try_into() {
        let _ = kill(Pid::from_raw(pid), AT_ONCE);
    }
}

/// What is to run, within which limits, and whose child this process must be.
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

    /// Asks to be told when the parent ends, unless that has happened already.
    fn follow(&self, told: Signal) -> io::Result<()> {
        prctl::set_pdeathsig(told)?;
        if parent_id() == self.parent {
            return Ok(());
        }
        Err(io::Error::other("the gateway is gone"))
    }
}

/// Starts the child, and waits for its end or the gateway's.
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
    // The gateway must see when the child closes them.
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nothing)?;
    dup2_stdout(&nothing)?;
    dup2_stderr(&nothing)?;
    let status = watch(&signals, child, order.parent);
    sweep();
    Ok(end_like(status?))
}

/// How the child ended; `None`: it is to be ended.
fn watch(signals: &SigSet, child: Pid, gateway: u32) -> io::Result<Option<WaitStatus>> {
    loop {
        match signals.wait()? {
            Signal::SIGCHLD => {
                if let Some(status) = reap(child) {
                    return Ok(Some(status));
                }
            }
            PARENT if parent_id() != gateway => {
                // To the group, which is the child's, too.
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

/// Buries who has ended, and says how the child did.
fn reap(child: Pid) -> Option<WaitStatus> {
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(status) if status.pid() == Some(child) => return Some(status),
            Ok(WaitStatus::StillAlive) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Ends all that is left. Whatever lost its parent is a child of this process now, and what those
/// have started is once they are gone.
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
        // After the name, which may be anything: the state, and the parent.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        parent == Some(own.as_str())
    };
    pids.filter(is_child).map(Pid::from_raw).collect()
}

/// Ends this process as the child has ended, so that the gateway sees how that was.
fn end_like(status: Option<WaitStatus>) -> ExitCode {
    let signal = match status {
        Some(WaitStatus::Exited(_, code)) => return u8::try_from(code).unwrap_or(1).into(),
        Some(WaitStatus::Signaled(_, signal, _)) => signal,
        _ => Signal::SIGKILL,
    };
    // One core file is enough.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    let _ = SigSet::from(signal).thread_unblock();
    // At the first SIGSEGV or SIGBUS the runtime's own handler steps back.
    let _ = raise(signal).and_then(|()| raise(signal));
    ExitCode::FAILURE
}

/// Limits this process, and becomes the child.
fn become_child(order: &Order) -> io::Result<ExitCode> {
    // The guard's own mask would be the child's, which could not be asked to end.
    SigSet::empty().thread_set_mask()?;
    order.follow(Signal::SIGKILL)?;
    limit(order.limits)?;
    let error = Command::new(&order.program).args(&order.args).exec();
    eprintln!("{NAME}: `{}` could not be started: {error}", order.program.display());
    let is_absent = error.kind() == io::ErrorKind::NotFound;
    Ok(if is_absent { NOT_THERE } else { CANNOT_RUN }.into())
}

/// Sets what is configured; what the gateway itself may not exceed stays as it is.
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
