//! A server as a child process with a clean environment and its own process group.
//!
//! A sandbox is not supported. A descendant that leaves the process group is not killed.

use std::{process::Stdio, time::Duration};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::{
    io::AsyncReadExt as _,
    process::{ChildStderr, ChildStdin, ChildStdout},
    task::JoinHandle,
    time::timeout,
};

use super::Target;
use crate::failure::Failure;

const SIGTERM: i32 = 15;
/// Time to exit after standard input was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// The kept end of standard error, in bytes.
const STDERR_BYTES: usize = 2048;

/// A running child. Dropping it kills its group.
pub(super) struct Child {
    process: Box<dyn ChildWrapper>,
    stderr: JoinHandle<String>,
}

impl Child {
    /// Starts the program, and returns its output and input.
    pub(super) fn start(
        target: &Target,
        words: &[String],
    ) -> Result<(Self, ChildStdout, ChildStdin), Failure> {
        let mut wrap = CommandWrap::with_new(&words[0], |process| {
            process.args(&words[1..]).env_clear().envs(&target.env);
            process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            if let Some(cwd) = &target.cwd {
                process.current_dir(cwd);
            }
        });
        let wrap = wrap.wrap(ProcessGroup::leader()).wrap(KillOnDrop);
        let mut process = wrap
            .spawn()
            .map_err(|e| target.unreachable(format!("cannot start the program: {e}")))?;
        let streams = (process.stdin().take(), process.stdout().take(), process.stderr().take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(target.unreachable("a pipe is missing"));
        };
        let stderr = tokio::spawn(last_output(stderr));
        Ok((Self { process, stderr }, stdout, stdin))
    }

    /// Terminates the process and its group after its input was closed, and returns the end of its standard
    /// error.
    pub(super) async fn terminate(mut self) -> String {
        if timeout(GRACE, self.process.inner_mut().wait()).await.is_err() {
            // The process may have exited.
            let _ = self.process.signal(SIGTERM);
            let _ = timeout(GRACE, self.process.inner_mut().wait()).await;
        }
        let _ = self.process.start_kill(); // kills remaining processes of the group
        let _ = timeout(GRACE, self.process.inner_mut().wait()).await;
        let stderr = timeout(GRACE, &mut self.stderr).await;
        stderr.ok().and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.start_kill();
    }
}

/// Reads standard error, and keeps its end.
async fn last_output(mut stderr: ChildStderr) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(STDERR_BYTES));
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}
