//! `sbom who-has`: what contains an entity, page by page until all are there.

use registry_proto::{convert, v1};
use serde::Serialize;

use super::Session;
use crate::{
    cli::{Format, WhoHasArgs},
    client::{PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    style::Paint,
};

/// A holder, as scripts see it.
#[derive(Debug, Serialize)]
struct HolderView {
    holder: String,
    lifecycle: &'static str,
    contains: String,
    direct: bool,
    path: Vec<String>,
}

pub(super) async fn run(session: &Session, args: &WhoHasArgs) -> Result<(), Failure> {
    let (kind, name, version) = args.name.parts()?;
    let client = session.connect().await?;
    let holder_kind = args.holder_kind.map_or(v1::Kind::Unspecified, Into::into);
    let mut wanted = v1::WhoHasRequest {
        kind: v1::Kind::from(kind).into(),
        name: name.to_string(),
        version: version.map(|version| version.to_string()).unwrap_or_default(),
        holder_kind: holder_kind.into(),
        page_size: PAGE_SIZE,
        page_token: String::new(),
        at: args.at.message(),
    };
    let mut holders = Vec::new();
    loop {
        let page = client.answer(client.sbom().who_has(request(wanted.clone()))).await?;
        for holder in page.holders {
            holders.push(view(holder)?);
        }
        if page.next_page_token.is_empty() {
            break;
        }
        wanted.page_token = page.next_page_token;
    }
    show(session, &holders)
}

fn view(v1::Holder { path, lifecycle }: v1::Holder) -> Result<HolderView, Failure> {
    let key = |key| registry_core::Key::try_from(key).map(|key| key.to_string());
    let path: Vec<_> =
        path.into_iter().map(key).collect::<Result<_, _>>().map_err(Failure::answer)?;
    let [holder, .., contains] = path.as_slice() else {
        return Err(Failure::answer("a path without an end"));
    };
    Ok(HolderView {
        holder: holder.clone(),
        lifecycle: convert::state(lifecycle).map_err(Failure::answer)?.as_str(),
        contains: contains.clone(),
        direct: path.len() == 2,
        path,
    })
}

fn show(session: &Session, holders: &[HolderView]) -> Result<(), Failure> {
    if session.screen.format == Format::Json {
        return session.screen.json(&holders);
    }
    let mut table = TextTable::new(&["HOLDER", "LIFECYCLE", "CONTAINS", "PATH"]);
    for HolderView { holder, lifecycle, contains, path, .. } in holders {
        let path = path.join(" → ");
        let cells = [holder.as_str(), lifecycle, contains, &path];
        match *lifecycle {
            "active" => table.row(cells),
            "deprecated" => table.painted(Paint::Careful, cells),
            _ => table.painted(Paint::Dim, cells),
        }
    }
    session.screen.table(&table)
}
