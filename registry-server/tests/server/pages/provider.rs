//! An identity provider with discovery, keys, authorization and token endpoints.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use axum::{
    Json, Router,
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use http::{
    HeaderMap, StatusCode,
    header::{AUTHORIZATION, LOCATION},
};
use registry_core::Digest;
use registry_server::clock::{Clock as _, SystemClock};
use reqwest::Url;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

pub(crate) const CLIENT: &str = "registry pages";
pub(crate) const SECRET: &str = "a secret: 1+1";

type Fields = HashMap<String, String>;

pub(crate) struct Provider {
    pub(crate) issuer: String,
    key: Ed25519KeyPair,
    /// The authorization requests by their codes.
    grants: Mutex<HashMap<String, Fields>>,
    /// Claims of ID tokens that differ from those of a valid one.
    changed: Mutex<Map<String, Value>>,
    /// The number of requests for tokens.
    exchanges: AtomicUsize,
}

impl Provider {
    pub(crate) async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = Arc::new(Self {
            issuer: format!("http://{}", listener.local_addr().unwrap()),
            key: Ed25519KeyPair::generate().unwrap(),
            grants: Mutex::default(),
            changed: Mutex::default(),
            exchanges: AtomicUsize::new(0),
        });
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/jwks", get(keys))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .with_state(provider.clone());
        tokio::spawn(async move { serve(listener, routes).await });
        provider
    }

    /// Changes a claim of the next ID tokens.
    pub(crate) fn change(&self, claim: &str, value: Value) {
        self.changed.lock().unwrap().insert(claim.to_owned(), value);
    }

    /// Issues valid ID tokens again.
    pub(crate) fn restore(&self) {
        self.changed.lock().unwrap().clear();
    }

    pub(crate) fn exchanges(&self) -> usize {
        self.exchanges.load(Ordering::SeqCst)
    }

    fn id_token(&self, nonce: &str) -> String {
        let now = SystemClock.now().as_millis() / 1_000;
        let mut claims = json!({ "iss": self.issuer, "aud": CLIENT, "sub": "4711", "nonce": nonce,
            "team": "finance", "roles": ["approver"], "iat": now, "exp": now + 60 });
        for (claim, value) in &*self.changed.lock().unwrap() {
            claims[claim] = value.clone();
        }
        let header = json!({ "alg": "EdDSA", "kid": "k1", "typ": "JWT" });
        let encoded = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encoded(&header), encoded(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// Serves HTTP/1.1 by the transport of the server under test.
async fn serve(listener: TcpListener, routes: Router) {
    tonic::transport::Server::builder()
        .accept_http1(true)
        .add_routes(tonic::service::Routes::from(routes))
        .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener))
        .await
        .unwrap();
}

fn fields(text: &str) -> Fields {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

async fn metadata(State(provider): State<Arc<Provider>>) -> Json<Value> {
    let issuer = &provider.issuer;
    Json(json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize?tenant=1"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/jwks"),
        "code_challenge_methods_supported": ["plain", "S256"],
        "authorization_response_iss_parameter_supported": true,
    }))
}

async fn keys(State(provider): State<Arc<Provider>>) -> Json<Value> {
    let x = URL_SAFE_NO_PAD.encode(provider.key.public_key());
    Json(json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": x }] }))
}

/// Redirects as after a password.
async fn authorize(State(provider): State<Arc<Provider>>, RawQuery(query): RawQuery) -> Response {
    let request = fields(&query.unwrap_or_default());
    let is_valid = request["tenant"] == "1"
        && request["response_type"] == "code"
        && request["client_id"] == CLIENT
        && request["code_challenge_method"] == "S256"
        && request["scope"].split(' ').any(|scope| scope == "openid");
    if !is_valid {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let code = format!("code-{}", provider.grants.lock().unwrap().len());
    let mut url: Url = request["redirect_uri"].parse().unwrap();
    url.query_pairs_mut()
        .append_pair("code", &code)
        .append_pair("state", &request["state"])
        .append_pair("iss", &provider.issuer);
    provider.grants.lock().unwrap().insert(code, request);
    (StatusCode::FOUND, [(LOCATION, url.to_string())]).into_response()
}

/// Exchanges a code once, with the secret of the client and the PKCE verifier.
async fn token(
    State(provider): State<Arc<Provider>>,
    headers: HeaderMap,
    body: String,
) -> Response {
    provider.exchanges.fetch_add(1, Ordering::SeqCst);
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let client = STANDARD.encode(format!("{}:{}", encoded(CLIENT), encoded(SECRET)));
    let request = fields(&body);
    let mut grants = provider.grants.lock().unwrap();
    let Some(grant) = grants.get_mut(&request["code"]) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let challenge = Digest::compute(request["code_verifier"].as_bytes());
    let is_valid = headers[AUTHORIZATION] == format!("Basic {client}")
        && request["grant_type"] == "authorization_code"
        && request["redirect_uri"] == grant["redirect_uri"]
        && URL_SAFE_NO_PAD.encode(challenge.as_bytes()) == grant["code_challenge"]
        && grant.insert("used".to_owned(), String::new()).is_none();
    if !is_valid {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant" })))
            .into_response();
    }
    let token = provider.id_token(&grant["nonce"]);
    Json(json!({ "token_type": "Bearer", "access_token": "unused", "id_token": token }))
        .into_response()
}
