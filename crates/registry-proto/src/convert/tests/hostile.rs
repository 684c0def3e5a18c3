//! Arbitrary bytes: every message that decodes is converted or rejected, without a panic.

use proptest::{collection::vec, prelude::*, sample::Index};
use prost::Message;
use registry_core::{
    ChainHash, Diagnostic, Key, Lifecycle, Record, RegistryId, chain::Position, follower::Nack,
    rules::Proposed,
};

use super::{super::*, generate};
use crate::v1;

/// Decodes the bytes as each message in turn and converts what decodes.
fn convert_as_everything(bytes: &[u8]) {
    fn each<M: Message + Default>(bytes: &[u8], convert: impl FnOnce(M)) {
        if let Ok(message) = M::decode(bytes) {
            convert(message);
        }
    }
    let genesis = ChainHash::genesis(&RegistryId::new("test"));
    each(bytes, |m| drop(document(m)));
    each(bytes, |m: v1::ApplyChangesRequest| drop(batch(m.changes)));
    each(bytes, |m: v1::EntityChange| drop(Proposed::try_from(m)));
    each(bytes, |m: v1::EntityKey| drop(Key::try_from(m)));
    each(bytes, |m: v1::Lifecycle| drop(Lifecycle::try_from(m)));
    each(bytes, |m: v1::EntityRecord| drop(Record::try_from(m)));
    each(bytes, |m: v1::SnapshotEntity| drop(Record::try_from(m)));
    each(bytes, |m: v1::Diagnostic| drop(Diagnostic::try_from(m)));
    each(bytes, |m: v1::Nack| drop(Nack::try_from(m)));
    each(bytes, |m: v1::LogPosition| drop(Position::try_from(m)));
    each(bytes, |m| drop(sealed_commit(&genesis, m)));
    each(bytes, |m| drop(read_timestamp(m)));
    each(bytes, |m: v1::ListEntitiesRequest| {
        let _ = filter_kind(m.kind);
        drop(filter_states(&m.lifecycle_states));
    });
}

/// A valid message, to be damaged.
fn message() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        generate::document().prop_map(|d| v1::Entity::from(d.entity()).encode_to_vec()),
        generate::document().prop_map(|d| {
            let change = v1::EntityChange::from(&Proposed::Register(d.into()));
            v1::ApplyChangesRequest { changes: vec![change], ..Default::default() }.encode_to_vec()
        }),
        generate::record().prop_map(|r| record_with_document(&r).encode_to_vec()),
        generate::record().prop_map(|r| v1::SnapshotEntity::from(&r).encode_to_vec()),
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..512)) {
        convert_as_everything(&bytes);
    }

    #[test]
    fn damaged_messages_never_panic(
        mut bytes in message(),
        damage in vec(any::<(Index, u8)>(), 1..4),
        cut in any::<Index>(),
    ) {
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        convert_as_everything(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        convert_as_everything(&bytes);
    }

    #[test]
    fn arbitrary_json_text_never_panics(text in any::<String>(), depth in 0..400_usize) {
        for text in [text, "[".repeat(depth) + &"]".repeat(depth), r#"{"a":"#.repeat(depth)] {
            let schema = v1::Schema { schema: text.clone(), ..Default::default() };
            drop(document(v1::Entity { kind: Some(v1::entity::Kind::Schema(schema)) }));
            drop(document(super::tool(&text)));
        }
    }
}
