//! A request body with timeouts, so that slow clients do not hold memory.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use http_body::{Body, Frame, SizeHint};
use hyper::body::{Bytes, Incoming};
use tokio::time::{Sleep, sleep};

#[derive(Debug, Clone, Copy)]
struct Timeouts {
    whole: Duration,
    next_byte: Duration,
}

const TIMEOUTS: Timeouts =
    Timeouts { whole: Duration::from_mins(1), next_byte: Duration::from_secs(10) };

/// A body with two timeouts that start when a reader first waits.
#[derive(Debug)]
pub(super) struct DeadlineBody<B = Incoming> {
    body: B,
    timeouts: Timeouts,
    whole: Option<Pin<Box<Sleep>>>,
    next_byte: Option<Pin<Box<Sleep>>>,
}

impl<B> DeadlineBody<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, timeouts: TIMEOUTS, whole: None, next_byte: None }
    }
}

impl<B> Body for DeadlineBody<B>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.next_byte = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(io::Error::other)));
        }
        let Timeouts { whole, next_byte } = self.timeouts;
        let timer = self.whole.get_or_insert_with(|| Box::pin(sleep(whole)));
        let is_late = timer.as_mut().poll(context).is_ready();
        let timer = self.next_byte.get_or_insert_with(|| Box::pin(sleep(next_byte)));
        let late = if is_late {
            format!("the request body took longer than {whole:?}")
        } else {
            ready!(timer.as_mut().poll(context));
            format!("no byte of the request body arrived for {next_byte:?}")
        };
        Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, late))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    const MOMENT: Duration = Duration::from_millis(100);

    /// Reads a body that sends one chunk per interval.
    async fn read(chunks: u32, interval: Duration) -> io::Result<()> {
        let chunks = stream::unfold(0, move |sent| async move {
            sleep(interval).await;
            let chunk = Ok::<_, io::Error>(Frame::data(Bytes::from_static(b"x")));
            (sent < chunks).then_some((chunk, sent + 1))
        });
        let mut body = DeadlineBody::new(StreamBody::new(Box::pin(chunks)));
        body.timeouts = Timeouts { whole: MOMENT * 8, next_byte: MOMENT * 2 };
        while let Some(frame) = body.frame().await {
            frame?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn body_timeout_rejects_stalled_upload() {
        let late = read(1, MOMENT * 20).await.unwrap_err();
        insta::assert_snapshot!(late, @"no byte of the request body arrived for 200ms");
    }

    #[tokio::test]
    async fn body_timeout_rejects_slow_upload() {
        let late = read(1_000, MOMENT / 10).await.unwrap_err();
        insta::assert_snapshot!(late, @"the request body took longer than 800ms");
    }

    #[tokio::test]
    async fn body_timeout_allows_steady_upload() {
        read(9, MOMENT / 10).await.unwrap();
    }
}
