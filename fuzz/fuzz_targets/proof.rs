//! Verifier keys, checkpoints and proofs: parsing and verification never panic, and an accepted
//! checkpoint equals the signed one.
//!
//! Each note is signed first, because a fuzzer cannot guess signatures.

#![no_main]

use std::sync::LazyLock;

use aws_lc_rs::signature::Ed25519KeyPair;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use libfuzzer_sys::fuzz_target;
use registry_core::{Checkpoint, RegistryId, checkpoint::VerifierKey, merkle, proof::Proof};

static PAIR: LazyLock<Ed25519KeyPair> =
    LazyLock::new(|| Ed25519KeyPair::from_seed_unchecked(&[1; 32]).expect("32 bytes"));
static KEY: LazyLock<VerifierKey> =
    LazyLock::new(|| Checkpoint::verifier_key(&RegistryId::new("r"), &PAIR));

/// Signs this text as a note.
fn signed(text: &str) -> String {
    let key = KEY.to_string();
    let mut parts = key.split('+');
    let (name, hash) = (parts.next().expect("a name"), parts.next().expect("a hash"));
    let hash = u32::from_str_radix(hash, 16).expect("hexadecimal").to_be_bytes();
    let signature = [&hash[..], PAIR.sign(format!("{text}\n").as_bytes()).as_ref()].concat();
    format!("{text}\n\n\u{2014} {name} {}\n", STANDARD.encode(signature))
}

fn check_path(data: &[u8]) {
    let Some((numbers, path)) = data.split_first_chunk::<16>() else { return };
    let (nodes, _) = path.as_chunks::<32>();
    let (old, new) = numbers.split_at(8);
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("8 bytes"));
    let (old, new) = (number(old), number(new));
    let _ = merkle::root_of_inclusion([0; 32], old, new, nodes);
    let _ = merkle::roots_of_consistency([0; 32], old, new, nodes);
}

fuzz_target!(|data: &[u8]| {
    check_path(data);
    let Ok(text) = str::from_utf8(data) else { return };
    if let Ok(key) = text.parse::<VerifierKey>() {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
    let _ = Checkpoint::verify(text, &KEY);
    if let Ok(read) = Checkpoint::verify(&signed(text), &KEY) {
        let key = Checkpoint::verifier_key(&read.registry, &PAIR);
        assert_eq!(Checkpoint::verify(&read.sign(&PAIR), &key), Ok(read));
    }
    if let Ok(proof) = serde_json::from_str::<Proof>(text) {
        let checkpoint = signed(&proof.checkpoint);
        let proof = Proof { checkpoint, ..proof };
        let _ = proof.check(&KEY, None);
        let _ = proof.check(&KEY, Some(&proof.checkpoint));
    }
});
