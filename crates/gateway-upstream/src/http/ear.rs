//! The sink of messages that an upstream sends before its response.

use std::sync::Arc;

use bytes::Bytes;
use gateway_protocol::jsonrpc::{Id, Notification, Request};

use super::{Session, Way};
use crate::{message, side::Side};

/// The message sink of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ear<'a> {
    pub(super) way: &'a Arc<Way>,
    pub(super) session: &'a Session,
    /// The channel to the caller, if the request has one.
    pub(super) side: Option<&'a Side>,
}

impl Ear<'_> {
    /// Handles a notification: changes go to all clients, the rest to the caller.
    pub(super) async fn notified(&self, notification: &Notification<'_>) {
        let method = &*notification.method;
        if self.way.announcer.hear(method, notification.params) {
            return;
        }
        if let Some(side) = self.side {
            side.tell(method, notification.params).await;
        }
    }

    /// Handles a question. Only legacy servers send questions as requests.
    pub(super) fn asked(&self, request: &Request<'_>) {
        let Some(side) = self.side.filter(|_| request.method != "ping") else {
            return self.answer(message::answer(request));
        };
        let Ok(place) = Arc::clone(&self.way.questions).try_acquire_owned() else {
            tracing::debug!(target.server = %self.way.server, "rejected a question of an upstream: too many at once");
            return;
        };
        let answered = side.ask(&request.method, request.params);
        let id: Box<str> = request.id.as_raw().into();
        let (way, headers) = (Arc::clone(self.way), self.session.headers.clone());
        let on_behalf = self.session.on_behalf();
        self.way.client.spawn(async move {
            // Without an answer, the end of the request informs the upstream.
            let (Ok(answered), Ok(id)) = (answered.await, Id::parse(&id)) else { return };
            let body: Bytes = message::answered(id, &answered);
            let request = way.address.post(headers, body);
            way.send_in_background(request, on_behalf, place);
        });
    }

    /// Responds for the gateway itself.
    fn answer(&self, body: Bytes) {
        match Arc::clone(&self.way.answers).try_acquire_owned() {
            Ok(place) => self.way.post_in_background(self.session, body, place),
            Err(_) => {
                tracing::debug!(target.server = %self.way.server, "rejected a question of an upstream: too many at once");
            }
        }
    }
}
