//! Where the messages go that an upstream sends besides its answer.

use std::sync::Arc;

use bytes::Bytes;
use gateway_protocol::jsonrpc::{Id, Notification, Request};

use super::{Session, Way};
use crate::{message, side::Side};

/// Listens to one conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ear<'a> {
    pub(super) way: &'a Arc<Way>,
    pub(super) session: &'a Session,
    /// The caller, if the conversation is a caller's.
    pub(super) side: Option<&'a Side>,
}

impl Ear<'_> {
    /// Takes a notification: what concerns everybody goes to everybody, the rest to the caller.
    pub(super) async fn notified(&self, notification: &Notification<'_>) {
        let method = &*notification.method;
        if self.way.announcer.hear(method, notification.params) {
            return;
        }
        if let Some(side) = self.side {
            side.tell(method, notification.params).await;
        }
    }

    /// Takes a question. Only servers of the older era ask in this way.
    pub(super) fn asked(&self, request: &Request<'_>) {
        let Some(side) = self.side.filter(|_| request.method != "ping") else {
            return self.answer(message::answer(request));
        };
        let Ok(place) = Arc::clone(&self.way.questions).try_acquire_owned() else {
            tracing::debug!(target.server = %self.way.server, "an upstream asks too much at once");
            return;
        };
        let answered = side.ask(&request.method, request.params);
        let id: Box<str> = request.id.as_raw().into();
        let (way, headers) = (Arc::clone(self.way), self.session.headers.clone());
        let on_behalf = self.session.on_behalf();
        self.way.client.spawn(async move {
            // Who has gone answers nothing; the upstream is told by the end of the request.
            let (Ok(answered), Ok(id)) = (answered.await, Id::parse(&id)) else { return };
            let body: Bytes = message::answered(id, &answered);
            let request = way.address.post(headers, body);
            way.send_in_background(request, on_behalf, place);
        });
    }

    /// Answers for the gateway itself.
    fn answer(&self, body: Bytes) {
        match Arc::clone(&self.way.answers).try_acquire_owned() {
            Ok(place) => self.way.post_in_background(self.session, body, place),
            Err(_) => {
                tracing::debug!(target.server = %self.way.server, "an upstream asks too much at once");
            }
        }
    }
}
