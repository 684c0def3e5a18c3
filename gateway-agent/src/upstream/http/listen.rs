//! The stream of what an upstream says to everybody: `subscriptions/listen` of the modern era,
//! `GET` and `resources/subscribe` of the older one.
//!
//! Lists are polled besides, so an upstream without such streams only takes longer. Deliberately
//! absent: asking anybody over a stream that belongs to nobody in particular.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use http::StatusCode;
use hyper::body::Incoming;
use registry_follow::Backoff;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        request::{Context, Method, Request},
        sse::Events,
        subscriptions::{Subscriptions, Wanted},
    },
    Breach, Ear, Error, HttpLink, Outgoing, Session, Way, answer, request_headers,
};
use crate::jsonrpc::{self, Limits, Message};

/// Before a stream is opened again.
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(30);

/// Follows, with patience, for as long as it is not dropped.
pub(super) async fn forever(link: &HttpLink, subscriptions: &Subscriptions) {
    let mut backoff = Backoff::new(FIRST, LONGEST);
    loop {
        let wanted = subscriptions.wanted();
        let lasted = tokio::time::Instant::now();
        let outcome = tokio::select! {
            outcome = once(link, &wanted) => outcome,
            () = subscriptions.other_than(&wanted) => continue,
        };
        if let Err(error) = outcome {
            tracing::debug!(target.server = %link.way.server, %error, "a stream of news ended");
        }
        if lasted.elapsed() > LONGEST {
            backoff.reset();
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.wait()) => {}
            () = subscriptions.other_than(&wanted) => {}
        }
    }
}

async fn once(link: &HttpLink, wanted: &Wanted) -> Result<(), Error> {
    let session = link.session().await?;
    let request = if session.is_legacy() {
        for uri in wanted.uris() {
            subscribe(link, &session, uri).await?;
        }
        link.way.address.get(session.headers.clone())
    } else {
        let notifications = wanted.filter();
        let listen = Outgoing::Listen { notifications: &notifications };
        let id = link.next_id.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let headers = request_headers(&session, &listen, &[]);
        link.way.address.post(headers, listen.write(id, session.era).into())
    };
    let response = link.way.send(request, &None).await?;
    let status = response.status();
    if status == StatusCode::NOT_FOUND && session.has_id {
        link.forget(&session);
    }
    if !status.is_success() || !answer::is_event_stream(response.headers()) {
        return Err(answer::no(status));
    }
    let session = (&Arc::downgrade(&session), Whom::Nobody);
    follow(response.into_body(), &link.way, session).await
}

/// Tells a legacy server that one of its resources is of interest. It is never told that one no longer is.
async fn subscribe(link: &HttpLink, session: &Arc<Session>, uri: &str) -> Result<(), Error> {
    let context = Context::default();
    let request = Request::plain(Method::Subscribe, &[], &context);
    let outgoing = Outgoing::Asked { subject: uri, request };
    // One that is refused is no reason to hear nothing of the others.
    let answer = link.exchange(session, &outgoing, &[]).await?;
    if let Some(super::Reply::Error(error)) = answer.reply {
        tracing::debug!(target.server = %link.way.server, code = error.code, "a subscription was refused");
    }
    Ok(())
}

/// The same in a session that belongs to one caller, who can be asked: what the server says here
/// without saying to whom can only be meant for that one. It ends with the session. `answered` is
/// dropped when the server has answered the first time.
pub(super) async fn own(
    way: Arc<Way>,
    (session, ended): (Weak<Session>, CancellationToken),
    answered: oneshot::Sender<()>,
) {
    let mut backoff = Backoff::new(FIRST, LONGEST);
    let mut answered = Some(answered);
    let follow = async {
        while let Some(open) = session.upgrade() {
            let (headers, on_behalf) = (open.headers.clone(), open.on_behalf());
            drop(open);
            let response = way.send(way.address.get(headers), &on_behalf).await;
            drop(answered.take());
            let Ok(response) = response else { return };
            if !response.status().is_success() || !answer::is_event_stream(response.headers()) {
                return; // there is no such stream
            }
            let _ = follow(response.into_body(), &way, (&session, Whom::Caller)).await;
            tokio::time::sleep(backoff.wait()).await;
        }
    };
    ended.run_until_cancelled(follow).await;
}

/// For whom is what comes over a stream, unless it is for everybody.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    Nobody,
    /// Who asked last in the session.
    Caller,
}

async fn follow(
    mut body: Incoming,
    way: &Arc<Way>,
    (session, whom): (&Weak<Session>, Whom),
) -> Result<(), Error> {
    let limit_bytes = way.client.limits().response_bytes;
    let too_large = |_| Error::TooLarge { limit_bytes };
    let mut events = Events::new(limit_bytes);
    while let Some(chunk) = answer::next_chunk(&mut body).await? {
        events.push(&chunk).map_err(too_large)?;
        while let Some(data) = events.next() {
            let Some(session) = session.upgrade() else { return Ok(()) };
            let side = session.caller().filter(|_| whom == Whom::Caller);
            let ear = Ear { way, session: &session, side: side.as_ref() };
            match jsonrpc::parse(&data, Limits::of_bytes(limit_bytes)) {
                Ok(Message::Notification(notification)) => ear.notified(&notification).await,
                Ok(Message::Request(request)) => ear.asked(&request),
                // The graceful end of a subscription, or its refusal.
                Ok(Message::Response(_)) => return Ok(()),
                Err(error) => return Err(Breach::Garbage(error).into()),
            }
        }
    }
    Ok(())
}
