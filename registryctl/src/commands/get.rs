//! `get`: one entity; without a version, the newest one.

use std::fmt::{self, Write as _};

use registry_core::{Digest, Key, Kind, Name, PointInTime, Version};
use registry_proto::v1;
use serde::Serialize;
use serde_json::Value;

use super::{Session, list, missing};
use crate::{
    cli::{Format, GetArgs},
    client::{Client, request},
    failure::Failure,
    style::{Paint, Style, printable},
    view::RecordView,
};

/// The JSON result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntityView {
    #[serde(flatten)]
    record: RecordView,
    /// Present if the arguments named no version.
    #[serde(skip_serializing_if = "Option::is_none")]
    other_versions: Option<Vec<OtherVersion>>,
}

#[derive(Serialize)]
struct OtherVersion {
    version: String,
    lifecycle: &'static str,
}

pub(super) async fn run(session: &Session, args: &GetArgs) -> Result<(), Failure> {
    let (kind, name, version) = args.name.parts()?;
    let client = session.connect().await?;
    let (key, other_versions) = if let Some(version) = version {
        (Key::new(kind, name, version), None)
    } else {
        let (key, others) = newest(&client, kind, name, args.as_of.at).await?;
        (key, Some(others))
    };
    let found = fetch(&client, &key, args.as_of.at).await?;
    let screen = session.screen;
    if args.document {
        return screen.bytes(&document(&found)?);
    }
    let force = Force::fetch(&client, &key, args.as_of.at).await?;
    let content = content(&found)?;
    let mut record = RecordView::from(found);
    record.in_force = force.as_ref().map(|force| matches!(force, Force::Yes));
    match screen.format {
        Format::Json => screen.json(&EntityView { record, other_versions }),
        Format::Table => {
            let others = other_versions.unwrap_or_default();
            let force = force.as_ref();
            screen.bytes(text(&record, force, &others, &content, screen.style).as_bytes())
        }
    }
}

/// Whether a version of a policy is in force.
enum Force {
    Yes,
    /// The highest release is in force.
    Other(String),
    /// The highest release is retired, so that the policy is off.
    Off(String),
    /// The policy has only pre-releases.
    NoRelease,
}

impl Force {
    /// `None`: the entity is not a policy.
    async fn fetch(
        client: &Client,
        key: &Key,
        at: Option<PointInTime>,
    ) -> Result<Option<Self>, Failure> {
        if key.kind != Kind::Policy {
            return Ok(None);
        }
        let versions = list::versions(client, key.kind, &key.name, at).await?;
        let highest = versions.into_iter().find(list::is_release);
        Ok(Some(match highest {
            None => Self::NoRelease,
            Some(highest) if highest.lifecycle.state == "retired" => Self::Off(highest.key.version),
            Some(highest) if highest.key.version == key.version.to_string() => Self::Yes,
            Some(highest) => Self::Other(highest.key.version),
        }))
    }
}

impl fmt::Display for Force {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes => write!(f, "yes"),
            Self::Other(version) => write!(f, "no, {version} is in force"),
            Self::Off(version) => {
                write!(f, "no, the policy is off, because {version} is retired")
            }
            Self::NoRelease => write!(f, "no, the policy has only pre-releases"),
        }
    }
}

/// The newest version of a name, and the others. Active versions precede deprecated and retired ones,
/// except for policies, whose earlier versions are not in force. Releases precede pre-releases.
async fn newest(
    client: &Client,
    kind: Kind,
    name: Name,
    at: Option<PointInTime>,
) -> Result<(Key, Vec<OtherVersion>), Failure> {
    let mut records = list::versions(client, kind, &name, at).await?;
    let rank = |record: &RecordView| {
        let version = Version::parse(&record.key.version).ok();
        let state = match record.lifecycle.state {
            _ if kind == Kind::Policy => 2,
            "active" => 2,
            "deprecated" => 1,
            _ => 0,
        };
        (state, version.as_ref().is_some_and(|version| !version.is_prerelease()), version)
    };
    let Some(newest) = (0..records.len()).max_by_key(|i| rank(&records[*i])) else {
        return Err(missing::not_registered(client, kind, &name, None, at).await);
    };
    let version =
        Version::parse(&records.remove(newest).key.version).map_err(Failure::invalid_response)?;
    let other = |record: RecordView| OtherVersion {
        version: record.key.version,
        lifecycle: record.lifecycle.state,
    };
    Ok((Key::new(kind, name, version), records.into_iter().map(other).collect()))
}

/// Reads an entity with its canonical document.
pub(super) async fn fetch(
    client: &Client,
    key: &Key,
    at: Option<PointInTime>,
) -> Result<v1::EntityRecord, Failure> {
    let message = v1::GetEntityRequest {
        key: Some(key.into()),
        include_document: true,
        at: at.map(Into::into),
        min_revision: 0,
    };
    match client.answer(client.registry().get_entity(request(message))).await {
        Ok(response) => {
            response.record.ok_or_else(|| Failure::invalid_response("the record is missing"))
        }
        Err(failure) => {
            let version = Some(&key.version);
            Err(missing::explain(client, failure, key.kind, &key.name, version, at).await)
        }
    }
}

/// The canonical document of a record, verified by its digest.
fn document(record: &v1::EntityRecord) -> Result<Vec<u8>, Failure> {
    let bytes =
        record.document.as_deref().ok_or_else(|| Failure::invalid_response("no document"))?;
    if Digest::compute(bytes).to_string() != record.digest {
        return Err(Failure::invalid_response("the digest of the document is wrong"));
    }
    Ok(bytes.to_vec())
}

/// The content of a record as JSON, verified by its digest.
pub(super) fn content(record: &v1::EntityRecord) -> Result<Value, Failure> {
    read(&document(record)?)
}

fn read(document: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(document).map_err(Failure::invalid_response)
}

fn text(
    record: &RecordView,
    force: Option<&Force>,
    others: &[OtherVersion],
    content: &Value,
    style: Style,
) -> String {
    let RecordView { key, digest, owner, registered_revision, registered_at, lifecycle, .. } =
        record;
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        let name = style.paint(Paint::Strong, format!("{name:<12}"));
        // Writing into a string cannot fail.
        let _ = writeln!(text, "{name}{}", printable(value));
    };
    field("entity", &format!("{}/{}@{}", key.kind, key.name, key.version));
    field("digest", digest);
    field("owner", owner);
    let at = registered_at.as_deref().unwrap_or("an unknown time");
    field("registered", &format!("revision {registered_revision}, {at}"));
    let reason = lifecycle.message.as_deref().map(|m| format!(": {m}")).unwrap_or_default();
    field(
        "lifecycle",
        &format!("{} since revision {}{reason}", lifecycle.state, lifecycle.revision),
    );
    let notice = [
        ("replacement", &lifecycle.replacement),
        ("sunset", &lifecycle.sunset_date),
        ("forced", &lifecycle.force_reason),
    ];
    for (name, value) in notice {
        if let Some(value) = value {
            field(name, value);
        }
    }
    if let Some(force) = force {
        field("in force", &force.to_string());
    }
    if !others.is_empty() {
        let other = |OtherVersion { version, lifecycle }: &OtherVersion| match *lifecycle {
            "active" => version.clone(),
            state => format!("{version} ({state})"),
        };
        let others: Vec<_> = others.iter().map(other).collect();
        field("others", &others.join(", "));
    }
    let content = serde_json::to_string_pretty(content).unwrap_or_default();
    text.push('\n');
    for line in content.lines() {
        text += &printable(line);
        text.push('\n');
    }
    text
}
