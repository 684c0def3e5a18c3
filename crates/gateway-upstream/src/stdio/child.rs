//! The child process: started with a clean environment in its own process group, and killed with
//! all its descendants.
//!
//! On Linux a guard process also kills it when the gateway itself is killed.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::{
    ChildLimits, TransportConfig,
    secret::{SecretError, SecretSource},
};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGXCPU: i32 = 24;

/// Time between closing standard input and the request to exit.
const NOTICE: Duration = Duration::from_millis(300);

/// A running child. Dropping it kills it and its descendants.
#[derive(Debug)]
pub(super) struct Child {
    process: Box<dyn ChildWrapper>,
    /// Whether the process is a guard, which must survive to kill the descendants.
    is_guarded: bool,
}

/// The reason why a child stopped.
#[derive(Debug)]
pub(super) struct End {
    pub(super) how: Arc<str>,
    /// The remedy for an operator.
    pub(super) remedy: Option<&'static str>,
}

impl<T: Into<Arc<str>>> From<T> for End {
    fn from(how: T) -> Self {
        Self { how: how.into(), remedy: None }
    }
}

impl End {
    fn from_status(status: ExitStatus) -> Self {
        let remedy = match (status.code(), status.signal()) {
            (Some(127), _) => "install the program, or correct `command`",
            (Some(126), _) => "make `command` an executable file",
            (Some(_), _) => "read the standard error of the process in this log",
            (None, Some(SIGKILL)) => {
                "give the process more memory if the system ran out of it (see the kernel's log)"
            }
            (None, Some(SIGXCPU)) => "raise `stdio.limits.cpuSeconds`",
            (None, _) => "report the crash to the author of the server",
        };
        Self { how: format!("the process exited with {status}").into(), remedy: Some(remedy) }
    }
}

/// Checks that the program and its working directory exist. The error of the operating system would
/// name neither.
fn check(program: &Path, cwd: Option<&Path>, env: &[(String, String)]) -> io::Result<()> {
    let missing = |message: String| Err(io::Error::new(io::ErrorKind::NotFound, message));
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        let cwd = cwd.display();
        return missing(format!("`cwd` {cwd} is not a directory; create it, or correct `cwd`"));
    }
    let name = program.display();
    if program.components().count() > 1 {
        let path = cwd.map_or_else(|| program.to_owned(), |cwd| cwd.join(program));
        if path.exists() {
            return Ok(());
        }
        return missing(format!(
            "the program {} does not exist; install it, or correct `command`",
            path.display()
        ));
    }
    let search_path = env.iter().find_map(|(name, value)| (name == "PATH").then_some(value));
    // Without PATH, the operating system has a search path of its own.
    let Some(search_path) = search_path else { return Ok(()) };
    let is_found = env::split_paths(search_path).any(|directory| {
        cwd.map_or_else(|| directory.clone(), |cwd| cwd.join(&directory)).join(program).exists()
    });
    if is_found {
        return Ok(());
    }
    missing(format!(
        "the program `{name}` is in no directory of PATH ({search_path}); install it, or set \
         `command` to its path"
    ))
}

/// The standard streams of the child.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Child {
    /// Starts the configured program.
    pub(super) fn start(config: &TransportConfig) -> io::Result<(Self, Streams)> {
        let TransportConfig::Stdio { command, args, env, cwd, limits, .. } = config else {
            return Err(io::Error::other("the target is not a child process"));
        };
        let value = |(name, secret): (&String, &SecretSource)| Ok((name.clone(), secret.read()?));
        let env: Result<Vec<_>, SecretError> = env.iter().map(value).collect();
        let env = env.map_err(io::Error::other)?;
        check(command, cwd.as_deref(), &env)?;
        let guarded = guarded(command, args, *limits);
        let is_guarded = guarded.is_some();
        let (program, args) = guarded
            .unwrap_or_else(|| (command.as_os_str(), args.iter().map(OsString::from).collect()));
        let mut wrap = CommandWrap::with_new(program, |process| {
            process.args(args).env_clear();
            #[cfg(target_os = "linux")]
            if is_guarded {
                process.arg0(crate::guard::NAME);
            }
            process.envs(env.iter().cloned());
            process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            if let Some(cwd) = cwd {
                process.current_dir(cwd);
            }
        });
        wrap.wrap(ProcessGroup::leader());
        if !is_guarded {
            wrap.wrap(KillOnDrop); // a guard sees for itself that the gateway is gone
        }
        let mut child = Self { process: wrap.spawn()?, is_guarded };
        let streams = child.take_streams().ok_or_else(|| io::Error::other("a pipe is missing"))?;
        Ok((child, streams))
    }

    fn take_streams(&mut self) -> Option<Streams> {
        Some(Streams {
            stdin: self.process.stdin().take()?,
            stdout: self.process.stdout().take()?,
            stderr: self.process.stderr().take()?,
        })
    }

    /// Waits for the end of the process.
    pub(super) async fn ended(&mut self) -> End {
        // Waits only for the child itself; `end` kills its remaining descendants.
        match self.process.inner_mut().wait().await {
            Ok(status) => End::from_status(status),
            Err(error) => format!("the process was lost: {error}").into(),
        }
    }

    /// Ends the child and its descendants: waits, then requests to exit, then kills. Its standard
    /// input must be closed before.
    pub(super) async fn end(mut self, grace: Duration) {
        if timeout(NOTICE, self.ended()).await.is_err() {
            let _ = self.process.signal(SIGTERM);
            let _ = timeout(grace, self.ended()).await;
        }
        self.sweep();
        let _ = timeout(grace, self.ended()).await;
        let _ = self.process.start_kill(); // the group, should its guard have been killed
    }

    /// Kills the child and its remaining descendants. A guard also finds those that left the
    /// process group.
    fn sweep(&mut self) {
        if self.is_guarded {
            #[cfg(target_os = "linux")]
            self.process.id().into_iter().for_each(crate::guard::end_at_once);
        } else {
            let _ = self.process.start_kill();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.sweep();
    }
}

/// The command line of the program behind a guard, if there can be one.
#[cfg(target_os = "linux")]
fn guarded<'a>(
    program: &'a Path,
    args: &[String],
    limits: ChildLimits,
) -> Option<(&'a OsStr, Vec<OsString>)> {
    use crate::guard;
    let arguments = guard::arguments(limits, program.as_os_str(), args.iter().map(OsStr::new));
    arguments.map(|arguments| (OsStr::new(guard::PROGRAM), arguments))
}

#[cfg(not(target_os = "linux"))]
fn guarded<'a>(_: &'a Path, _: &[String], _: ChildLimits) -> Option<(&'a OsStr, Vec<OsString>)> {
    None
}
