//! `list`: entities, ordered by kind, name and version.

use std::collections::HashMap;

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
    let filter = filter(args);
    let mut records = fetch(&client, filter.clone()).await?;
    mark_in_force(&client, filter, &mut records).await?;
    if session.screen.format == Format::Json {
        return session.screen.json(&records);
    }
    let mut table = TextTable::new(&["KIND", "NAME", "VERSION", "LIFECYCLE", "OWNER", "REVISION"]);
    for RecordView { key, owner, registered_revision, lifecycle, in_force, .. } in &records {
        let revision = registered_revision.to_string();
        let note = if *in_force == Some(true) { ", in force" } else { "" };
        let state = format!("{}{note}", lifecycle.state);
        let cells = [&*key.kind, &key.name, &key.version, &state, owner, &revision];
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

/// Marks the policies in force. A filter may hide the highest version of a policy, so that all
/// versions are listed.
async fn mark_in_force(
    client: &Client,
    filter: v1::ListEntitiesRequest,
    records: &mut [RecordView],
) -> Result<(), Failure> {
    let is_policy = |record: &RecordView| record.key.kind == Kind::Policy.as_str();
    if !records.iter().any(is_policy) {
        return Ok(());
    }
    let all = v1::ListEntitiesRequest {
        kind: v1::EntityKind::Policy.into(),
        lifecycle_states: Vec::new(),
        owner: String::new(),
        ..filter
    };
    let all = fetch(client, all).await?;
    // The lowest version precedes the others of its name.
    let releases = all.iter().filter(|record| is_release(record));
    let highest: HashMap<_, _> = releases.map(|record| (&record.key.name, record)).collect();
    for record in records.iter_mut().filter(|record| is_policy(record)) {
        let highest = highest.get(&record.key.name);
        let is_highest = highest.is_some_and(|highest| highest.key.version == record.key.version);
        record.in_force = Some(is_highest && record.lifecycle.state != "retired");
    }
    Ok(())
}

/// Whether a version is not a pre-release. Only releases of policies are in force.
pub(super) fn is_release(record: &RecordView) -> bool {
    Version::parse(&record.key.version).is_ok_and(|version| !version.is_prerelease())
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

/// Reads all pages.
pub(super) async fn fetch(
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
