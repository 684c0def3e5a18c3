//! Operations that continue without their clients: closing a connection or a stream cancels nothing
//! in A2A.

use std::{panic::resume_unwind, pin::pin};

use gateway_upstream::PollOnWake;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The running operations.
#[derive(Debug, Default)]
pub(super) struct RunningOperations {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl RunningOperations {
    /// Runs an operation to its end, also if the returned future is dropped. The output is `None`
    /// if the gateway stops first.
    pub(super) fn run<T, F>(
        &self,
        operation: F,
    ) -> impl Future<Output = Option<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let stop = self.stop.clone();
        let running = self.tasks.spawn(async move {
            let mut stopped = pin!(PollOnWake::new(stop.cancelled()));
            tokio::select! {
                biased;
                () = &mut stopped => None,
                output = operation => Some(output),
            }
        });
        async move { running.await.unwrap_or_else(|e| resume_unwind(e.into_panic())) }
    }

    /// Waits until no operation is running.
    pub(super) async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Cancels the running operations, and waits for their ends.
    pub(super) async fn shutdown(&self) {
        self.stop.cancel();
        self.drained().await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn operation_continues_without_its_client() {
        let running = RunningOperations::default();
        let (sender, received) = oneshot::channel();
        drop(running.run(async move { sender.send(7) }));
        assert_eq!(received.await, Ok(7));
        running.drained().await;
    }

    #[tokio::test]
    async fn shutdown_cancels_operations() {
        let running = RunningOperations::default();
        let endless = running.run(pending::<()>());
        running.shutdown().await;
        assert_eq!(endless.await, None);
    }
}
