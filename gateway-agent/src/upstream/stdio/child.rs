//! The child process: started with a clean environment in a process group of its own, and ended
//! with everything that it started.
//!
//! Deliberately absent: when to do that; the supervisor decides. A gateway that is killed outright
//! cannot end its children; they see their standard input close.

use std::{io, process::Stdio, time::Duration};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::config::{SecretSource, TransportConfig, UnusableSecret};

const SIGTERM: i32 = 15;

/// How long a child may take to notice that its standard input was closed.
const NOTICE: Duration = Duration::from_millis(300);

/// A running child. Dropping it kills its group.
#[derive(Debug)]
pub(super) struct Child(Box<dyn ChildWrapper>);

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
        let TransportConfig::Stdio { command, args, env, cwd } = config else {
            return Err(io::Error::other("the target is no child process"));
        };
        let value = |(name, secret): (&String, &SecretSource)| Ok((name.clone(), secret.read()?));
        let env: Result<Vec<_>, UnusableSecret> = env.iter().map(value).collect();
        let env = env.map_err(io::Error::other)?;
        let mut wrap = CommandWrap::with_new(command, |process| {
            process.args(args).env_clear();
            process
                .envs(env.iter().cloned())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            if let Some(cwd) = cwd {
                process.current_dir(cwd);
            }
        });
        let mut child = Self(wrap.wrap(ProcessGroup::leader()).wrap(KillOnDrop).spawn()?);
        let streams = child.take_streams().ok_or_else(|| io::Error::other("a pipe is missing"))?;
        Ok((child, streams))
    }

    fn take_streams(&mut self) -> Option<Streams> {
        Some(Streams {
            stdin: self.0.stdin().take()?,
            stdout: self.0.stdout().take()?,
            stderr: self.0.stderr().take()?,
        })
    }

    /// Waits for it to end, and says how it did.
    pub(super) async fn ended(&mut self) -> String {
        // Only the child itself is waited for; what it left behind is swept up by `end`.
        match self.0.inner_mut().wait().await {
            Ok(status) => format!("the process ended with {status}"),
            Err(error) => format!("the process was lost: {error}"),
        }
    }

    /// Ends it and whatever it started: its input must be closed already, then it is asked, then
    /// killed.
    pub(super) async fn end(mut self, grace: Duration) {
        if timeout(NOTICE, self.ended()).await.is_err() {
            let _ = self.0.signal(SIGTERM);
            let _ = timeout(grace, self.ended()).await;
        }
        let _ = self.0.start_kill(); // the group, for what the child left behind
        let _ = timeout(grace, self.ended()).await;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.start_kill();
    }
}
