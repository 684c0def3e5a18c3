//! A client of `GET /rpc`: a data agent, or a caller.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Error, Message, client::IntoClientRequest as _},
};

/// A WebSocket. It answers pings while it waits for a message.
#[derive(Debug)]
pub struct WebSocket(WebSocketStream<TcpStream>);

impl WebSocket {
    /// Opens a WebSocket of a gateway with these headers. Fails with the HTTP status.
    pub async fn open(address: &str, headers: &[(&'static str, &str)]) -> Result<Self, u16> {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("an option of TCP");
        Self::over(stream, address, headers).await
    }

    /// Like [`WebSocket::open`], on this connection.
    pub async fn over(
        stream: TcpStream,
        address: &str,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, u16> {
        let request = format!("ws://{address}/rpc").into_client_request();
        let mut request = request.expect("a valid URL");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("no response to the upgrade: {error}"),
        }
    }

    /// Sends a text. Returns whether the connection still accepts it.
    pub async fn send(&mut self, text: String) -> bool {
        self.0.send(Message::text(text)).await.is_ok()
    }

    /// The next text. `None`: the connection has ended.
    pub async fn text(&mut self) -> Option<String> {
        loop {
            match self.0.next().await?.ok()? {
                Message::Text(text) => return Some(text.as_str().to_owned()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    /// Sends a message, and returns the next one.
    pub async fn asked(&mut self, message: &Value) -> Value {
        assert!(self.send(message.to_string()).await, "the connection has ended");
        let text = self.text().await.expect("an answer");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The code of the close frame. `None`: the connection ends without one.
    pub async fn close_code(mut self) -> Option<u16> {
        loop {
            if let Message::Close(frame) = self.0.next().await?.ok()? {
                return frame.map(|frame| frame.code.into());
            }
        }
    }

    /// The connection, for bytes that are no valid messages.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.0.get_mut()
    }
}
