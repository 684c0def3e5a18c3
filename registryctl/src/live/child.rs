//! A server as a child process: a clean environment, a process group of its own, an end.
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
/// How long it may take to notice that its input is closed, and then to end.
const GRACE: Duration = Duration::from_secs(2);
/// How much of its last words is kept.
const LAST_WORDS: usize = 2048;

/// A running child. Dropping it kills its group.
pub(super) struct Child {
    process: Box<dyn ChildWrapper>,
    stderr: JoinHandle<String>,
}

impl Child {
    /// Starts the program; its streams are for the conversation.
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
        let mut process =
            wrap.spawn().map_err(|e| target.unreachable(format!("cannot start it: {e}")))?;
        let streams = (process.stdin().take(), process.stdout().take(), process.stderr().take());
        let (Some(stdin), Some(stdout), Some(stderr)) = streams else {
            return Err(target.unreachable("a pipe is missing"));
        };
        let stderr = tokio::spawn(last_words(stderr));
        Ok((Self { process, stderr }, stdout, stdin))
    }

    /// Ends it and its group, and gives its last words. Its input is closed already; it
    /// is asked, then killed.
    pub(super) async fn end(mut self) -> String {
        if timeout(GRACE, self.process.inner_mut().wait()).await.is_err() {
            // It may have ended meanwhile.
            let _ = self.process.signal(SIGTERM);
            let _ = timeout(GRACE, self.process.inner_mut().wait()).await;
        }
        let _ = self.process.start_kill(); // the group, for what it left behind
        let _ = timeout(GRACE, self.process.inner_mut().wait()).await;
        let last_words = timeout(GRACE, &mut self.stderr).await;
        last_words.ok().and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.start_kill();
    }
}

/// Reads all that it complains about, and keeps the end.
async fn last_words(mut stderr: ChildStderr) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        kept.extend_from_slice(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(LAST_WORDS));
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}
