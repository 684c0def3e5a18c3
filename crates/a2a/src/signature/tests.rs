//! Signatures in each variant, keys and headers.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use proptest::prelude::*;

use super::*;

fn es256() -> Signer {
    let random = aws_lc_rs::rand::SystemRandom::new();
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    Signer::new(key.as_ref(), Some("https://gw.example/jwks.json".to_owned())).unwrap()
}

fn eddsa() -> Signer {
    let key = Ed25519KeyPair::generate().unwrap().to_pkcs8v1().unwrap();
    Signer::new(key.as_ref(), None).unwrap()
}

fn card() -> Value {
    json!({
        "name": "Ünïcode 🍲", "description": "d", "version": "1",
        "supportedInterfaces": [{ "url": "https://a.example", "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0" }],
        "capabilities": { "streaming": true },
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{ "id": "s", "name": "s", "description": "s", "tags": ["t"] }],
    })
}

/// Signs the payload of a variant.
fn signed_as(signer: &Signer, variant: Variant, mut card: Value) -> Value {
    let header = json!({ "alg": "ES256", "kid": signer.kid() });
    let protected = BASE64.encode(header.to_string());
    let message = format!("{protected}.{}", BASE64.encode(variant.payload(&card)));
    let signature = crypto::sign(message.as_bytes(), &signer.key, signer.algorithm).unwrap();
    card["signatures"] = json!([{ "protected": protected, "signature": signature }]);
    card
}

#[test]
fn signed_card_is_verified_with_its_key_set() {
    for signer in [es256(), eddsa()] {
        let result = signer.sign(card()).unwrap();
        assert!(result.ambiguous.is_empty(), "{:?}", result.ambiguous);
        let verified = verify(&result.card, &signer.key_set()).unwrap();
        assert_eq!(verified.kid.as_deref(), Some(signer.kid()));
        assert_eq!(verified.variant, Variant::Verbatim);
        let keys = serde_json::to_value(signer.key_set()).unwrap();
        assert_eq!(
            (&keys["keys"][0]["kid"], &keys["keys"][0]["use"]),
            (&json!(signer.kid()), &json!("sig"))
        );
        assert!(keys["keys"][0].get("d").is_none());
    }
    let result = es256().sign(card()).unwrap().card;
    assert_eq!(headers(&result)[0].jku.as_deref(), Some("https://gw.example/jwks.json"));
}

#[test]
fn unambiguous_card_has_one_payload() {
    let payloads = Variant::ALL[..4].iter().map(|variant| variant.payload(&card()));
    let payloads: std::collections::HashSet<_> = payloads.collect();
    assert_eq!(payloads.len(), 1);
    assert_ne!(Variant::EmptyRemovedEscaped.payload(&card()), Variant::Verbatim.payload(&card()));
}

#[test]
fn example_of_the_specification_has_its_canonical_form() {
    let card = json!({ "name": "Example Agent", "description": "", "skills": [],
        "capabilities": { "streaming": false, "pushNotifications": false, "extensions": [] } });
    let text = |variant: Variant| String::from_utf8(variant.payload(&card)).unwrap();
    assert_eq!(
        text(Variant::RequiredKept),
        r#"{"capabilities":{"pushNotifications":false,"streaming":false},"description":"","name":"Example Agent","skills":[]}"#
    );
    assert_eq!(text(Variant::DefaultsRemoved), r#"{"capabilities":{},"name":"Example Agent"}"#);
    assert_eq!(
        text(Variant::EmptyRemoved),
        r#"{"capabilities":{"pushNotifications":false,"streaming":false},"name":"Example Agent"}"#
    );
    let result = es256().sign(card.clone()).unwrap();
    let pointers = [
        "/capabilities/extensions",
        "/capabilities/pushNotifications",
        "/capabilities/streaming",
        "/description",
        "/skills",
    ];
    assert_eq!(result.ambiguous, pointers);
}

#[test]
fn matching_variant_is_reported() {
    let signer = es256();
    let mut card = card();
    card["description"] = "".into();
    card["capabilities"] = json!({ "streaming": false, "extensions": [] });
    for variant in Variant::ALL {
        let result = signed_as(&signer, variant, card.clone());
        assert_eq!(verify(&result, &signer.key_set()).unwrap().variant, variant);
    }
}

#[test]
fn changed_or_foreign_card_is_rejected() {
    let (signer, other) = (es256(), es256());
    let result = signer.sign(card()).unwrap().card;
    let mut changed = result.clone();
    changed["description"] = "other".into();
    assert_eq!(verify(&changed, &signer.key_set()), Err(SignatureError::Invalid));
    assert_eq!(verify(&result, &other.key_set()), Err(SignatureError::UnknownKey));
    let mut renamed = other.key_set();
    renamed.keys[0].common.key_id = Some(signer.kid().to_owned());
    assert_eq!(verify(&result, &renamed), Err(SignatureError::Invalid));
    assert_eq!(verify(&card(), &signer.key_set()), Err(SignatureError::Unsigned));
}

#[test]
fn key_set_has_public_signature_keys_only() {
    let signer = es256();
    let set = |keys: Value| key_set(json!({ "keys": keys }).to_string().as_bytes());
    let own = serde_json::to_value(&signer.key_set().keys[0]).unwrap();
    let mut for_encryption = own.clone();
    for_encryption["use"] = "enc".into();
    let others = [json!({ "kty": "FUTURE" }), json!({ "kty": "oct", "k": "AA" }), for_encryption];
    let mut all = others.to_vec();
    all.extend([json!(7), own]);
    assert_eq!(set(all.into()).unwrap(), signer.key_set());
    assert_eq!(set(others.to_vec().into()), Err(InvalidKeySet::NoKey));
    assert_eq!(key_set(b"[]"), Err(InvalidKeySet::NoKey));
    assert!(matches!(key_set(b"<html>"), Err(InvalidKeySet::Json(_))));
}

#[test]
fn unsafe_headers_are_rejected() {
    let signer = es256();
    let headers = [
        json!({ "alg": "none" }),
        json!({ "alg": "HS256", "kid": signer.kid() }),
        json!({ "alg": "ES256", "kid": signer.kid(), "crit": ["b64"], "b64": false }),
        json!({ "kid": signer.kid() }),
        json!([]),
    ];
    for header in headers {
        let mut card = card();
        let protected = BASE64.encode(header.to_string());
        card["signatures"] = json!([{ "protected": protected, "signature": "AA" }]);
        assert_eq!(verify(&card, &signer.key_set()), Err(SignatureError::Header), "{header}");
    }
}

#[test]
fn one_valid_signature_is_enough() {
    let signer = es256();
    let mut result = signer.sign(card()).unwrap().card;
    let signatures = result["signatures"].as_array_mut().unwrap();
    signatures.insert(0, json!({ "protected": "!", "signature": "" }));
    signatures.insert(0, json!(7));
    assert!(verify(&result, &signer.key_set()).is_ok());
}

#[test]
fn token_is_verified_with_the_key_set() {
    let claims = json!({ "iss": "https://gw.example", "exp": 4_102_444_800_u64, "jti": "1" });
    for (signer, algorithm) in [(es256(), Algorithm::ES256), (eddsa(), Algorithm::EdDSA)] {
        let token = signer.sign_token(&claims).unwrap();
        let key = DecodingKey::from_jwk(&signer.key_set().keys[0]).unwrap();
        let (message, signature) = token.rsplit_once('.').unwrap();
        assert!(crypto::verify(signature, message.as_bytes(), &key, algorithm).unwrap());
        let (header, payload) = message.split_once('.').unwrap();
        let read = |text: &str| parse_json(&BASE64.decode(text).unwrap()).unwrap();
        assert_eq!((&read(header)["typ"], read(payload)), (&json!("JWT"), claims.clone()));
    }
}

#[test]
fn invalid_keys_are_rejected() {
    for key in [&b""[..], &[0; 48], &[0x30; 200]] {
        assert_eq!(Signer::new(key, None).unwrap_err(), InvalidSigningKey);
    }
}

proptest! {
    #[test]
    fn canonical_form_sorts_by_utf_16(a in "\\PC{0,4}", b in "\\PC{0,4}") {
        let card = json!({ a.as_str(): 1, b.as_str(): 2 });
        let text = String::from_utf8(Variant::Verbatim.payload(&card)).unwrap();
        if a != b && a != "signatures" && b != "signatures" {
            let (first, _) = if a.encode_utf16().lt(b.encode_utf16()) { (&a, &b) } else { (&b, &a) };
            let start = format!("{{{}:", Value::from(first.as_str()));
            prop_assert!(text.starts_with(&start), "{text}");
        }
    }
}
