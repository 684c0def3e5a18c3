//! The stream of an upstream's notifications to all clients: `subscriptions/listen` of the modern
//! era, `GET` and `resources/subscribe` of the older one.
//!
//! Lists are also polled, so without such a stream a change only takes longer. Questions on this
//! stream are not supported: they belong to no request of a caller.

use std::{
    pin::pin,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use gateway_protocol::{
    jsonrpc::{self, Limits, Message},
    mcp::Method,
    sse::Events,
};
use http::StatusCode;
use hyper::body::Incoming;
use retry_backoff::Backoff;
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        request::{Request, RequestContext},
        send_state::Body,
        subscriptions::{SentSubscriptions, Subscriptions, Wanted},
    },
    Error, HttpLink, MessageSink, Outgoing, ProtocolViolation, Reply, Session, Transport, answer,
    request_headers,
};

/// The delay before a stream is reopened; it doubles.
const INITIAL_DELAY: Duration = Duration::from_millis(250);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Time limit for the acknowledgement of a subscription.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of concurrent subscription requests.
const MAX_CONCURRENT: usize = 8;

/// The subscriptions in one session of a legacy server.
#[derive(Default)]
struct Knows {
    session: Weak<Session>,
    told: SentSubscriptions,
}

/// Receives notifications and reopens the stream after failures, until the future is dropped.
pub(super) async fn forever(link: &HttpLink, subscriptions: &Subscriptions) {
    let mut backoff = Backoff::new(INITIAL_DELAY, MAX_DELAY);
    let mut knows = Knows::default();
    loop {
        let mut wanted = subscriptions.wanted();
        let lasted = tokio::time::Instant::now();
        let outcome = once(link, subscriptions, (&mut wanted, &mut knows)).await;
        if let Err(error) = outcome {
            tracing::debug!(target.server = %link.transport.server, %error, "a notification stream ended");
        }
        if lasted.elapsed() > MAX_DELAY {
            backoff.reset();
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.next_delay()) => {}
            () = subscriptions.other_than(&wanted) => {}
        }
    }
}

/// Reads one stream to its end. `wanted` holds the sent subscriptions.
async fn once(
    link: &HttpLink,
    subscriptions: &Subscriptions,
    (wanted, knows): (&mut Wanted, &mut Knows),
) -> Result<(), Error> {
    let session = link.session().await?;
    if session.is_legacy() {
        if !std::ptr::eq(knows.session.as_ptr(), Arc::as_ptr(&session)) {
            *knows =
                Knows { session: Arc::downgrade(&session), told: SentSubscriptions::default() };
        }
        let told = &mut knows.told;
        tell(link, &session, (subscriptions, wanted, told)).await?;
        let request = link.transport.address.get(session.headers.clone());
        let keep_telling = async {
            loop {
                subscriptions.other_than(wanted).await;
                let next = subscriptions.wanted();
                tell(link, &session, (subscriptions, &next, told)).await?;
                // Set last, because the stream may end in between.
                *wanted = next;
            }
        };
        return tokio::select! {
            outcome = hear(link, &session, request) => outcome,
            outcome = keep_telling => outcome,
            // An open stream would keep the session alive.
            () = session.forgotten() => Ok(()),
        };
    }
    let mut before = None;
    loop {
        let notifications = wanted.filter();
        let listen = Outgoing::Listen { notifications: &notifications };
        let id = link.next_id.fetch_add(1, Ordering::Relaxed);
        link.transport.publisher.listening(id, wanted);
        let headers = request_headers(&session, &listen, &[]);
        let request = link.transport.address.post(headers, listen.write(id, session.era).into());
        let mut stream = Box::pin(hear(link, &session, request));
        // The previous stream stays open until the new one is acknowledged.
        if let Some(before) = before.take() {
            let replaced = timeout(RESPONSE_TIMEOUT, link.transport.publisher.is_acknowledged(id));
            tokio::select! {
                outcome = &mut stream => return outcome,
                _ = before => {}
                _ = replaced => {}
            }
        }
        tokio::select! {
            outcome = &mut stream => return outcome,
            () = subscriptions.other_than(wanted) => *wanted = subscriptions.wanted(),
        }
        before = Some(stream);
    }
}

/// Reads the stream that this request opens.
async fn hear(
    link: &HttpLink,
    session: &Arc<Session>,
    request: http::Request<Body>,
) -> Result<(), Error> {
    let response = link.transport.send(request, &None).await?;
    let status = response.status();
    if status == StatusCode::NOT_FOUND && session.has_id {
        link.forget(session);
    }
    if !status.is_success() || !answer::is_event_stream(response.headers()) {
        return Err(answer::status_error(status));
    }
    let session = (&Arc::downgrade(session), Whom::Nobody);
    follow(response.into_body(), &link.transport, session).await
}

/// Updates the subscriptions at a legacy server. A rejected one does not affect the others.
async fn tell(
    link: &HttpLink,
    session: &Arc<Session>,
    (subscriptions, wanted, told): (&Subscriptions, &Wanted, &mut SentSubscriptions),
) -> Result<(), Error> {
    // If the future is dropped in between, the change is sent again.
    let mut next = told.clone();
    let changes = next.change(wanted);
    let new = changes.new.into_iter().map(|uri| (Method::Subscribe, uri));
    let all = new.chain(changes.over.into_iter().map(|uri| (Method::Unsubscribe, uri)));
    let asked = stream::iter(all).map(async |(method, uri)| {
        let answer = ask(link, session, (method, &uri)).await;
        (method, uri, answer)
    });
    let mut answers = pin!(asked.buffer_unordered(MAX_CONCURRENT));
    let mut outcome = Ok(());
    while let Some((method, uri, answer)) = answers.next().await {
        let is_taken = matches!(answer, Ok(Some(Reply::Result(_))));
        if method == Method::Subscribe && !is_taken {
            next.except(&uri);
        }
        match answer {
            Ok(Some(reply)) if method == Method::Subscribe => subscriptions.answered(&uri, reply),
            Ok(_) => {}
            Err(error) => outcome = Err(error),
        }
    }
    *told = next;
    outcome
}

/// The response of a legacy server, if it arrives in time.
async fn ask(
    link: &HttpLink,
    session: &Arc<Session>,
    (method, subject): (Method, &str),
) -> Result<Option<Reply>, Error> {
    let context = RequestContext::default();
    let request = Request::plain(method, &[], &context);
    let outgoing = Outgoing::Asked { subject, request, send_state: None };
    let limit = Duration::from_millis(link.transport.client.limits().list_timeout_ms);
    let Ok(answer) = timeout(limit, link.exchange(session, &outgoing, &[])).await else {
        return Ok(None);
    };
    if session.is_gone(&answer) {
        link.forget(session);
        return Err(answer::status_error(StatusCode::NOT_FOUND));
    }
    Ok(answer?.reply)
}

/// Reads the stream of a session that belongs to one caller. Questions on it can only be meant for
/// this caller. It ends with the session. `answered` is dropped when the server has responded to
/// the GET.
pub(super) async fn own(
    transport: Arc<Transport>,
    (session, ended): (Weak<Session>, CancellationToken),
    answered: oneshot::Sender<()>,
) {
    let mut backoff = Backoff::new(INITIAL_DELAY, MAX_DELAY);
    let mut answered = Some(answered);
    let follow = async {
        while let Some(open) = session.upgrade() {
            let (headers, subject) = (open.headers.clone(), open.subject());
            drop(open);
            let response = transport.send(transport.address.get(headers), &subject).await;
            drop(answered.take());
            let Ok(response) = response else { return };
            if !response.status().is_success() || !answer::is_event_stream(response.headers()) {
                return; // there is no such stream
            }
            let _ = follow(response.into_body(), &transport, (&session, Whom::Caller)).await;
            tokio::time::sleep(backoff.next_delay()).await;
        }
    };
    ended.run_until_cancelled(follow).await;
}

/// The receiver of messages on a stream, unless they are for all clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whom {
    Nobody,
    /// The caller of the latest request in the session.
    Caller,
}

async fn follow(
    mut body: Incoming,
    transport: &Arc<Transport>,
    (session, whom): (&Weak<Session>, Whom),
) -> Result<(), Error> {
    let limit_bytes = transport.client.limits().response_bytes;
    let too_large = |_| Error::TooLarge { limit_bytes };
    let mut events = Events::new(limit_bytes);
    while let Some(chunk) = answer::next_chunk(&mut body).await? {
        events.push(&chunk).map_err(too_large)?;
        while let Some(data) = events.pop() {
            let Some(session) = session.upgrade() else { return Ok(()) };
            let channel = session.caller().filter(|_| whom == Whom::Caller);
            let sink = MessageSink { transport, session: &session, channel: channel.as_ref() };
            match jsonrpc::parse(&data, Limits::with_max_bytes(limit_bytes)) {
                Ok(Message::Notification(notification)) => {
                    sink.on_notification(&notification).await;
                }
                Ok(Message::Request(request)) => sink.on_request(&request),
                // The graceful end of a subscription, or its rejection.
                Ok(Message::Response(_)) => return Ok(()),
                Err(error) => return Err(ProtocolViolation::Garbage(error).into()),
            }
        }
    }
    Ok(())
}
