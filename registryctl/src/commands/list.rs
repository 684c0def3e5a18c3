//! `list`: entities, ordered by kind, name and version.

use registry_core::{Kind, Name, PointInTime, Version};
use registry_proto::v1;

use super::Session;
use crate::{
    cli::{Format, ListArgs},
    client::{Client, PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    style::Paint,
    view::RecordView,
};

pub(super) async fn run(session: &Session, args: ListArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let records = fetch(&client, filter(args)).await?;
    if session.screen.format == Format::Json {
        return session.screen.json(&records);
    }
    let mut table = TextTable::new(&["KIND", "NAME", "VERSION", "LIFECYCLE", "OWNER", "REVISION"]);
    for RecordView { key, owner, registered_revision, lifecycle, .. } in &records {
        let revision = registered_revision.to_string();
        let cells = [&*key.kind, &key.name, &key.version, lifecycle.state, owner, &revision];
        match lifecycle.state {
            "active" => table.row(cells),
            "deprecated" => table.painted(Paint::Careful, cells),
            _ => table.painted(Paint::Dim, cells),
        }
    }
    session.screen.table(&table)
}

fn filter(args: ListArgs) -> v1::ListEntitiesRequest {
    let ListArgs { kind, kind_option, name, prefix, lifecycle, owner, as_of } = args;
    v1::ListEntitiesRequest {
        kind: kind.or(kind_option).map_or(v1::EntityKind::Unspecified, Into::into).into(),
        name: name.unwrap_or_default(),
        name_prefix: prefix.unwrap_or_default(),
        lifecycle_states: lifecycle
            .into_iter()
            .map(|s| v1::LifecycleState::from(s).into())
            .collect(),
        owner: owner.unwrap_or_default(),
        page_size: PAGE_SIZE,
        at: as_of.message(),
        ..Default::default()
    }
}

/// All versions of a name, newest first.
pub(super) async fn versions(
    client: &Client,
    kind: Kind,
    name: &Name,
    at: Option<PointInTime>,
) -> Result<Vec<RecordView>, Failure> {
    let wanted = v1::ListEntitiesRequest {
        kind: v1::EntityKind::from(kind).into(),
        name: name.to_string(),
        page_size: PAGE_SIZE,
        at: at.map(Into::into),
        ..v1::ListEntitiesRequest::default()
    };
    let mut records = fetch(client, wanted).await?;
    records.sort_by_cached_key(|record| Version::parse(&record.key.version).ok());
    records.reverse();
    Ok(records)
}

async fn fetch(
    client: &Client,
    mut filter: v1::ListEntitiesRequest,
) -> Result<Vec<RecordView>, Failure> {
    let mut records = Vec::new();
    loop {
        let page = client.answer(client.registry().list_entities(request(filter.clone()))).await?;
        records.extend(page.records.into_iter().map(RecordView::from));
        if page.next_page_token.is_empty() {
            return Ok(records);
        }
        filter.page_token = page.next_page_token;
    }
}
