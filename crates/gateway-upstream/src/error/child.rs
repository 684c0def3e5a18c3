//! Errors of busy child processes.

/// All child processes of callers are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit of {most} callers with their own process is reached")]
pub struct ChildLimitReached {
    /// The maximum number of callers with a process of their own.
    pub most: usize,
}

/// The reason why a call has not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallNotStarted {
    /// The question of a running call is unanswered.
    #[error(
        "another caller's question is unanswered, and the server's questions do not identify their \
         call; retry later, or set `maxCallerChildren` on the target"
    )]
    Unanswered,
    /// Another call has not ended.
    #[error(
        "another call has not ended, and calls run one at a time because the server's questions do not \
         identify their call; retry later, or set `maxCallerChildren` on the target"
    )]
    Running,
    /// The caller has too many calls in the queue.
    #[error(
        "the limit of {most} queued calls per caller is reached; retry later, \
         or set `maxCallerChildren` on the target"
    )]
    Full {
        /// The limit.
        most: usize,
    },
}
