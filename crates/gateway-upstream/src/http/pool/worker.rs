//! The connections of one worker: idle ones, and requests that wait for one.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    future::ready,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use http::HeaderValue;
use tokio::{sync::oneshot, time::sleep};

use super::Connection;
use crate::single_flight::SingleFlight;

/// The number of sweeps within the idle time. Sweeps measure it, so that requests read no clock.
const SWEEPS: u8 = 4;

/// The connections of one worker.
#[derive(Debug)]
pub(super) struct WorkerPool {
    /// The `Host` of requests. Workers do not share its reference count.
    pub(super) host: HeaderValue,
    sweep_interval: Duration,
    connections: Mutex<Connections>,
    /// The attempts to open a connection that requests share.
    pub(super) attempts: SingleFlight,
}

#[derive(Debug, Default)]
struct Connections {
    /// Connections that take a request. The last one is used next, so that superfluous ones expire.
    idle: Vec<IdleConnection>,
    /// Requests that open a connection.
    waiting: VecDeque<oneshot::Sender<Connection>>,
    is_swept: bool,
}

#[derive(Debug)]
struct IdleConnection {
    connection: Connection,
    /// The sweeps since its last request.
    sweeps: u8,
}

impl WorkerPool {
    pub(super) fn new(host: HeaderValue, idle: Duration) -> Self {
        Self {
            host,
            sweep_interval: idle / u32::from(SWEEPS),
            connections: Mutex::default(),
            attempts: SingleFlight::default(),
        }
    }

    /// An idle connection for a request.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut connections = self.lock();
        loop {
            let connection = connections.idle.pop()?.connection;
            if connection.is_ready() {
                if let Some(connection) = connection.share() {
                    connections.idle.push(IdleConnection { connection, sweeps: 0 });
                }
                return Some(connection);
            }
        }
    }

    /// Waits for a connection that another request no longer needs.
    pub(super) fn wait(&self) -> oneshot::Receiver<Connection> {
        let (sender, receiver) = oneshot::channel();
        let mut connections = self.lock();
        // A request that opened its connection waits no longer. The first of the others leaves within
        // the time limit of connections.
        while connections.waiting.front().is_some_and(oneshot::Sender::is_closed) {
            connections.waiting.pop_front();
        }
        connections.waiting.push_back(sender);
        receiver
    }

    /// Keeps the connection of a request that has the head of its response.
    ///
    /// Over HTTP/1.1 the connection takes the next request once the body is read. A short body arrives
    /// with the head, so that the connection is usually ready here. A task waits for the end of a
    /// longer one: then all idle connections are ready, and no request searches for one. A body that is
    /// dropped unread closes the connection.
    pub(super) fn release(self: &Arc<Self>, connection: Connection) {
        // A shared connection has stayed in the pool.
        if let Connection::Http1(sender) = &connection {
            if sender.is_ready() {
                self.put(connection);
            } else if !sender.is_closed() {
                self.put_later(ready(Some(connection)));
            }
        }
    }

    /// Adds a connection once it takes a request, unless the pool is gone by then.
    pub(super) fn put_later(
        self: &Arc<Self>,
        connection: impl Future<Output = Option<Connection>> + Send + 'static,
    ) {
        let worker = Arc::downgrade(self);
        tokio::spawn(async move {
            let mut connection = connection.await?;
            connection.ready().await.ok()?;
            worker.upgrade()?.put(connection);
            Some(())
        });
    }

    /// Gives a connection to the first request that waits for one, or keeps it.
    pub(super) fn put(self: &Arc<Self>, mut connection: Connection) {
        let mut connections = self.lock();
        while let Some(waiting) = connections.waiting.pop_front() {
            let shared = connection.share();
            connection = match (waiting.send(connection), shared) {
                (Ok(()), None) => return,
                (Ok(()), Some(shared)) => shared,
                (Err(connection), _) => connection,
            };
        }
        let is_http2 = |known: &Connection| matches!(known, Connection::Http2(_));
        let is_known = |idle: &IdleConnection| is_http2(&idle.connection) && idle.is_usable();
        if is_http2(&connection) && connections.idle.iter().any(is_known) {
            return;
        }
        connections.idle.push(IdleConnection { connection, sweeps: 0 });
        if !mem::replace(&mut connections.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), self.sweep_interval));
        }
    }

    /// Closes expired connections. Returns whether idle ones are left.
    fn sweep(&self) -> bool {
        let mut connections = self.lock();
        connections.idle.retain_mut(|idle| {
            idle.sweeps += 1;
            idle.is_usable()
        });
        connections.is_swept = !connections.idle.is_empty();
        connections.is_swept
    }

    fn lock(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleConnection {
    fn is_usable(&self) -> bool {
        self.sweeps < SWEEPS && self.connection.is_ready()
    }
}

/// Closes idle connections until there are none.
async fn sweep(worker: Weak<WorkerPool>, interval: Duration) {
    loop {
        sleep(interval).await;
        let Some(worker) = worker.upgrade() else { return };
        if !worker.sweep() {
            return;
        }
    }
}
