//! Futures that are polled only after their own wakeups.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;
use pin_project_lite::pin_project;

pin_project! {
    /// A future that is polled once at first, and then only after its own wakeup.
    ///
    /// A task polls all its futures when one of them is ready. Some polls take locks that all tasks
    /// share, such as those of cancellation tokens and watched values.
    #[derive(Debug)]
    pub struct PollOnWake<F> {
        #[pin]
        future: F,
        wakeup: Arc<Wakeup>,
        waker: Waker,
    }
}

/// The wakeup of a future, which wakes the task that polls it.
#[derive(Debug)]
struct Wakeup {
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl<F> PollOnWake<F> {
    /// Wraps a future. Polling it after its completion is an error: it stays pending.
    pub fn new(future: F) -> Self {
        let wakeup = Arc::new(Wakeup { is_woken: AtomicBool::new(true), task: AtomicWaker::new() });
        let waker = Waker::from(Arc::clone(&wakeup));
        Self { future, wakeup, waker }
    }
}

impl<F: Future> Future for PollOnWake<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        // Registered before the flag is read, so that a wakeup in between reaches the task.
        this.wakeup.task.register(context.waker());
        if !this.wakeup.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        this.future.poll(&mut Context::from_waker(this.waker))
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future::poll_fn, pin::pin, task::Poll};

    use futures_util::future::select;
    use tokio::{sync::Notify, task::yield_now};

    use super::*;

    #[tokio::test]
    async fn future_is_polled_only_after_its_wakeup() {
        let (polls, ready) = (Cell::new(0), Notify::new());
        let mut notified = pin!(ready.notified());
        let counted = poll_fn(|context| {
            polls.set(polls.get() + 1);
            notified.as_mut().poll(context)
        });
        let others = async {
            for _ in 0..3 {
                yield_now().await;
            }
            ready.notify_one();
            std::future::pending::<()>().await;
        };
        select(PollOnWake::new(counted), pin!(others)).await;
        assert_eq!(polls.get(), 2);
    }

    #[tokio::test]
    async fn future_that_wakes_itself_is_polled_again() {
        PollOnWake::new(yield_now()).await;
        let mut turns = 0;
        let three = poll_fn(|context| {
            turns += 1;
            context.waker().wake_by_ref();
            if turns == 3 { Poll::Ready(turns) } else { Poll::Pending }
        });
        assert_eq!(PollOnWake::new(three).await, 3);
    }

    #[tokio::test]
    async fn future_follows_its_task() {
        let ready = Arc::new(Notify::new());
        let notified = Arc::clone(&ready);
        let mut future = Box::pin(PollOnWake::new(async move { notified.notified().await }));
        assert!(poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await.is_pending());
        let other = tokio::spawn(future);
        yield_now().await;
        ready.notify_one();
        other.await.unwrap();
    }
}
