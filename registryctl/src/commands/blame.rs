//! `blame`: the version, author and commit that introduced each value of a document.

use registry_proto::{convert, v1};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Session, missing};
use crate::{
    cli::{BlameArgs, Format},
    client::{PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    view::{EventView, KeyView, short_value},
};

/// A value and the registration that introduced it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LineView {
    pointer: String,
    value: Value,
    version: String,
    revision: u64,
    author: String,
    committed_at: Option<String>,
    message: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    at_or_before: bool,
}

pub(super) async fn run(session: &Session, args: &BlameArgs) -> Result<(), Failure> {
    let (kind, name, version) = args.name.parts()?;
    let client = session.connect().await?;
    let mut wanted = v1::BlameEntityRequest {
        entity: Some(convert::selector(kind, Some(&name), version.as_ref())),
        at: args.as_of.message(),
        page_size: PAGE_SIZE,
        ..Default::default()
    };
    let mut lines = Vec::new();
    loop {
        let page = client.answer(client.history().blame_entity(request(wanted.clone()))).await;
        let page = match page {
            Ok(page) => page,
            Err(failure) => {
                let (version, at) = (version.as_ref(), args.as_of.at);
                return Err(missing::explain(&client, failure, kind, &name, version, at).await);
            }
        };
        let v1::BlameEntityResponse { key, lines: explained, origins, next_page_token } = page;
        let key = KeyView::from(key.unwrap_or_default());
        let origins: Vec<_> = origins.into_iter().map(EventView::from).collect();
        for line in explained {
            lines.push(view(line, &origins)?);
        }
        if next_page_token.is_empty() {
            return show(session, &key, &lines);
        }
        wanted.page_token = next_page_token;
    }
}

fn view(line: v1::BlameLine, origins: &[EventView]) -> Result<LineView, Failure> {
    let v1::BlameLine { pointer, value, origin, at_or_before: or_earlier } = line;
    let origin = usize::try_from(origin).ok().and_then(|origin| origins.get(origin));
    let EventView { revision, committed_at, author, message, change, setting: _ } =
        origin.ok_or_else(|| Failure::invalid_response("a value has no origin"))?;
    let change =
        change.as_ref().ok_or_else(|| Failure::invalid_response("an origin has no change"))?;
    Ok(LineView {
        pointer,
        value: serde_json::from_str(&value).map_err(Failure::invalid_response)?,
        version: change.key.version.clone(),
        revision: *revision,
        author: author.clone(),
        committed_at: committed_at.clone(),
        message: message.clone(),
        at_or_before: or_earlier,
    })
}

fn show(session: &Session, key: &KeyView, lines: &[LineView]) -> Result<(), Failure> {
    let screen = session.screen;
    if screen.format == Format::Json {
        return screen.json(&json!({ "entity": key.to_string(), "lines": lines }));
    }
    let heading = ["VERSION", "REVISION", "TIME", "AUTHOR", "POINTER", "VALUE", "MESSAGE"];
    let mut table = TextTable::new(&heading);
    for line in lines {
        let LineView { pointer, value, version, revision, author, committed_at, message, .. } =
            line;
        let version = if line.at_or_before { format!("<={version}") } else { version.clone() };
        let time = committed_at.as_deref().unwrap_or_default();
        let (revision, value) = (revision.to_string(), short_value(value));
        table.row([&*version, &revision, time, author, pointer, &value, message]);
    }
    screen.table(&table)
}
