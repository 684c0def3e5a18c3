//! Read the log: commits, one commit, and what happened to one entity.

use registry_core::{Kind, Name, PointInTime, Revision, Timestamp, Version};

use super::{
    Catalogs, NoCommit, ReadError,
    page::{self, Page},
};
use crate::store::{
    CommitQuery, EntityEvent, HistoryQuery, Order, SettingEvent, Store, StoredCommit, Subject,
};

/// TokenFilter commits.
#[derive(Debug, Clone)]
pub struct ListCommits {
    /// In which order.
    pub order: Order,
    /// Only by this author; empty: all.
    pub author: String,
    /// Only after this revision.
    pub after: Revision,
    /// Only what is about this.
    pub about: Option<Subject>,
    /// Only at this time or after it.
    pub since: Option<Timestamp>,
    /// Only at this time or before it.
    pub until: Option<Timestamp>,
    /// As the log was then.
    pub at: Option<PointInTime>,
}

/// Lists commits.
pub async fn list_commits(
    catalogs: &Catalogs,
    store: &Store,
    query: ListCommits,
    limit: usize,
    token: &str,
) -> Result<Page<StoredCommit>, ReadError> {
    let mark = format!("{query:?}");
    let cursor = page::cursor(&mark, token, |cursor| cursor.parse().map(Revision).ok())?;
    let (first, last) = bounds(catalogs, store, &query).await?;
    let (after, before) = match query.order {
        Order::OldestFirst => (cursor.unwrap_or(first), last.next()),
        Order::NewestFirst => (first, cursor.unwrap_or(last.next())),
    };
    let author = Some(query.author).filter(|author| !author.is_empty());
    let (about, order) = (query.about, query.order);
    let wanted =
        CommitQuery { after: Some(after), before: Some(before), author, about, order, limit };
    let items = store.list_commits(&wanted).await?;
    let last = items.last().map(|item| item.commit.revision).filter(|at| match order {
        Order::OldestFirst => *at < last,
        Order::NewestFirst => *at > first.next(),
    });
    let next_page_token = last.map(|last| page::token(&mark, &last.to_string()));
    Ok(Page { items, next_page_token: next_page_token.unwrap_or_default() })
}

/// After which revision and up to which one commits are wanted.
async fn bounds(
    catalogs: &Catalogs,
    store: &Store,
    query: &ListCommits,
) -> Result<(Revision, Revision), ReadError> {
    let head = catalogs.revision_at(query.at).await?;
    let until = match query.until {
        Some(until) => store.revision_at(until).await?.min(head),
        None => head,
    };
    let before = |since: Timestamp| Timestamp::from_millis(since.as_millis() - 1);
    let since = match query.since {
        Some(since) => store.revision_at(before(since)).await?,
        None => Revision(0),
    };
    Ok((query.after.max(since), until))
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

/// What happened to a name.
#[derive(Debug)]
pub enum Event {
    /// An entity was changed.
    Changed(EntityEvent),
    /// Something was set.
    Set(SettingEvent),
}

impl Event {
    /// In which revision, and where in its commit.
    fn place(&self) -> (Revision, u32) {
        match self {
            Self::Changed(event) => (event.revision, event.ordinal),
            Self::Set(event) => (event.revision, event.ordinal),
        }
    }
}

/// The name, or one version of it, whose history is read.
#[derive(Debug, Clone)]
pub struct Entity {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: Name,
    /// The version; `None`: all versions.
    pub version: Option<Version>,
    /// The point in history where the answer ends; `None` is the present.
    pub at: Option<PointInTime>,
}

/// Lists the changes of a name, or of one version of it.
pub async fn entity_history(
    catalogs: &Catalogs,
    store: &Store,
    entity: Entity,
    size: usize,
    token: &str,
) -> Result<Page<Event>, ReadError> {
    let Entity { kind, name, version, at } = entity;
    let mark = format!("{kind} {name} {version:?} {at:?}");
    let until = catalogs.revision_at(at).await?;
    let after = page::cursor(&mark, token, read_place)?;
    // One more than asked for tells whether there is another page.
    let query = HistoryQuery { kind, name, version, after, until, limit: size + 1 };
    let changed = store.entity_history(&query).await?.into_iter().map(Event::Changed);
    let set = store.setting_history(&query).await?.into_iter().map(Event::Set);
    let mut items: Vec<Event> = changed.chain(set).collect();
    items.sort_by_key(Event::place);
    Ok(Page::of(items, size, &mark, |last| {
        let (revision, ordinal) = last.place();
        format!("{revision}.{ordinal}")
    }))
}

fn read_place(cursor: &str) -> Option<(Revision, u32)> {
    let (revision, ordinal) = cursor.split_once('.')?;
    Some((Revision(revision.parse().ok()?), ordinal.parse().ok()?))
}
