//! The lines to the client, in order.

use std::io;

use bytes::Bytes;
use gateway_upstream::on_one_line;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, BufWriter},
    sync::mpsc,
    task::JoinHandle,
};

/// Maximum number of queued messages if the client does not read. Senders then wait.
const QUEUE: usize = 16;

/// The output to the client. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Output(mpsc::Sender<Bytes>);

impl Output {
    /// Starts the writer task. It ends when all clones are dropped or a write fails.
    pub(super) fn start(
        stream: impl AsyncWrite + Unpin + Send + 'static,
    ) -> (Self, JoinHandle<io::Result<()>>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        (Self(sender), tokio::spawn(write(stream, receiver)))
    }

    /// Sends one message. Messages after the client has closed its input are dropped.
    pub(super) async fn send(&self, message: impl Into<Vec<u8>>) {
        let _ = self.0.send(on_one_line(message.into())).await;
    }
}

async fn write(
    stream: impl AsyncWrite + Unpin,
    mut lines: mpsc::Receiver<Bytes>,
) -> io::Result<()> {
    let mut stream = BufWriter::new(stream);
    while let Some(line) = lines.recv().await {
        stream.write_all(&line).await?;
        if lines.is_empty() {
            stream.flush().await?;
        }
    }
    stream.flush().await
}
