//! The sink of messages that an upstream sends before its response.

use std::sync::Arc;

use bytes::Bytes;
use gateway_protocol::jsonrpc::{Id, Notification, Request};

use super::{Session, Transport};
use crate::{client_channel::ClientChannel, message};

/// The message sink of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageSink<'a> {
    pub(super) transport: &'a Arc<Transport>,
    pub(super) session: &'a Session,
    /// The channel to the caller, if the request has one.
    pub(super) channel: Option<&'a ClientChannel>,
}

impl MessageSink<'_> {
    /// Handles a notification: changes go to all clients, the rest to the caller.
    pub(super) async fn on_notification(&self, notification: &Notification<'_>) {
        let method = &*notification.method;
        if self.transport.publisher.hear(method, notification.params) {
            return;
        }
        if let Some(channel) = self.channel {
            channel.notify(method, notification.params).await;
        }
    }

    /// Handles a question. Only legacy servers send questions as requests.
    pub(super) fn on_request(&self, request: &Request<'_>) {
        let Some(channel) = self.channel.filter(|_| request.method != "ping") else {
            return self.answer(message::answer(request));
        };
        let Ok(place) = Arc::clone(&self.transport.questions).try_acquire_owned() else {
            tracing::debug!(target.server = %self.transport.server, "rejected a question of an upstream: too many at once");
            return;
        };
        let answered = channel.ask(&request.method, request.params);
        let id: Box<str> = request.id.as_raw().into();
        let (transport, headers) = (Arc::clone(self.transport), self.session.headers.clone());
        let subject = self.session.subject();
        self.transport.client.spawn(async move {
            // Without an answer, the end of the request informs the upstream.
            let (Some(answered), Ok(id)) = (answered.await, Id::parse(&id)) else { return };
            let body: Bytes = message::answered(id, &answered);
            let request = transport.address.post(headers, body);
            transport.send_in_background(request, subject, place);
        });
    }

    /// Responds for the gateway itself.
    fn answer(&self, body: Bytes) {
        match Arc::clone(&self.transport.answers).try_acquire_owned() {
            Ok(place) => self.transport.post_in_background(self.session, body, place),
            Err(_) => {
                tracing::debug!(target.server = %self.transport.server, "rejected a question of an upstream: too many at once");
            }
        }
    }
}
