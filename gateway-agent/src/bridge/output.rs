//! The lines to the client, in the order of sending.

use std::io;

use bytes::Bytes;
use gateway_upstream::on_one_line;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, BufWriter},
    sync::mpsc,
    task::JoinHandle,
};

/// How many messages wait for a client that does not read. Each of them holds back its sender.
const WAITING: usize = 16;

/// The way to the client; clones share it.
#[derive(Debug, Clone)]
pub(super) struct Output(mpsc::Sender<Bytes>);

impl Output {
    /// Starts the task that writes. The task ends when all clones are dropped, or with the error of
    /// a write.
    pub(super) fn start(
        stream: impl AsyncWrite + Unpin + Send + 'static,
    ) -> (Self, JoinHandle<io::Result<()>>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), tokio::spawn(write(stream, receiver)))
    }

    /// Sends one message. Messages to a client that has closed its end are dropped.
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
