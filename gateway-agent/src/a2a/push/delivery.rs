//! The requests to the URLs of callers.
//!
//! Each configuration has its own sender, so that its notifications stay in order and a slow receiver
//! delays no other. A sender ends when nothing waits.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use gateway_upstream::{Addresses, BlockedAddress, Client, Connector, redact_url};
use http::{
    HeaderName, HeaderValue, Request, StatusCode,
    header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT},
};
use http_body_util::Full;
use hyper_util::client::legacy;
use registry_core::Digest;
use retry_backoff::Backoff;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{
    super::{A2a, cards::KEYS_PATH, running::RunningOperations},
    config::{Registration, check_url, secret_header},
    store::Notification,
};
use crate::clock;

/// Timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Attempts per notification, within about 30 seconds.
const ATTEMPTS: usize = 6;
/// Delay of the first retry; each further one is twice as long.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// Maximum idle time of a connection.
const IDLE: Duration = Duration::from_secs(4);
/// Validity of a signature, in seconds. Each attempt is signed again.
const SIGNED_SECONDS: i64 = 300;

/// The token of a configuration, in requests of agents and of the gateway.
pub(super) const TOKEN: HeaderName = HeaderName::from_static("x-a2a-notification-token");
/// The signature, also if `Authorization` has the credentials of the configuration.
const SIGNATURE: HeaderName = HeaderName::from_static("x-a2a-notification-signature");

type HttpClient = legacy::Client<Connector, Full<Bytes>>;

/// The senders of notifications.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    /// The client for the configured addresses.
    client: Mutex<Option<(Addresses, HttpClient)>>,
    running: RunningOperations,
}

/// The end of one attempt.
enum Failed {
    /// A further attempt can succeed.
    Retry(String),
    Final(String),
}

impl Deliveries {
    /// Starts the sender of a configuration.
    pub(super) fn start(&self, a2a: &A2a, id: &str) {
        drop(self.running.run(send_all(a2a.clone(), id.into())));
    }

    pub(super) async fn shutdown(&self) {
        self.running.shutdown().await;
    }

    fn client(&self, addresses: Addresses) -> Result<HttpClient, Failed> {
        let mut known = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = known.as_ref().filter(|(of, _)| *of == addresses) {
            return Ok(client.clone());
        }
        let client = Client::alone(true, None, addresses, IDLE);
        let client = client.map_err(|e| Failed::Final(e.to_string()))?;
        *known = Some((addresses, client.clone()));
        Ok(client)
    }
}

async fn send_all(a2a: A2a, id: Box<str>) {
    let configs = &a2a.state.push.configs;
    while let Some((registration, notification)) = configs.first(&id) {
        let outcome = match Box::pin(send(&a2a, &registration, &notification)).await {
            Ok(()) => "delivered",
            Err(reason) => {
                let agent = &*registration.agent;
                let receiver = host(registration.client.url.expose());
                tracing::warn!(
                    agent,
                    config = &*id,
                    receiver,
                    "push notification dropped: {reason}"
                );
                "dropped"
            }
        };
        metrics::counter!("gateway_push_notifications_total", "outcome" => outcome).increment(1);
        configs.sent(&id);
    }
}

/// Sends a notification, with retries. An error is the reason for the log.
async fn send(
    a2a: &A2a,
    registration: &Registration,
    notification: &Notification,
) -> Result<(), String> {
    let mut delays = Backoff::new(FIRST_DELAY, MAX_DELAY);
    let mut last = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            sleep(delays.next_delay()).await;
        }
        let push = &a2a.state.push;
        if push.configs.find(&registration.id, clock::timestamp()).is_none() {
            return Err("its configuration was deleted or has expired".to_owned());
        }
        if !push.is_authorized(&a2a.gateway.current(), registration) {
            return Err("the credential of its caller was revoked".to_owned());
        }
        match Box::pin(send_once(a2a, registration, notification)).await {
            Ok(()) => return Ok(()),
            Err(Failed::Final(reason)) => return Err(reason),
            Err(Failed::Retry(reason)) => last = reason,
        }
    }
    Err(format!("{last}, after {ATTEMPTS} attempts"))
}

async fn send_once(
    a2a: &A2a,
    registration: &Registration,
    notification: &Notification,
) -> Result<(), Failed> {
    let gateway = a2a.gateway.current();
    let Some((base, settings)) = gateway.settings().push() else {
        return Err(Failed::Final("push notifications were disabled".to_owned()));
    };
    let client = &registration.client;
    let url = client.url.expose();
    let uri = check_url(url, settings).map_err(Failed::Final)?;
    let mut request = Request::new(Full::new(notification.body.clone()));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static("gateway-agent"));
    let claims = claims((base, url), registration, notification);
    let keys_url = format!("{base}{KEYS_PATH}");
    let signer = a2a.state.signers.current(gateway.sealer(), &keys_url);
    let signature = signer.and_then(|signer| signer.sign_token(&claims).ok());
    let signature = signature.ok_or_else(|| Failed::Final("the gateway has no key".to_owned()))?;
    headers.extend(client.token().map(|token| (TOKEN, token)));
    let bearer = || secret_header(&format!("Bearer {signature}"));
    let authorization = client.authorization().or_else(bearer);
    headers.extend(authorization.map(|value| (AUTHORIZATION, value)));
    headers.extend(secret_header(&signature).map(|value| (SIGNATURE, value)));
    let sent = a2a.state.push.deliveries.client(settings.addresses)?.request(request);
    let response = match timeout(TIMEOUT, sent).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if BlockedAddress::is_cause_of(&error) => {
            return Err(Failed::Final("the address of the receiver is blocked".to_owned()));
        }
        Ok(Err(_)) => return Err(Failed::Retry("the receiver cannot be reached".to_owned())),
        Err(_) => {
            let seconds = TIMEOUT.as_secs();
            return Err(Failed::Retry(format!("the receiver did not answer in {seconds} s")));
        }
    };
    let status = response.status();
    let reason = format!("the receiver answered {status}");
    match status {
        _ if status.is_success() => Ok(()),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
            Err(Failed::Retry(reason))
        }
        _ if status.is_server_error() => Err(Failed::Retry(reason)),
        // Redirects are not followed: their target was not checked when it was configured.
        _ => Err(Failed::Final(reason)),
    }
}

/// The claims of a signature. The digest binds it to the body, as receivers of A2A samples verify it.
fn claims(
    (base, url): (&str, &str),
    registration: &Registration,
    notification: &Notification,
) -> Value {
    let now = clock::timestamp().as_millis().div_euclid(1_000);
    let digest = Digest::compute(&notification.body).to_string();
    json!({
        "iss": base,
        "aud": url,
        "iat": now,
        "exp": now + SIGNED_SECONDS,
        "jti": notification.id,
        "taskId": registration.task,
        "request_body_sha256": digest.strip_prefix("sha256:").unwrap_or(&digest),
    })
}

/// The scheme and host of a URL. The path of some receivers contains a password.
fn host(url: &str) -> String {
    let url = redact_url(url);
    let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
    format!("{scheme}://{}", rest.split('/').next().unwrap_or_default())
}
