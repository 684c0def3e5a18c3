//! Signatures of agent cards: `registryctl import a2a` and `registryctl drift` with trusted keys.

use std::{fs, sync::Arc};

use acceptance::{Registry, ctl};
use jsonwebtoken::{Algorithm, EncodingKey};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use serde_json::{Value, json};

use crate::{
    access::identity_provider::{base64, jwk},
    scripted_server::{self, Script, ScriptedServer},
};

/// A card that the Python SDK 1.3.0 signed with ES256, and the public keys of its author.
const SIGNED: &str = include_str!("../../crates/registry-import/src/a2a/signed_card.json");
const KEYS: &str = include_str!("../../crates/registry-import/src/a2a/card_keys.json");

const CARD_PATH: &str = "GET /mcp/.well-known/agent-card.json ";

/// Serves a card below the URL of the agent, and keys at `/keys.json`.
fn agent(card: String, keys: Value) -> Script {
    Arc::new(move |head, _| {
        Some(if head.starts_with(CARD_PATH) {
            let length = card.len();
            format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{card}"
            )
        } else if head.starts_with("GET /keys.json ") {
            scripted_server::json_answer(&keys)
        } else {
            scripted_server::status("404 Not Found")
        })
    })
}

fn keys() -> Value {
    serde_json::from_str(KEYS).expect("JSON")
}

/// The signed card with a change.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut card: Value = serde_json::from_str(SIGNED).expect("JSON");
    change(&mut card);
    card.to_string()
}

struct KeyFiles {
    dir: tempfile::TempDir,
}

impl KeyFiles {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    fn write(&self, name: &str, keys: &Value) -> String {
        let path = self.dir.path().join(name);
        fs::write(&path, keys.to_string()).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn verified_original_is_registered_verbatim() {
    let registry = Registry::start();
    let files = KeyFiles::new();
    let server = ScriptedServer::start(agent(SIGNED.to_owned(), keys())).await;
    let origin = server.url.trim_end_matches("/mcp");
    let file = files.write("keys.json", &keys());
    for source in [file, format!("{origin}/keys.json")] {
        let arguments = ["import", "a2a", &server.url, "--card-keys", &source, "--output", "json"];
        let imported = registry.ctl(&arguments);
        assert!(imported.success(), "{imported:?}");
        let agent = &imported.json()["file"]["agents"][0];
        let provenance = &agent["metadata"]["cardProvenance"];
        assert_eq!(provenance["original"], SIGNED);
        assert_eq!(provenance["verifiedKid"], "writer-2026");
        let url = format!("{}/.well-known/agent-card.json", server.url);
        assert_eq!(provenance["sourceUrl"], url.as_str());
    }
    let file = files.write("keys.json", &keys());
    let import = ["import", "a2a", &server.url, "--card-keys", &file, "--apply", "--yes"];
    let done = registry.ctl(&import);
    assert!(done.success(), "{done:?}");
    let target = format!("agent:writer@1.2.0={}", server.url);
    let drift = registry.json(&["drift", "--target", &target, "--card-keys", &file]);
    assert_eq!(drift["servers"][0]["signature"], "verified");
    assert_eq!(drift["servers"][0]["differences"], json!([]));

    let unsigned = changed(|card| drop(card.as_object_mut().expect("a card").remove("signatures")));
    let stripped = ScriptedServer::start(agent(unsigned, keys())).await;
    let target = format!("agent:writer@1.2.0={}", stripped.url);
    let drift = registry.ctl(&["drift", "--target", &target, "--output", "json"]);
    assert_eq!(drift.code, 1, "{drift:?}");
    let difference = &drift.json()["servers"][0]["differences"][0];
    assert_eq!(difference["class"], "suspicious");
    assert_eq!(difference["pointer"], "/signatures");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_signature_is_an_error() {
    let registry = Registry::start();
    let files = KeyFiles::new();
    let own = files.write("keys.json", &keys());
    let mut foreign = keys();
    foreign["keys"].as_array_mut().expect("keys").remove(1);
    let unknown = files.write("unknown.json", &foreign);
    foreign["keys"][1]["kid"] = "writer-2026".into();
    let wrong = files.write("wrong.json", &foreign);
    let altered = changed(|card| card["description"] = "Deletes texts".into());
    let none = changed(|card| {
        let header = base64(br#"{"alg":"none"}"#);
        card["signatures"] = json!([{ "protected": header, "signature": "" }]);
    });
    for (card, keys) in
        [(SIGNED.to_owned(), &wrong), (SIGNED.to_owned(), &unknown), (altered, &own), (none, &own)]
    {
        let server = ScriptedServer::start(agent(card, json!({ "keys": [] }))).await;
        let import = registry.ctl(&["import", "a2a", &server.url, "--card-keys", keys]);
        assert_eq!((import.code, import.stdout.as_str()), (4, ""), "{import:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_url_of_card_is_followed_only_if_trusted() {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let set = json!({ "keys": [jwk(&pair, "k1")] });
    let key_server = ScriptedServer::start(agent(String::new(), set)).await;
    let origin = key_server.url.trim_end_matches("/mcp").to_owned();
    let card = changed(|card| {
        card.as_object_mut().expect("a card").remove("signatures");
        let payload = registry_core::document::canonical_bytes(card);
        let jku = format!("{origin}/keys.json");
        let header = json!({ "alg": "ES256", "kid": "k1", "jku": jku }).to_string();
        let protected = base64(header.as_bytes());
        let body = format!("{protected}.{}", base64(&payload));
        let key = EncodingKey::from_ec_der(pair.serialized_der());
        let signature = jsonwebtoken::crypto::sign(body.as_bytes(), &key, Algorithm::ES256);
        let signature = signature.expect("a signature");
        card["signatures"] = json!([{ "protected": protected, "signature": signature }]);
    });
    let server = ScriptedServer::start(agent(card, json!({ "keys": [] }))).await;
    let files = KeyFiles::new();
    let others = files.write("keys.json", &keys());
    let import = |options: &[&str]| {
        let secret = ["import", "a2a", &server.url, "--header", "X-API-Key: secret"];
        ctl("http://127.0.0.1:1", &[&secret[..], options].concat())
    };
    assert_eq!(import(&["--card-keys", &others]).code, 4);
    assert_eq!(import(&["--card-jku", "https://keys.example"]).code, 4);
    assert_eq!(key_server.seen(), "");
    let trusted = import(&["--card-jku", &origin]);
    assert!(trusted.success(), "{trusted:?}");
    assert!(!key_server.seen().contains("secret"), "credentials of the agent were sent");
}
