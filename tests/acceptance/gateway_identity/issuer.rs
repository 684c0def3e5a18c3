//! A small authorization server that signs tokens and serves its key set.

use std::sync::{Arc, Mutex};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};

use crate::access::identity_provider::jwk;

pub(crate) const ISSUER: &str = "https://id.example";

pub(crate) struct Issuer {
    pub(crate) pair: KeyPair,
    pub(crate) url: String,
    keys: Arc<Mutex<String>>,
    serving: JoinHandle<()>,
}

impl Issuer {
    /// Starts with one key, `k1`.
    pub(crate) async fn start() -> Self {
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let keys = Arc::new(Mutex::new(String::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/jwks", listener.local_addr().expect("an address"));
        let serving = tokio::spawn(serve(listener, keys.clone()));
        let issuer = Self { pair, url, keys, serving };
        issuer.publish("k1");
        issuer
    }

    /// Publishes the current key under another id.
    pub(crate) fn publish(&self, id: &str) {
        let set = json!({ "keys": [jwk(&self.pair, id)] });
        *self.keys.lock().expect("a lock") = set.to_string();
    }

    pub(crate) fn rotate(&mut self, id: &str) {
        self.pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        self.publish(id);
    }

    /// Stops serving the key set.
    pub(crate) fn stop(&self) {
        self.serving.abort();
    }

    /// The `jwt` block of a gateway that trusts this issuer.
    pub(crate) fn block(&self, more: &str) -> String {
        let url = &self.url;
        format!("{{ issuer: \"{ISSUER}\", audience: gateway, jwks: \"{url}\", {more} }}")
    }

    /// Claims of a valid token of the research agent.
    pub(crate) fn claims() -> Value {
        let now = get_current_timestamp();
        json!({ "iss": ISSUER, "aud": "gateway", "sub": "ann", "agent": "research-agent",
            "iat": now, "exp": now + 600 })
    }

    pub(crate) fn sign(&self, id: &str, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(id.to_owned());
        let key = EncodingKey::from_ec_der(self.pair.serialized_der());
        encode(&header, claims, &key).expect("a token")
    }

    /// A valid token except for one claim.
    pub(crate) fn token_with(&self, claim: &str, value: Value) -> String {
        let mut claims = Self::claims();
        claims[claim] = value;
        self.sign("k1", &claims)
    }
}

async fn serve(listener: TcpListener, keys: Arc<Mutex<String>>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let _ = stream.read(&mut [0; 4096]).await;
        let keys = keys.lock().expect("a lock").clone();
        let length = keys.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close");
        let _ = stream.write_all(format!("{head}\r\n\r\n{keys}").as_bytes()).await;
    }
}
