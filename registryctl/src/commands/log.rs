//! `log` and `show`: lists commits, and prints one with all changes.
//!
//! The hash chain is not verified: `export` and `watch` verify it.

use registry_core::{PointInTime, Timestamp};
use registry_proto::{convert, v1};

use super::{Session, missing};
use crate::{
    cli::{CommitFilter, EntityFilter, Format, LogArgs, ShowArgs},
    client::{Client, PAGE_SIZE, request},
    failure::Failure,
    screen::TextTable,
    style::{Paint, printable},
    view::{ChangeView, CommitView, OriginView, short_digest},
};

pub(super) async fn run(session: &Session, args: &LogArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let (filter, setting_target) = match &args.filter {
        Some(CommitFilter::Entity(filter)) => (Some(filter), String::new()),
        Some(CommitFilter::Settings(selector)) => (None, selector.to_string()),
        None => (None, String::new()),
    };
    let wanted = v1::ListCommitsRequest {
        entity: filter.map(EntityFilter::selector),
        newest_first: true,
        author: args.author.clone(),
        start_time: args.since.map(convert::timestamp),
        end_time: args.until.map(after).map(convert::timestamp),
        at: args.as_of.message(),
        setting_target,
        ..Default::default()
    };
    let commits = fetch(&client, wanted, limit).await?;
    if commits.is_empty()
        && let Some(filter) = filter
    {
        require_commits(&client, filter, args.as_of.at).await?;
    }
    if session.screen.format == Format::Json {
        return session.screen.json(&commits);
    }
    let mut table = TextTable::new(&["REVISION", "TIME", "AUTHOR", "CHANGES", "MESSAGE"]);
    for commit in &commits {
        let CommitView { revision, author, committed_at, .. } = commit;
        let time = committed_at.as_deref().unwrap_or_default();
        table.row([&revision.to_string(), time, author, &commit.summary(), &commit.reasons()]);
    }
    session.screen.table(&table)
}

/// Rejects a name or version without any commit, which is probably misspelled.
pub(super) async fn require_commits(
    client: &Client,
    filter: &EntityFilter,
    at: Option<PointInTime>,
) -> Result<(), Failure> {
    let EntityFilter { kind, name: Some(name), version } = filter else { return Ok(()) };
    let wanted = v1::ListCommitsRequest {
        entity: Some(filter.selector()),
        at: at.map(Into::into),
        ..Default::default()
    };
    if fetch(client, wanted, 1).await?.is_empty() {
        return Err(missing::not_registered(client, *kind, name, version.as_ref(), at).await);
    }
    Ok(())
}

/// The exclusive end of a range that includes a time. Times have milliseconds.
fn after(time: Timestamp) -> Timestamp {
    Timestamp::from_millis(time.as_millis() + 1)
}

/// Reads pages of commits up to the limit.
pub(super) async fn fetch(
    client: &Client,
    mut wanted: v1::ListCommitsRequest,
    limit: usize,
) -> Result<Vec<CommitView>, Failure> {
    let mut commits: Vec<CommitView> = Vec::new();
    loop {
        let missing = i32::try_from(limit - commits.len()).unwrap_or(PAGE_SIZE);
        wanted.page_size = missing.min(PAGE_SIZE);
        let page = client.answer(client.history().list_commits(request(wanted.clone()))).await?;
        commits.extend(page.commits.into_iter().map(CommitView::from));
        if page.next_page_token.is_empty() || commits.len() >= limit {
            commits.truncate(limit);
            return Ok(commits);
        }
        wanted.page_token = page.next_page_token;
    }
}

pub(super) async fn show(session: &Session, args: &ShowArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let wanted = v1::GetCommitRequest { revision: args.revision, ..Default::default() };
    let response = client.answer(client.history().get_commit(request(wanted))).await?;
    let commit =
        response.commit.ok_or_else(|| Failure::invalid_response("the commit is missing"))?;
    let commit = CommitView::from(commit);
    let screen = session.screen;
    if screen.format == Format::Json {
        return screen.json(&commit);
    }
    let CommitView { revision, author, committed_at, message, request_id, chain, .. } = &commit;
    let origin = commit.origin.as_ref().map(OriginView::text).unwrap_or_default();
    let fields = [
        ("revision", revision.to_string()),
        ("time", committed_at.clone().unwrap_or_default()),
        ("author", author.clone()),
        ("origin", origin),
        ("message", message.clone()),
        ("request id", request_id.clone().unwrap_or_default()),
        ("chain", chain.clone()),
    ];
    for (name, value) in fields {
        let name = screen.style.paint(Paint::Strong, format!("{name:<11}"));
        screen.line(format!("{name}{}", printable(&value)).trim_end())?;
    }
    for setting in &commit.settings {
        let name = screen.style.paint(Paint::Strong, format!("{:<11}", "set"));
        screen.line(&format!("{name}{}", printable(&setting.to_string())))?;
    }
    if commit.changes.is_empty() {
        return Ok(());
    }
    let mut table = TextTable::new(&["ACTION", "KIND", "NAME", "VERSION", "DIGEST", "REASON"]);
    for change in &commit.changes {
        let ChangeView { action, key, digest, .. } = change;
        let digest = short_digest(digest.as_deref().unwrap_or_default());
        table.row([action, &*key.kind, &key.name, &key.version, digest, &change.reasons()]);
    }
    screen.line("")?;
    screen.table(&table)
}
