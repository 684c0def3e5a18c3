//! `get`: one entity.

use std::fmt::Write as _;

use registry_core::{Digest, Key, PointInTime};
use registry_proto::v1;
use serde_json::Value;

use super::Session;
use crate::{
    cli::{Format, GetArgs},
    client::{Client, request},
    failure::Failure,
    style::{Paint, Style, printable},
    view::RecordView,
};

pub(super) async fn run(session: &Session, args: &GetArgs) -> Result<(), Failure> {
    let key = args.entity.key()?;
    let client = session.connect().await?;
    let record = fetch(&client, &key, args.at.at).await?;
    let screen = session.screen;
    if args.document {
        return screen.bytes(&document(&record)?);
    }
    match screen.format {
        Format::Json => screen.json(&RecordView::from(record)),
        Format::Table => {
            let content: Value = read(&document(&record)?)?;
            screen.bytes(text(&RecordView::from(record), &content, screen.style).as_bytes())
        }
    }
}

/// Reads an entity with its canonical document.
pub(super) async fn fetch(
    client: &Client,
    key: &Key,
    at: Option<PointInTime>,
) -> Result<v1::EntityRecord, Failure> {
    let (key, at) = (Some(key.into()), at.map(Into::into));
    let message = v1::GetRequest { key, include_document: true, at };
    let response = client.answer(client.registry().get(request(message))).await?;
    response.record.ok_or_else(|| Failure::answer("there is no record in it"))
}

/// The canonical document of a record, proven by its digest.
fn document(record: &v1::EntityRecord) -> Result<Vec<u8>, Failure> {
    let bytes = record.document.as_deref().ok_or_else(|| Failure::answer("no document"))?;
    if Digest::compute(bytes).to_string() != record.digest {
        return Err(Failure::answer("the document does not have the digest that names it"));
    }
    Ok(bytes.to_vec())
}

/// The content of a record as JSON, proven by its digest.
pub(super) fn content(record: &v1::EntityRecord) -> Result<Value, Failure> {
    read(&document(record)?)
}

fn read(document: &[u8]) -> Result<Value, Failure> {
    serde_json::from_slice(document).map_err(Failure::answer)
}

fn text(record: &RecordView, content: &Value, style: Style) -> String {
    let RecordView { key, digest, owner, registered_revision, registered_at, lifecycle, .. } =
        record;
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        let name = style.paint(Paint::Strong, format!("{name:<11}"));
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
        ("use", &lifecycle.replacement),
        ("until", &lifecycle.sunset),
        ("forced", &lifecycle.forced),
    ];
    for (name, value) in notice {
        if let Some(value) = value {
            field(name, value);
        }
    }
    let content = serde_json::to_string_pretty(content).unwrap_or_default();
    text.push('\n');
    for line in content.lines() {
        text += &printable(line);
        text.push('\n');
    }
    text
}
