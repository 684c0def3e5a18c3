//! Cache journals: parsing never panics, and the result is a later state of the same registry that
//! is written and read unchanged.
//!
//! Checksums and chain hashes are computed first, because a fuzzer cannot guess them.

#![no_main]

use std::{fs, path::PathBuf, sync::LazyLock};

use aws_lc_rs::signature::Ed25519KeyPair;
use gateway_agent::{cache::Cache, catalog_verifier::CatalogVerifier, startup::StartupValidation};
use libfuzzer_sys::fuzz_target;
use registry_core::{
    Attestation, Catalog, ChainHash, Checkpoint, Digest, RegistryId, Timestamp,
    checkpoint::VerifierKey,
    registry_file::{read_export, write_export},
};

/// A cache at revision 0, signed.
struct Fixture {
    path: PathBuf,
    key: VerifierKey,
    genesis: ChainHash,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let registry = RegistryId::new("r");
    let pair = Ed25519KeyPair::from_seed_unchecked(&[1; 32]).expect("32 bytes");
    let empty = Catalog::empty(registry.clone());
    let attestation = Attestation::sign(&empty, Timestamp::EPOCH, &pair);
    let directory = std::env::temp_dir().join(format!("registry-fuzz-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let path = directory.join("cache.json");
    fs::write(&path, write_export(&empty.with_attestation(Some(attestation)))).expect("written");
    let key = Checkpoint::verifier_key(&registry, &pair);
    Fixture { path, key, genesis: ChainHash::genesis(&registry) }
});

/// Splits the data into bodies with a length of two bytes, and frames them like a journal.
fn framed(mut data: &[u8], mut chain: ChainHash) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((length, rest)) = data.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (body, rest) = rest.split_at(length);
        data = rest;
        if let Some((length, parts)) = body.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            chain = chain.append(&parts[..length.min(parts.len())]);
        }
        let body = [chain.as_bytes().as_slice(), body].concat();
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(Digest::compute(&body).as_bytes());
        out.extend_from_slice(&body);
    }
    out
}

fuzz_target!(|data: &[u8]| {
    let Fixture { path, key, genesis } = &*FIXTURE;
    let Some((form, rest)) = data.split_first() else { return };
    let is_framed = form % 2 == 1;
    let journal = if is_framed { framed(rest, *genesis) } else { rest.to_vec() };
    fs::write(path.with_extension("json.log"), journal).expect("written");
    let (cache, _) = Cache::open(path, StartupValidation::default()).expect("a cache");
    let catalog = cache.current();
    assert_eq!(catalog.registry().as_str(), "r");
    assert_eq!(read_export(&write_export(&catalog)).as_ref(), Ok(&*catalog));
    if catalog.revision().0 > 0 {
        let only_signed = CatalogVerifier::from(StartupValidation::default()).signed_by(Some(key.clone()));
        drop(cache);
        // No frame is signed, so a gateway with the key must not serve it.
        let (signed, _) = Cache::open(path, only_signed).expect("a cache");
        assert_eq!(signed.current().revision().0, 0);
    }
});
