//! Parsing of registry files: version detection, and version 2.

use std::{fmt::Display, mem::take, str::FromStr, sync::Arc};

use schema_compat::pointer::Location;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::{RegistryFile, v1};
use crate::{
    decode::{Fields, Problems, describe},
    diagnostic::Diagnostic,
    document::Document,
    kind::Kind,
    lifecycle::{LifecycleState, Notice},
    limits, parallel,
    reference::Key,
    rules::{Proposed, UnreadEntity},
};

/// Entities per batch. Problems are counted between batches, so that a file of invalid entities
/// cannot exhaust memory.
const AT_ONCE: usize = 512;

/// The readable part of a file, and the problems of the rest.
pub(super) fn read(value: &Value) -> (RegistryFile, Vec<Diagnostic>) {
    let mut builder = Builder::default();
    let problems = Problems::default();
    if let Some(fields) = problems.object(value, Location::ROOT) {
        match schema_version(&problems, &fields) {
            Some(SchemaVersion::V2) => read_v2(&mut builder, &problems, fields),
            Some(SchemaVersion::V1) => v1::read(&mut builder, &problems, fields),
            None => {}
        }
    }
    if !problems.is_empty() {
        // An invalid member may contain any entity.
        builder.file.unread.push(UnreadEntity::default());
    }
    builder.problems.extend(problems.into_vec());
    (builder.file, builder.problems)
}

#[derive(Clone, Copy)]
enum SchemaVersion {
    V1,
    V2,
}

fn schema_version(problems: &Problems, fields: &Fields<'_>) -> Option<SchemaVersion> {
    let at = fields.at("schemaVersion");
    match fields.get("schemaVersion") {
        Some(Value::String(text)) if text == "2.0" => Some(SchemaVersion::V2),
        Some(Value::String(text)) if text == "1.0" => Some(SchemaVersion::V1),
        Some(other) => {
            let message = format!(
                "the registry file's schema version is {}; this program reads \"2.0\" and \"1.0\"",
                describe(other)
            );
            let help = "write \"schemaVersion\": \"2.0\", or use a newer program for a newer file";
            problems.invalid(at, message, help);
            None
        }
        None if v1::looks_like(fields) => Some(SchemaVersion::V1),
        None => {
            let message = "the required field `schemaVersion` is missing";
            problems.invalid(fields.here(), message, "add \"schemaVersion\": \"2.0\"");
            None
        }
    }
}

fn read_v2(builder: &mut Builder, problems: &Problems, fields: Fields<'_>) {
    for kind in Kind::ALL {
        let list = kind.plural();
        for (i, values) in entities(problems, &fields, list).chunks(AT_ONCE).enumerate() {
            builder.entities(kind, values, |j| format!("/{list}/{}", AT_ONCE * i + j));
        }
    }
    // The members of an export do not affect the registration, except for the lifecycle.
    for copy in ["registry", "revision", "chain", "digest", "scope", "attestation", "settings"] {
        fields.get(copy);
    }
    let records = entities(problems, &fields, "records");
    if !records.is_empty() {
        builder.drop_lifecycles();
    }
    for (i, record) in records.iter().enumerate() {
        builder.record(record, &format!("/records/{i}"));
    }
    // Editors find the schema of the file by this member.
    fields.optional_string("$schema");
    fields.finish();
}

/// The items of a list of the file, which may exceed the limit for lists in documents.
pub(super) fn entities<'a>(
    problems: &Problems,
    fields: &'a Fields<'a>,
    name: &'static str,
) -> &'a [Value] {
    match fields.get(name) {
        Some(Value::Array(items)) => items,
        Some(other) => {
            problems.wrong_type(other, fields.at(name), "an array");
            &[]
        }
        None => &[],
    }
}

/// Collects the proposed changes and problems of a file.
#[derive(Default)]
pub(super) struct Builder {
    file: RegistryFile,
    problems: Vec<Diagnostic>,
}

impl Builder {
    /// Like [`Builder::entities`], for one entity.
    pub(super) fn entity(&mut self, kind: Kind, value: &Value, pointer: &str) {
        self.entities(kind, std::slice::from_ref(value), |_| pointer.to_owned());
    }

    /// Reads entities with the lifecycle members next to their own fields.
    pub(super) fn entities(
        &mut self,
        kind: Kind,
        values: &[Value],
        pointer: impl Fn(usize) -> String,
    ) {
        if self.problems.len() >= limits::PROBLEMS {
            return self.file.unread.push(UnreadEntity::default());
        }
        let read = parallel::map(values.iter().collect(), |value| read_entity(kind, value));
        for (i, entity) in read.into_iter().enumerate() {
            match entity {
                Ok((document, change)) => {
                    let key = document.key().clone();
                    self.propose(Proposed::Register(document), pointer(i));
                    if let Some((state, notice)) = change {
                        self.propose(Proposed::SetLifecycle { key, state, notice }, pointer(i));
                    }
                }
                Err(found) if self.problems.len() < limits::PROBLEMS => {
                    self.file.unread.push(UnreadEntity::of(kind, &values[i]));
                    let (pointer, key) = (pointer(i), key_of(kind, &values[i]));
                    self.problems.extend(found.into_iter().map(|d| Diagnostic {
                        pointer: format!("{pointer}{}", d.pointer),
                        entity: key.clone(),
                        ..d
                    }));
                }
                Err(_) => return self.file.unread.push(UnreadEntity::default()),
            }
        }
    }

    /// Drops the lifecycles of the entities: the records of a verified copy have more of them.
    fn drop_lifecycles(&mut self) {
        let (proposals, pointers) = (take(&mut self.file.proposals), take(&mut self.file.pointers));
        let entities = proposals.into_iter().zip(pointers);
        let entities = entities.filter(|(proposed, _)| matches!(proposed, Proposed::Register(_)));
        (self.file.proposals, self.file.pointers) = entities.unzip();
    }

    /// Takes the lifecycle of an entity from the `records` of a verified copy.
    fn record(&mut self, value: &Value, pointer: &str) {
        if self.problems.len() >= limits::PROBLEMS {
            return;
        }
        let key = value.get("key").and_then(Value::as_str).and_then(|key| key.parse::<Key>().ok());
        let Some(key) = key else {
            let found = Diagnostic::error(
                crate::Code::DocumentInvalid,
                format!("{pointer}/key"),
                "a record must have the key of its entity, such as tool/fetch@1.2.3",
            );
            self.problems.push(found.with_help("keep `records` as exported, or remove it"));
            return;
        };
        let Some(lifecycle) = value.get("lifecycle") else { return };
        let state = lifecycle.get("state").and_then(Value::as_str).and_then(|s| s.parse().ok());
        let notice = lifecycle.get("notice").and_then(|notice| Notice::deserialize(notice).ok());
        let notice = notice.unwrap_or_default();
        if let Some(state @ (LifecycleState::Deprecated | LifecycleState::Retired)) = state {
            self.propose(Proposed::SetLifecycle { key, state, notice }, pointer.to_owned());
        }
    }

    pub(super) fn propose(&mut self, proposed: Proposed, pointer: String) {
        self.file.proposals.push(proposed);
        self.file.pointers.push(pointer);
    }

    pub(super) fn warn(&mut self, warning: Diagnostic) {
        if self.file.warnings.len() < limits::PROBLEMS {
            self.file.warnings.push(warning);
        }
    }
}

type LifecycleChange = (LifecycleState, Notice);

fn read_entity(
    kind: Kind,
    value: &Value,
) -> Result<(Arc<Document>, Option<LifecycleChange>), Vec<Diagnostic>> {
    let problems = Problems::default();
    let written = value.as_object().and_then(|map| Written::read(&problems, map));
    let (document, lifecycle) = match written {
        Some(Written { document, change }) => (Document::from_value(kind, document), change),
        None => (Document::parse(kind, value), None),
    };
    let mut found = problems.into_vec();
    match document {
        Ok(document) if found.is_empty() => Ok((Arc::new(document), lifecycle)),
        document => {
            found.extend(document.err().into_iter().flatten());
            for unknown in found.iter_mut().filter(|one| is_state_member(&one.pointer)) {
                let help = "write \"deprecated\": true or \"retired\": true for the lifecycle";
                unknown.help = Some(help.to_owned());
            }
            Err(found)
        }
    }
}

fn is_state_member(pointer: &str) -> bool {
    pointer.strip_prefix('/').is_some_and(|member| STATE_MEMBERS.contains(&member))
}

/// An entity with the lifecycle members next to its own fields.
struct Written {
    document: Value,
    change: Option<LifecycleChange>,
}

/// Members for the state of an entity in files of other programs. No kind has them.
pub const STATE_MEMBERS: [&str; 3] = ["lifecycle", "status", "state"];

const LIFECYCLE: [&str; 6] =
    ["deprecated", "retired", "deprecationMessage", "replacement", "sunsetDate", "forceReason"];

impl Written {
    /// `None` if there is no lifecycle member.
    fn read(problems: &Problems, map: &Map<String, Value>) -> Option<Self> {
        if !LIFECYCLE.iter().any(|name| map.contains_key(*name)) {
            return None;
        }
        let mut document = map.clone();
        let own: Map<String, Value> =
            LIFECYCLE.iter().filter_map(|name| document.remove_entry(*name)).collect();
        let own = Value::Object(own);
        let fields = problems.object(&own, Location::ROOT)?;
        let deprecated = fields.optional_bool("deprecated").unwrap_or_default();
        let retired = fields.optional_bool("retired").unwrap_or_default();
        let notice = Notice {
            message: fields.optional_string("deprecationMessage"),
            replacement: parsed(problems, &fields, "replacement"),
            sunset_date: parsed(problems, &fields, "sunsetDate"),
            force_reason: fields.optional_string("forceReason"),
        };
        let change = match (retired, deprecated) {
            (true, _) => Some((LifecycleState::Retired, notice)),
            (false, true) => Some((LifecycleState::Deprecated, notice)),
            (false, false) => {
                let given = LIFECYCLE[2..].iter().find(|name| map.contains_key(**name));
                if let Some(name) = given {
                    let text = format!("`{name}` without `deprecated`");
                    let help = "add \"deprecated\": true, or remove it";
                    problems.invalid(fields.at(name), text, help);
                }
                None
            }
        };
        fields.finish();
        Some(Self { document: Value::Object(document), change })
    }
}

/// A string field that is parsed into a type.
fn parsed<T: FromStr<Err: Display>>(
    problems: &Problems,
    fields: &Fields<'_>,
    name: &'static str,
) -> Option<T> {
    let text = fields.optional_string(name)?;
    let unfit =
        |e: T::Err| problems.invalid(fields.at(name), e.to_string(), "correct or remove it");
    text.parse().map_err(unfit).ok()
}

/// The key of an invalid entity, if its name and version are valid.
fn key_of(kind: Kind, value: &Value) -> Option<Key> {
    let text = |name| value.get(name).and_then(Value::as_str);
    Key::parse(kind, text("name")?, text("version")?).ok()
}
