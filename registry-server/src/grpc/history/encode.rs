//! Answers about history on the wire: differences, explained values, copies.

use registry_core::{
    Action, Catalog, Change, Record, Selector, blame::BlamedValue, chain::Position,
    setting::SelectorSettings,
};
use registry_proto::{
    convert,
    v1::{self, entity_event::Event as Wire, revision_difference::Difference as WireDifference},
};

use crate::{
    app::{
        blame::Explained,
        compare::{Compared, Difference},
        copy::{Copied, Part},
        history::Event,
    },
    store::{EntityEvent, SettingEvent, StoredCommit},
};

pub(super) fn event(event: Event) -> v1::EntityEvent {
    match event {
        Event::Changed(event) => changed(event),
        Event::Set(SettingEvent { revision, set, author, committed_at, message, .. }) => {
            v1::EntityEvent {
                event: Some(Wire::Setting((&set).into())),
                revision: revision.0,
                author,
                commit_time: Some(convert::timestamp(committed_at)),
                message,
            }
        }
    }
}

fn changed(event: EntityEvent) -> v1::EntityEvent {
    let EntityEvent { revision, ordinal: _, key, action, author, committed_at, message } = event;
    v1::EntityEvent {
        event: Some(Wire::Change((&Change { key, action }).into())),
        revision: revision.0,
        author,
        commit_time: Some(convert::timestamp(committed_at)),
        message,
    }
}

pub(super) fn compared(compared: &Compared) -> v1::CompareRevisionsResponse {
    let Compared { differences, next_page_token, from, to } = compared;
    let write =
        |difference| v1::RevisionDifference { difference: Some(write(from, to, difference)) };
    v1::CompareRevisionsResponse {
        differences: differences.iter().map(write).collect(),
        next_page_token: next_page_token.clone(),
        old_revision: from.revision().0,
        new_revision: to.revision().0,
    }
}

fn write(from: &Catalog, to: &Catalog, difference: &Difference) -> WireDifference {
    match difference {
        Difference::Entity { old, new, earlier } => {
            let record = |catalog: &Catalog, record: &Record| {
                let document = earlier.is_some().then(|| record.document.bytes().clone());
                v1::EntityRecord { document, ..convert::outline_of(catalog, record) }
            };
            let there = if new.is_some() { to } else { from };
            WireDifference::Entity(v1::EntityDifference {
                old_record: old.as_deref().map(|old| record(from, old)),
                new_record: new.as_deref().map(|new| record(to, new)),
                earlier_record: earlier.as_deref().map(|earlier| record(there, earlier)),
            })
        }
        Difference::Setting { target, old: (old, old_owner), new: (new, new_owner) } => {
            let state = |target: &Selector, set: &SelectorSettings| {
                Some(convert::setting_state(target, set))
            };
            WireDifference::Setting(v1::SettingDifference {
                old_settings: state(target, old),
                new_settings: state(target, new),
                old_owner: old_owner.as_deref().map(str::to_owned),
                new_owner: new_owner.as_deref().map(str::to_owned),
            })
        }
    }
}

pub(super) fn explained(explained: Explained) -> v1::BlameEntityResponse {
    let Explained { key, lines, origins, next_page_token } = explained;
    let line = |BlamedValue { pointer, value, origin, at_or_before: or_earlier }| v1::BlameLine {
        pointer,
        value: value.to_string(),
        // A page has far fewer.
        origin: u32::try_from(origin).unwrap_or(u32::MAX),
        at_or_before: or_earlier,
    };
    v1::BlameEntityResponse {
        key: Some((&key).into()),
        lines: lines.into_iter().map(line).collect(),
        origins: origins.iter().map(|(record, commit)| registration(record, commit)).collect(),
        next_page_token,
    }
}

fn registration(record: &Record, stored: &StoredCommit) -> v1::EntityEvent {
    let commit = &stored.commit;
    let (key, digest) = (record.document.key().clone(), record.document.digest());
    changed(EntityEvent {
        revision: record.registered,
        ordinal: 0,
        key,
        action: Action::register(digest),
        author: commit.author.clone(),
        committed_at: commit.committed_at,
        message: commit.message.clone(),
    })
}

pub(super) fn copied(copied: &Copied) -> v1::ExportCatalogResponse {
    let Copied { parts, digest, next_page_token, catalog } = copied;
    let (mut entities, mut settings) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Entity(record) => entities.push((&**record).into()),
            Part::Setting(target, set) => settings.push(convert::setting_state(target, set)),
        }
    }
    v1::ExportCatalogResponse {
        position: Some((&Position::of_catalog(catalog)).into()),
        entities,
        settings,
        digest: digest.map(|digest| digest.to_string()).unwrap_or_default(),
        next_page_token: next_page_token.clone(),
    }
}
