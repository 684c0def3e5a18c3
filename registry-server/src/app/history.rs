//! Reads the log: commits and the events of one entity.

use registry_core::{Kind, Name, PointInTime, Revision, Timestamp, Version};

use super::{
    Catalogs, NoCommit, ReadError,
    page::{Page, PageRequest},
};
use crate::store::{
    CommitFilter, CommitQuery, EntityEvent, HistoryQuery, Order, SettingEvent, Store, StoredCommit,
};

/// Selects commits.
#[derive(Debug, Clone)]
pub struct ListCommits {
    /// The order of the result.
    pub order: Order,
    /// An exact author; empty: all.
    pub author: String,
    /// Selects commits after this revision.
    pub after: Revision,
    /// Only commits that match this filter.
    pub filter: Option<CommitFilter>,
    /// Selects commits at or after this time.
    pub since: Option<Timestamp>,
    /// Selects commits before this time.
    pub end: Option<Timestamp>,
    /// The point in history; `None` is the present.
    pub at: Option<PointInTime>,
}

/// Lists commits.
pub async fn list_commits(
    catalogs: &Catalogs,
    store: &Store,
    query: ListCommits,
    page: &PageRequest,
) -> Result<Page<StoredCommit>, ReadError> {
    let cursor = page.cursor(|cursor| cursor.parse().map(Revision).ok())?;
    let (first, last) = bounds(catalogs, store, &query).await?;
    let (after, before) = match query.order {
        Order::OldestFirst => (cursor.unwrap_or(first), last.next()),
        Order::NewestFirst => (first, cursor.unwrap_or(last.next())),
    };
    let author = Some(query.author).filter(|author| !author.is_empty());
    let (filter, order, limit) = (query.filter, query.order, page.size);
    let wanted =
        CommitQuery { after: Some(after), before: Some(before), author, filter, order, limit };
    let items = store.list_commits(&wanted).await?;
    let last = items.last().map(|item| item.commit.revision).filter(|at| match order {
        Order::OldestFirst => *at < last,
        Order::NewestFirst => *at > first.next(),
    });
    let next_page_token = last.map(|last| page.token_after(&last.to_string()));
    Ok(Page { items, next_page_token: next_page_token.unwrap_or_default() })
}

/// The exclusive first and the inclusive last revision of the result.
async fn bounds(
    catalogs: &Catalogs,
    store: &Store,
    query: &ListCommits,
) -> Result<(Revision, Revision), ReadError> {
    let head = catalogs.revision_at(query.at).await?;
    let before = |time: Timestamp| Timestamp::from_millis(time.as_millis() - 1);
    let last = match query.end {
        Some(end) => store.revision_at(before(end)).await?.min(head),
        None => head,
    };
    let since = match query.since {
        Some(since) => store.revision_at(before(since)).await?,
        None => Revision(0),
    };
    Ok((query.after.max(since), last))
}

/// Reads one commit.
pub async fn get_commit(
    catalogs: &Catalogs,
    store: &Store,
    wanted: Revision,
) -> Result<StoredCommit, ReadError> {
    let head = catalogs.now().revision();
    store.commit(wanted).await?.ok_or_else(|| NoCommit { wanted, head }.into())
}

/// An event of a name.
#[derive(Debug)]
pub enum Event {
    /// An entity changed.
    Changed(EntityEvent),
    /// A setting changed.
    Set(SettingEvent),
}

impl Event {
    /// The revision, and the index in its commit.
    fn place(&self) -> (Revision, u32) {
        match self {
            Self::Changed(event) => (event.revision, event.ordinal),
            Self::Set(event) => (event.revision, event.ordinal),
        }
    }
}

/// A name or one version of it.
#[derive(Debug, Clone)]
pub struct Entity {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: Name,
    /// The version; `None` selects all versions.
    pub version: Option<Version>,
    /// The point in history where the answer ends; `None` is the present.
    pub at: Option<PointInTime>,
}

/// Lists the changes of a name, or of one version of it.
pub async fn entity_history(
    catalogs: &Catalogs,
    store: &Store,
    entity: Entity,
    page: &PageRequest,
) -> Result<Page<Event>, ReadError> {
    let Entity { kind, name, version, at } = entity;
    let until = catalogs.revision_at(at).await?;
    let after = page.cursor(read_place)?;
    // One more item than a page shows whether there is another page.
    let query = HistoryQuery { kind, name, version, after, until, limit: page.size + 1 };
    let changed = store.entity_history(&query).await?.into_iter().map(Event::Changed);
    let set = store.setting_history(&query).await?.into_iter().map(Event::Set);
    let mut items: Vec<Event> = changed.chain(set).collect();
    items.sort_by_key(Event::place);
    Ok(page.page(items, |last| {
        let (revision, ordinal) = last.place();
        format!("{revision}.{ordinal}")
    }))
}

fn read_place(cursor: &str) -> Option<(Revision, u32)> {
    let (revision, ordinal) = cursor.split_once('.')?;
    Some((Revision(revision.parse().ok()?), ordinal.parse().ok()?))
}
