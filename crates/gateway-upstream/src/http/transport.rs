//! The HTTP transport of an upstream: its address and the credentials of every request.
//!
//! A request that is rejected for its token was not processed; it is retried once with a new token.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use gateway_policy::SubjectToken;
use http::{HeaderValue, Request, Response, StatusCode, header::AUTHORIZATION};
use hyper::body::Incoming;
use tokio::sync::Semaphore;

use super::{
    Client, Error, Outgoing, Session,
    auth::Auth,
    client::{Address, InvalidAddress, parse_url},
    headers::SecretHeaders,
    pool::ConnectionPool,
};
use crate::{RequestContext, TargetId, TransportConfig, events::EventPublisher, send_state::Body};

/// Maximum concurrent responses of the gateway itself to an upstream. Each one is a request and
/// thus a connection; further questions get no response.
const ANSWERS: usize = 8;
/// Maximum concurrent questions of an upstream to its callers.
const QUESTIONS: usize = 1_000;
/// Time limit of background requests.
const BACKGROUND: Duration = Duration::from_secs(5);

/// The HTTP transport of one upstream.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) server: TargetId,
    pub(crate) client: Client,
    pub(crate) address: Address,
    pub(super) publisher: Arc<EventPublisher>,
    pub(super) answers: Arc<Semaphore>,
    pub(super) questions: Arc<Semaphore>,
    connections: ConnectionPool,
    headers: SecretHeaders,
    auth: Option<Auth>,
}

/// The subject of a request. `None`: the gateway itself.
pub(crate) type Subject = Option<Arc<SubjectToken>>;

impl Transport {
    /// Must be called inside a Tokio runtime.
    pub(crate) fn new(
        server: TargetId,
        publisher: Arc<EventPublisher>,
        transport: &TransportConfig,
        shared: &Client,
    ) -> Result<Self, InvalidAddress> {
        let TransportConfig::Http { url, headers, auth, tls, addresses, is_grpc } = transport
        else {
            return Err(InvalidAddress::Transport);
        };
        let url = parse_url(url)?;
        let auth = auth.as_deref().map(|auth| Auth::open(&server, auth, shared)).transpose()?;
        Ok(Self {
            connections: shared.pool(&url, tls.clone(), *addresses, *is_grpc)?,
            address: Address::new(&url),
            headers: SecretHeaders::open(&server, headers)?,
            server,
            client: shared.clone(),
            publisher,
            answers: Arc::new(Semaphore::new(ANSWERS)),
            questions: Arc::new(Semaphore::new(QUESTIONS)),
            auth,
        })
    }

    /// The subject token to exchange. With token exchange configured, a caller's request without
    /// one is an error.
    pub(crate) fn caller(&self, outgoing: &Outgoing<'_>) -> Result<Subject, Error> {
        outgoing.request().map_or(Ok(None), |request| self.subject_of(request.context))
    }

    /// The subject token of a caller to exchange.
    pub(crate) fn subject_of(&self, context: &RequestContext) -> Result<Subject, Error> {
        if !self.auth.as_ref().is_some_and(Auth::exchanges) {
            return Ok(None);
        }
        let subject = context.subject.clone();
        subject.map(Some).ok_or_else(|| Error::NoSubject { target: self.server.clone() })
    }

    /// The subject of a request in a session.
    pub(super) fn subject(&self, session: &Session, outgoing: &Outgoing<'_>) -> Subject {
        self.caller(outgoing).ok().flatten().or_else(|| session.subject())
    }

    /// Sends a request and waits for the head of the response.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
        subject: &Subject,
    ) -> Result<Response<Incoming>, Error> {
        self.headers.add_to(request.headers_mut());
        match &self.auth {
            None => self.connections.send(&self.server, request).await,
            // Boxed, so that transports without token exchange have small futures.
            Some(auth) => Box::pin(self.send_with_token(auth, request, subject)).await,
        }
    }

    async fn send_with_token(
        &self,
        auth: &Auth,
        request: Request<Body>,
        subject: &Subject,
    ) -> Result<Response<Incoming>, Error> {
        let token = auth.token(subject.as_deref()).await?;
        let first = with_token(request.clone(), token.clone());
        let response = self.connections.send(&self.server, first).await?;
        if !rejects_token(&response) {
            return Ok(response);
        }
        request.body().mark_rejected();
        auth.forget(subject.as_deref(), &token);
        let token = auth.token(subject.as_deref()).await?;
        self.connections.send(&self.server, with_token(request, token)).await
    }

    /// Sends a message without a response in the background and drops `held` afterwards. Only the
    /// legacy era has such messages.
    pub(super) fn post_in_background(
        self: &Arc<Self>,
        session: &Session,
        body: Bytes,
        held: impl Send + 'static,
    ) {
        if session.is_legacy() {
            let request = self.address.post(session.headers.clone(), body);
            self.send_in_background(request, session.subject(), held);
        }
    }

    /// Sends a request whose response is ignored in the background and drops `held` afterwards.
    pub(crate) fn send_in_background(
        self: &Arc<Self>,
        request: Request<Body>,
        subject: Subject,
        held: impl Send + 'static,
    ) {
        let transport = Arc::clone(self);
        self.client.spawn(async move {
            let sent = tokio::time::timeout(BACKGROUND, transport.send(request, &subject)).await;
            if let Ok(Err(error)) = sent {
                tracing::debug!(target.server = %transport.server, %error, "a notification was lost");
            }
            drop(held);
        });
    }
}

/// Whether the upstream rejected the token, over HTTP or with the gRPC status `UNAUTHENTICATED`.
fn rejects_token(response: &Response<Incoming>) -> bool {
    response.status() == StatusCode::UNAUTHORIZED
        || response.headers().get("grpc-status").is_some_and(|status| status == "16")
}

fn with_token(mut request: Request<Body>, token: HeaderValue) -> Request<Body> {
    request.headers_mut().insert(AUTHORIZATION, token);
    request
}
