//! The child process: started with a clean environment in a process group of its own, and ended
//! with everything that it started.
//!
//! On Linux a guard stands between, which also ends it when the gateway is killed outright. Deliberately
//! absent: when to end it; the supervisor decides.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::Path,
    process::Stdio,
    time::Duration,
};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::config::{ChildLimits, SecretSource, TransportConfig, UnusableSecret};

const SIGTERM: i32 = 15;

/// How long a child may take to notice that its standard input was closed.
const NOTICE: Duration = Duration::from_millis(300);

/// A running child. Dropping it ends it and whatever it started.
#[derive(Debug)]
pub(super) struct Child {
    process: Box<dyn ChildWrapper>,
    /// Whether the process is a guard, which must be left alive to do its work.
    is_guarded: bool,
}

/// Its standard streams.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

impl Child {
    /// Starts what is configured.
    pub(super) fn start(config: &TransportConfig) -> io::Result<(Self, Streams)> {
        let TransportConfig::Stdio { command, args, env, cwd, limits, .. } = config else {
            return Err(io::Error::other("the target is no child process"));
        };
        let value = |(name, secret): (&String, &SecretSource)| Ok((name.clone(), secret.read()?));
        let env: Result<Vec<_>, UnusableSecret> = env.iter().map(value).collect();
        let env = env.map_err(io::Error::other)?;
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

    /// Waits for it to end, and says how it did.
    pub(super) async fn ended(&mut self) -> String {
        // Only the child itself is waited for; what it left behind is swept up by `end`.
        match self.process.inner_mut().wait().await {
            Ok(status) => match status.code() {
                Some(127) => format!("the process ended with {status}: there is no such program"),
                Some(126) => {
                    format!("the process ended with {status}: it is no program that can run")
                }
                _ => format!("the process ended with {status}"),
            },
            Err(error) => format!("the process was lost: {error}"),
        }
    }

    /// Ends it and whatever it started: its input must be closed already, then it is asked, then
    /// killed.
    pub(super) async fn end(mut self, grace: Duration) {
        if timeout(NOTICE, self.ended()).await.is_err() {
            let _ = self.process.signal(SIGTERM);
            let _ = timeout(grace, self.ended()).await;
        }
        self.sweep();
        let _ = timeout(grace, self.ended()).await;
        let _ = self.process.start_kill(); // the group, should its guard have been killed
    }

    /// Kills it and what it left behind; a guard finds also what left the group.
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

/// The program and its arguments behind a guard, where there can be one.
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
