//! Sync messages: decoding, parsing and applying them never panics, messages have one wire form,
//! and the result is written and read unchanged.
//!
//! Digests and chain hashes are corrected first, because a fuzzer cannot guess them.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use registry_core::{Attestation, Catalog, Digest, Record, RegistryId, Scope, Settings, chain::Position, registry_file::{read_export, write_export}};
use registry_proto::{convert::{self, VerifiedScopeDelta}, v1::{self, sync_response::Message}};

/// The state of a follower.
struct FollowerState {
    catalog: Catalog,
    snapshot: Option<(Position, Scope, Vec<Record>)>,
}

fn fitting(entities: &mut [v1::SnapshotEntity]) {
    for entity in entities {
        entity.digest = Digest::compute(&entity.document).to_string();
    }
}

fn records(mut entities: Vec<v1::SnapshotEntity>) -> Option<Vec<Record>> {
    fitting(&mut entities);
    let read = |entity: v1::SnapshotEntity| {
        let record = Record::try_from(entity).ok()?;
        assert_eq!(Record::try_from(v1::SnapshotEntity::from(&record)).as_ref(), Ok(&record));
        Some(record)
    };
    entities.into_iter().map(read).collect()
}

impl FollowerState {
    /// Applies a message, if it is valid.
    fn take(&mut self, message: Message) -> Option<()> {
        match message {
            Message::SnapshotBegin(v1::SnapshotBegin { position, scope, .. }) => {
                let position = Position::try_from(position?).ok()?;
                assert_eq!(
                    Position::try_from(v1::LogPosition::from(&position)).as_ref(),
                    Ok(&position)
                );
                let scope = scope.map_or(Ok(Scope::Everything), convert::scope).ok()?;
                self.snapshot = Some((position, scope, Vec::new()));
            }
            Message::SnapshotChunk(v1::SnapshotChunk { entities, settings }) => {
                let settings = convert::settings(settings).ok()?;
                for (target, set) in &settings {
                    let state = convert::setting_state(target, set);
                    assert_eq!(convert::settings(vec![state]), Ok(vec![(target.clone(), set.clone())]));
                }
                self.snapshot.as_mut()?.2.extend(records(entities)?);
                self.catalog = self.catalog.clone().with_settings(Settings::restore(settings));
            }
            Message::SnapshotEnd(v1::SnapshotEnd { digest }) => {
                let _ = Digest::parse(&digest);
                let (Position { registry, revision, chain }, scope, records) =
                    self.snapshot.take()?;
                self.catalog = Catalog::restore(registry, revision, chain, records)
                    .with_settings(self.catalog.settings().clone())
                    .with_scope(Arc::new(scope));
            }
            Message::Delta(mut delta) => {
                let before = self.catalog.chain();
                delta.chain = before.append(&delta.commit).to_string();
                let sealed = convert::sealed_commit(&before, delta).ok()?;
                let again = convert::sealed_commit(&before, v1::Delta::from(&sealed));
                assert_eq!(again.as_ref(), Ok(&sealed));
                let mut next = self.catalog.clone();
                next.apply(&sealed).ok()?;
                assert_eq!(next.revision(), self.catalog.revision().next());
                self.catalog = next;
            }
            Message::ScopeDelta(mut step) => {
                fitting(&mut step.entities);
                let VerifiedScopeDelta { position, scope, step, content } = convert::verify_scope_delta(step).ok()?;
                let place = (position.revision, position.chain);
                let next = self.catalog.with_delta(place, Arc::new(scope), step)?;
                let _ = next.content_digest() == content;
                self.catalog = next;
            }
            Message::Heartbeat(v1::Heartbeat { revision: _, chain, content_digest, staleness }) => {
                let _ = (convert::chain_hash(&chain), Digest::parse(&content_digest));
                let _ = staleness.map(convert::read_duration);
            }
            Message::ServerHello(v1::ServerHello { verifier_key }) => {
                let _ = verifier_key.parse::<registry_core::checkpoint::VerifierKey>();
            }
        }
        Some(())
    }
}

fuzz_target!(|data: &[u8]| {
    let mut held = FollowerState { catalog: Catalog::empty(RegistryId::new("r")), snapshot: None };
    let mut rest = data;
    while let Ok(response) = v1::SyncResponse::decode_length_delimited(&mut rest) {
        let v1::SyncResponse { message, attestation } = response;
        let Some(()) = message.and_then(|message| held.take(message)) else { break };
        if let Some(signed) = attestation.and_then(|signed| Attestation::try_from(signed).ok()) {
            assert_eq!(Attestation::try_from(v1::Attestation::from(&signed)), Ok(signed));
            held.catalog = held.catalog.with_attestation(Some(signed));
        }
        if rest.is_empty() {
            break;
        }
    }
    assert_eq!(read_export(&write_export(&held.catalog)).as_ref(), Ok(&held.catalog));
});
