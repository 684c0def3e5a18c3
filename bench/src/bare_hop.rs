//! A proxy that only forwards: the CPU time that the HTTP library of the gateway needs for a hop.

use hyper::{Request, body::Incoming, client, server, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

use crate::peer::Peer;

/// Starts the proxy as a process of its own, in front of an upstream.
pub(crate) fn start(upstream: &str) -> Peer {
    Peer::start_self(|command, port| {
        command.arg(format!("--bare-hop={port}")).arg(format!("--bare-hop-upstream={upstream}"));
    })
}

/// Serves on a port of the loopback address until the process ends.
pub(crate) async fn serve(port: u16, upstream: String) {
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
    loop {
        let (client, _) = listener.accept().await.expect("a connection");
        client.set_nodelay(true).expect("an option of TCP");
        let upstream = upstream.clone();
        // The connection that tests whether the proxy listens ends without a request, which is an error.
        tokio::spawn(async move { forward(client, &upstream).await.ok() });
    }
}

/// Forwards the requests of a connection to a connection of its own.
async fn forward(client: TcpStream, upstream: &str) -> hyper::Result<()> {
    let stream = TcpStream::connect(upstream).await.expect("the upstream listens");
    stream.set_nodelay(true).expect("an option of TCP");
    let (sender, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    // The server has one request at a time, so that none waits for the lock.
    let sender = Mutex::new(sender);
    let service = service_fn(|request: Request<Incoming>| async {
        let mut sender = sender.lock().await;
        sender.ready().await?;
        sender.send_request(request).await
    });
    server::conn::http1::Builder::new().serve_connection(TokioIo::new(client), service).await
}
