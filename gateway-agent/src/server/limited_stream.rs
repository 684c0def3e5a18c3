//! A stream that requires its peer to read, so that slow clients do not hold responses in memory, and
//! that reserves memory for bytes after an upgrade.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use crate::ingress::ReceivedBytes;

/// The minimum read rate while a response waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct MinimumRate {
    /// Length of the interval.
    pub(super) time: Duration,
    /// Minimum bytes per interval, unless fewer remain.
    pub(super) bytes: usize,
}

/// A stream whose writes fail if its peer reads below the minimum rate, and whose reads fail if the
/// quota of its caller is used up.
#[derive(Debug)]
pub(super) struct LimitedStream<S> {
    stream: S,
    rate: MinimumRate,
    /// Set from the first blocked write until enough, or everything, is written.
    deadline: Option<Pin<Box<Sleep>>>,
    /// Bytes written since the deadline was set.
    written: usize,
    received: ReceivedBytes,
}

impl<S> LimitedStream<S> {
    pub(super) fn new(stream: S, rate: MinimumRate, received: ReceivedBytes) -> Self {
        Self { stream, rate, deadline: None, written: 0, received }
    }

    fn check_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(Ok(bytes)) = written else { return self.check_deadline(written, context) };
        self.written += bytes;
        if self.written >= self.rate.bytes {
            self.restart();
        }
        written
    }

    fn restart(&mut self) {
        self.deadline = None;
        self.written = 0;
    }

    fn check_deadline<T>(
        &mut self,
        done: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if done.is_ready() {
            return done;
        }
        let MinimumRate { time, bytes } = self.rate;
        let deadline = self.deadline.get_or_insert_with(|| {
            self.written = 0;
            Box::pin(sleep(time))
        });
        ready!(deadline.as_mut().poll(context));
        let late =
            format!("the client read {} of at least {bytes} bytes in {time:?}", self.written);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, late)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let bytes = buffer.filled().len() - before;
        let reserved = if bytes == 0 { Ok(()) } else { self.received.reserve(bytes) };
        Poll::Ready(reserved.map_err(io::Error::other))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_write(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.check_write(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        if flushed.is_ready() {
            self.restart();
        }
        self.check_deadline(flushed, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gateway_policy::{BufferPool, QuotaExceeded};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    const MINIMUM_RATE: MinimumRate = MinimumRate { time: Duration::from_millis(400), bytes: 64 };

    /// Reads `bytes` ten times per interval until the peer closes.
    async fn read_at(bytes: usize, mut stream: DuplexStream) {
        let mut part = vec![0; bytes];
        while stream.read(&mut part).await.is_ok_and(|read| read > 0) {
            sleep(MINIMUM_RATE.time / 10).await;
        }
    }

    async fn write(
        bytes: usize,
        reading: impl Future<Output = ()> + Send + 'static,
        ours: DuplexStream,
    ) -> io::Result<()> {
        tokio::spawn(reading);
        let mut stream = LimitedStream::new(ours, MINIMUM_RATE, ReceivedBytes::default());
        stream.write_all(&vec![0; bytes]).await?;
        stream.flush().await
    }

    #[tokio::test]
    async fn write_fails_when_client_reads_nothing() {
        let (ours, theirs) = duplex(16);
        let reading = async move {
            let _theirs = theirs;
            std::future::pending::<()>().await;
        };
        let cut = write(100, reading, ours).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
        assert!(cut.to_string().contains("64 bytes"), "{cut}");
    }

    #[tokio::test]
    async fn write_fails_below_minimum_rate() {
        let (ours, theirs) = duplex(16);
        let cut = write(1_000, read_at(3, theirs), ours).await.unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn write_succeeds_above_minimum_rate() {
        let (ours, theirs) = duplex(16);
        write(1_000, read_at(16, theirs), ours).await.unwrap();
    }

    #[tokio::test]
    async fn received_bytes_are_reserved_after_upgrade() {
        let (buffers, received) = (Arc::new(BufferPool::default()), ReceivedBytes::default());
        let (ours, mut theirs) = duplex(64);
        let mut stream = LimitedStream::new(ours, MINIMUM_RATE, received.clone());
        let mut part = [0; 10];
        theirs.write_all(&[1; 10]).await.unwrap();
        stream.read_exact(&mut part).await.unwrap();
        assert_eq!(buffers.total(), 0);
        // A quarter is the quota of one caller.
        received.begin(Arc::new(buffers.open(None, 4 * 15)));
        for _ in 0..2 {
            theirs.write_all(&[1; 10]).await.unwrap();
            stream.read_exact(&mut part).await.unwrap();
            assert_eq!(buffers.total(), 10);
            received.release(usize::MAX);
        }
        theirs.write_all(&[1; 10]).await.unwrap();
        stream.read_exact(&mut part).await.unwrap();
        theirs.write_all(&[1; 10]).await.unwrap();
        let full = stream.read_exact(&mut part).await.unwrap_err();
        assert!(full.get_ref().is_some_and(|full| full.is::<QuotaExceeded>()), "{full}");
    }

    #[tokio::test]
    async fn pauses_between_responses_do_not_count() {
        let (ours, theirs) = duplex(16);
        tokio::spawn(read_at(16, theirs));
        let mut stream = LimitedStream::new(ours, MINIMUM_RATE, ReceivedBytes::default());
        for _ in 0..3 {
            stream.write_all(&[0; 40]).await.unwrap();
            stream.flush().await.unwrap();
            sleep(MINIMUM_RATE.time).await;
        }
    }
}
