//! Access tokens (JWT) of an identity provider: acceptance of valid tokens, and rejection for each
//! kind of defect.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use acceptance::access::Guarded;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp, jwk::JwkSet};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PublicKeyData as _};
use registry_proto::{
    convert::authentication_text,
    v1::{self, access_service_client::AccessServiceClient},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

const ISSUER: &str = "https://id.example";

/// An identity provider with one key per type, and a server that trusts it.
struct Provider {
    guarded: Guarded,
    curve: KeyPair,
    jwks: std::path::PathBuf,
    _dir: tempfile::TempDir,
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The public key of a P-256 pair as a JWK.
pub(crate) fn jwk(pair: &KeyPair, id: &str) -> Value {
    let point = pair.der_bytes();
    let (x, y) = point[1..].split_at(32);
    json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "alg": "ES256", "x": base64(x), "y": base64(y)})
}

fn write_keys(path: &Path, keys: &[Value]) {
    let set = json!({ "keys": keys });
    let _: JwkSet = serde_json::from_value(set.clone()).expect("a JWKS");
    fs::write(path, set.to_string()).expect("a file");
}

impl Provider {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let jwks = dir.path().join("jwks.json");
        let curve = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let ed = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let shared = json!({"kty": "oct", "kid": "shared", "alg": "HS256", "k": base64(b"secret")});
        let edwards =
            json!({"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": base64(ed.der_bytes())});
        write_keys(&jwks, &[jwk(&curve, "k1"), edwards, shared]);
        let file = jwks.to_str().expect("UTF-8");
        let guarded = Guarded::start(&[
            "--oidc-issuer",
            ISSUER,
            "--oidc-audience",
            "registry",
            "--oidc-jwks-file",
            file,
            "--oidc-roles-claim",
            "/realm/roles",
            "--oidc-role",
            "registry-publishers=publisher",
        ]);
        Self { guarded, curve, jwks, _dir: dir }
    }

    fn claims() -> Value {
        let now = get_current_timestamp();
        json!({
            "iss": ISSUER,
            "aud": ["registry", "others"],
            "sub": "ann",
            "team": "docs",
            "iat": now,
            "exp": now + 600,
            "realm": { "roles": ["registry-publishers", "admin"] },
        })
    }

    fn sign(pair: &KeyPair, id: &str, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(id.to_owned());
        let key = EncodingKey::from_ec_der(pair.serialized_der());
        encode(&header, claims, &key).expect("a token")
    }

    /// A valid token except for one claim.
    fn with(&self, claim: &str, value: Value) -> String {
        let mut claims = Self::claims();
        claims[claim] = value;
        Self::sign(&self.curve, "k1", &claims)
    }

    async fn who(&self, token: &str) -> Result<v1::WhoAmIResponse, Status> {
        let mut client = AccessServiceClient::new(self.guarded.channel(token).await);
        client.who_am_i(v1::WhoAmIRequest {}).await.map(tonic::Response::into_inner)
    }

    async fn assert_refused(&self, what: &str, token: &str) {
        let status = self.who(token).await.expect_err(what);
        let reason = status.get_details_error_info().expect("an ErrorInfo").reason;
        assert_eq!(
            (status.code(), &*reason),
            (Code::Unauthenticated, "CREDENTIALS_INVALID"),
            "{what}"
        );
    }
}

/// A token with this header, and a signature by any algorithm.
pub(crate) fn crafted(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let body = format!(
        "{}.{}",
        base64(header.to_string().as_bytes()),
        base64(claims.to_string().as_bytes())
    );
    let signature = base64(&sign(body.as_bytes()));
    format!("{body}.{signature}")
}

#[tokio::test]
async fn valid_token_has_principal_of_its_claims() {
    let provider = Provider::start();
    let token = Provider::sign(&provider.curve, "k1", &Provider::claims());
    let who = provider.who(&token).await.expect("let in");
    let method = authentication_text(&who.authentication.expect("authenticated"));
    assert_eq!((&*who.name, &*who.team, &*method), ("ann", "docs", "oidc https://id.example"));
    assert_eq!(who.roles, [i32::from(v1::AccessRole::Publisher)], "only the rules give roles");
    assert!(provider.who(&provider.guarded.admin).await.is_ok(), "API tokens go on");
}

#[tokio::test]
async fn principal_without_team_has_personal_team() {
    let provider = Provider::start();
    let mut claims = Provider::claims();
    claims["sub"] = "docs".into();
    claims.as_object_mut().expect("an object").remove("team");
    let who = provider.who(&Provider::sign(&provider.curve, "k1", &claims)).await.expect("let in");
    assert_eq!((&*who.name, &*who.team), ("docs", "user:docs"));
    for wrong in [json!(["docs", "x"]), Value::Null, json!(7), json!(""), json!("user:bob")] {
        provider.assert_refused(&format!("team {wrong}"), &provider.with("team", wrong)).await;
    }
    let team = ["token", "create", "--name", "a", "--role", "reader", "--team", "user:docs"];
    let refused = acceptance::access::server(&provider.guarded.database, &team);
    assert_eq!(refused.status.code(), Some(2), "no token is of such a team");
    let rule = ["--tls-client", "a=user:docs:reader", "--tls-client-ca", "x"];
    let refused = acceptance::access::server(&provider.guarded.database, &rule);
    assert_eq!(refused.status.code(), Some(2), "nor a certificate");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`user:docs`"), "{refused:?}");
}

#[tokio::test]
async fn misleading_names_are_rejected() {
    let provider = Provider::start();
    for name in ["ann\u{202e}bob", "ann\u{200b}", "\u{feff}ann", "ann\u{2066}", "*", "gw-*"] {
        provider.assert_refused(name, &provider.with("sub", json!(name))).await;
        provider.assert_refused(name, &provider.with("team", json!(name))).await;
    }
    let who = provider.who(&provider.with("sub", json!("gr\u{f6}\u{df}e"))).await;
    assert_eq!(who.expect("let in").name, "gr\u{f6}\u{df}e");
}

/// A token with this header and these claims as text, with a valid signature.
fn signed(pair: &KeyPair, header: &Value, claims: &str) -> String {
    let body = format!("{}.{}", base64(header.to_string().as_bytes()), base64(claims.as_bytes()));
    let key = EncodingKey::from_ec_der(pair.serialized_der());
    let signature = jsonwebtoken::crypto::sign(body.as_bytes(), &key, Algorithm::ES256);
    format!("{body}.{}", signature.expect("a signature"))
}

#[tokio::test]
async fn token_of_other_audience_or_ambiguous_is_rejected() {
    let provider = Provider::start();
    let claims = Provider::claims().to_string();
    let header = |typ: &str| json!({"alg": "ES256", "kid": "k1", "typ": typ});
    for typ in ["JWT", "jwt", "at+jwt", "application/at+jwt"] {
        let token = signed(&provider.curve, &header(typ), &claims);
        provider.who(&token).await.expect(typ);
    }
    for typ in ["logout+jwt", "dpop+jwt", "secevent+jwt", ""] {
        let token = signed(&provider.curve, &header(typ), &claims);
        provider.assert_refused(typ, &token).await;
    }
    let twice = claims.replacen('{', "{\"sub\":\"root\",", 1);
    let token = signed(&provider.curve, &header("JWT"), &twice);
    provider.assert_refused("a claim twice", &token).await;
    let future = json!(get_current_timestamp() + 600);
    provider.assert_refused("from the future", &provider.with("iat", future)).await;
    provider.assert_refused("no time", &provider.with("iat", json!("now"))).await;
}

#[tokio::test]
async fn key_with_other_use_is_ignored() {
    let provider = Provider::start();
    for (member, value) in [("key_ops", json!(["encrypt"])), ("use", json!("enc"))] {
        let next = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
        let mut wrong = jwk(&next, "wrong");
        wrong.as_object_mut().expect("an object").remove("use");
        wrong[member] = value;
        let right = jwk(&provider.curve, member);
        write_keys(&provider.jwks, &[wrong, right]);
        let right = Provider::sign(&provider.curve, member, &Provider::claims());
        acceptance::eventually("the keys are read", || async {
            provider.who(&right).await.is_ok()
        })
        .await;
        let token = Provider::sign(&next, "wrong", &Provider::claims());
        provider.assert_refused(member, &token).await;
    }
}

#[tokio::test]
async fn stream_ends_when_access_token_expires() {
    let provider = Provider::start();
    let gateway = provider.with("exp", json!(get_current_timestamp() - 27));
    let stream = super::streams::open(&provider.guarded, &gateway).await;
    super::streams::assert_ended(&super::streams::end_of(stream).await);
}

#[tokio::test]
async fn invalid_tokens_are_rejected() {
    let provider = Provider::start();
    let now = get_current_timestamp();
    for (claim, value) in [
        ("aud", json!("another")),
        ("aud", Value::Null),
        ("iss", json!("https://id.example.evil")),
        ("iss", Value::Null),
        ("iss", json!([ISSUER])),
        ("exp", json!(now - 60)),
        ("exp", Value::Null),
        ("nbf", json!(now + 600)),
        ("sub", Value::Null),
        ("sub", json!("two words")),
        ("sub", json!("anonymous")),
    ] {
        provider.assert_refused(claim, &provider.with(claim, value)).await;
    }
    let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let claims = Provider::claims();
    provider.assert_refused("another's key", &Provider::sign(&other, "k1", &claims)).await;
    provider
        .assert_refused("an unknown kid", &Provider::sign(&provider.curve, "k9", &claims))
        .await;
    let good = Provider::sign(&provider.curve, "k1", &claims);
    let (body, _) = good.rsplit_once('.').expect("a signature");
    provider.assert_refused("no signature", &format!("{body}.")).await;
    let mut parts: Vec<_> = good.split('.').collect();
    let mut forged = claims.clone();
    forged["sub"] = "root".into();
    let forged = base64(forged.to_string().as_bytes());
    parts[1] = &forged;
    provider.assert_refused("changed claims", &parts.join(".")).await;
    for text in ["", "a.b", "a.b.c", "....", &"e".repeat(8192)] {
        provider.assert_refused(text, text).await;
    }
    // All rejections have the same message. Only the log has the reason, and it contains no token.
    let log = provider.guarded.registry.process.stderr();
    for why in [
        "InvalidAudience",
        "InvalidIssuer",
        "ExpiredSignature",
        "ImmatureSignature",
        "InvalidSignature",
        "no key of the identity provider matches",
        "the claim `sub`",
    ] {
        assert!(log.contains(why), "{why} is not in the log:\n{log}");
    }
    assert!(!log.contains(body), "a token is in the log");
}

#[tokio::test]
async fn token_algorithm_must_be_configured() {
    let provider = Provider::start();
    let claims = Provider::claims();
    for none in ["none", "None", "NONE", ""] {
        let header = json!({"alg": none, "typ": "JWT", "kid": "k1"});
        provider.assert_refused(none, &crafted(&header, &claims, |_| Vec::new())).await;
    }
    // The public key as a symmetric secret, and a symmetric key from the key set itself.
    let public = provider.curve.der_bytes().to_vec();
    for (id, secret) in [("k1", public), ("shared", b"secret".to_vec())] {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some(id.to_owned());
        let token = encode(&header, &claims, &EncodingKey::from_secret(&secret)).expect("a token");
        provider.assert_refused("a symmetric algorithm", &token).await;
    }
    // A valid signature by the key of another algorithm.
    let crossed = Provider::sign(&provider.curve, "ed", &claims);
    provider.assert_refused("the kid of another key", &crossed).await;
    let critical = json!({"alg": "ES256", "kid": "k1", "crit": ["x"], "x": 1});
    provider
        .assert_refused("a critical extension", &crafted(&critical, &claims, |_| vec![0; 64]))
        .await;
}

#[tokio::test]
async fn rotated_keys_replace_old_keys() {
    let provider = Provider::start();
    let next = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let token = Provider::sign(&next, "k2", &Provider::claims());
    provider.assert_refused("not yet", &token).await;
    write_keys(&provider.jwks, &[jwk(&next, "k2")]);
    acceptance::eventually("the new key is known", || async { provider.who(&token).await.is_ok() })
        .await;
    let old = Provider::sign(&provider.curve, "k1", &Provider::claims());
    provider.assert_refused("a key that is gone", &old).await;
}

/// Serves these keys and counts the requests.
async fn serve_keys(keys: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/jwks", listener.local_addr().expect("an address"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = stream.read(&mut [0; 4096]).await;
            let length = keys.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{keys}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, asked)
}

#[test]
fn unreachable_key_endpoint_is_logged_with_cause() {
    let url = "http://127.0.0.1:1/jwks?key=secret";
    let oidc = ["--oidc-issuer", ISSUER, "--oidc-audience", "registry", "--oidc-jwks-url", url];
    let log = Guarded::start(&oidc).registry.process.stderr();
    let logged = log.split_once("reason=\"").and_then(|(_, rest)| rest.split_once('"'));
    let (reason, _) = logged.unwrap_or_else(|| panic!("no reason in {log}"));
    insta::assert_snapshot!(reason, @"http://127.0.0.1:1/jwks: Connection refused (os error 111)");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_key_ids_do_not_flood_key_endpoint() {
    let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key");
    let (url, asked) = serve_keys(json!({ "keys": [jwk(&pair, "k1")] }).to_string()).await;
    let oidc = ["--oidc-issuer", ISSUER, "--oidc-audience", "registry", "--oidc-jwks-url", &url];
    let guarded = Guarded::start(&oidc);
    let who = async |id: &str| {
        let token = Provider::sign(&pair, id, &Provider::claims());
        let mut client = AccessServiceClient::new(guarded.channel(&token).await);
        client.who_am_i(v1::WhoAmIRequest {}).await
    };
    let known = who("k1").await.expect("let in").into_inner();
    assert_eq!((&*known.name, known.roles.len()), ("ann", 0));
    for i in 0..20 {
        assert!(who(&format!("made-up-{i}")).await.is_err());
    }
    assert!(asked.load(Ordering::Relaxed) <= 2, "{asked:?}");
    let far =
        ["--oidc-issuer", ISSUER, "--oidc-audience", "r", "--oidc-jwks-url", "http://id.example/k"];
    let refused = acceptance::access::server(&guarded.database, &far);
    assert_eq!(refused.status.code(), Some(2), "keys in plain text from elsewhere");
}
