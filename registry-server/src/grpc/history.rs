//! `HistoryService`: read the log.
//!
//! Deliberately absent: anything but decoding, one call and encoding.

use registry_core::{Name, Revision, Timestamp, Version, limits};
use registry_proto::{convert, v1, v1::history_service_server::HistoryService};
use tonic::{Request, Response, Status};

use super::{
    Service,
    invalid::{self, InvalidRequest, field},
};
use crate::{
    app::{
        history::{self, ListCommits},
        page::{self, Page},
    },
    store::{About, EntityEvent, Order, StoredCommit},
};

#[tonic::async_trait]
impl HistoryService for Service {
    async fn list_commits(
        &self,
        request: Request<v1::ListCommitsRequest>,
    ) -> Result<Response<v1::ListCommitsResponse>, Status> {
        let v1::ListCommitsRequest {
            page_size,
            page_token,
            newest_first,
            author,
            after_revision,
            kind,
            name,
            version,
            since,
            until,
        } = request.into_inner();
        let query = ListCommits {
            order: if newest_first { Order::NewestFirst } else { Order::OldestFirst },
            author: invalid::line("author", author, limits::AUTHOR_BYTES)?,
            after: Revision(after_revision),
            about: about(kind, name, version)?,
            since: time("since", since)?,
            until: time("until", until)?,
        };
        let size = page::size(page_size)?;
        let Page { items, next_page_token } =
            history::list_commits(&self.app, query, size, &page_token).await?;
        let write = |stored: &StoredCommit| convert::commit(&stored.commit, &stored.chain, None);
        let commits = items.iter().map(write).collect();
        Ok(Response::new(v1::ListCommitsResponse { commits, next_page_token }))
    }

    async fn get_commit(
        &self,
        request: Request<v1::GetCommitRequest>,
    ) -> Result<Response<v1::GetCommitResponse>, Status> {
        let v1::GetCommitRequest { revision, include_canonical } = request.into_inner();
        let stored = history::get_commit(&self.app, Revision(revision)).await?;
        let canonical = include_canonical.then_some(stored.canonical);
        let commit = convert::commit(&stored.commit, &stored.chain, canonical);
        Ok(Response::new(v1::GetCommitResponse { commit: Some(commit) }))
    }

    async fn get_entity_history(
        &self,
        request: Request<v1::GetEntityHistoryRequest>,
    ) -> Result<Response<v1::GetEntityHistoryResponse>, Status> {
        let v1::GetEntityHistoryRequest { kind, name, version, page_size, page_token } =
            request.into_inner();
        let kind = convert::kind(kind).map_err(InvalidRequest::from)?;
        let name = Name::parse(kind, &name).map_err(|e| field("name", &e))?;
        let version = Some(version).filter(|version| !version.is_empty());
        let version = version.map(|version| Version::parse(&version)).transpose();
        let version = version.map_err(|e| field("version", &e))?;
        let size = page::size(page_size)?;
        let Page { items, next_page_token } =
            history::entity_history(&self.app, (kind, name, version), size, &page_token).await?;
        let events = items.into_iter().map(event).collect();
        Ok(Response::new(v1::GetEntityHistoryResponse { events, next_page_token }))
    }
}

/// What commits are to change; a name needs its kind, a version its name.
fn about(kind: i32, name: String, version: String) -> Result<Option<About>, InvalidRequest> {
    let Some(kind) = convert::filter_kind(kind)? else {
        let alone = [("name", &name), ("version", &version)];
        let alone = alone.into_iter().find(|(_, text)| !text.is_empty());
        return alone.map_or(Ok(None), |(what, _)| Err(field(what, &"the kind is missing")));
    };
    let parse = |name: String| Name::parse(kind, &name).map_err(|e| field("name", &e));
    let name = Some(name).filter(|name| !name.is_empty()).map(parse).transpose()?;
    let parse = |version: String| Version::parse(&version).map_err(|e| field("version", &e));
    let version = Some(version).filter(|v| !v.is_empty()).map(parse).transpose()?;
    if name.is_none() && version.is_some() {
        return Err(field("version", &"the name is missing"));
    }
    Ok(Some(About { kind, name, version }))
}

fn time(
    name: &'static str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>, InvalidRequest> {
    time.map(convert::read_timestamp).transpose().map_err(|e| field(name, &e))
}

fn event(event: EntityEvent) -> v1::EntityEvent {
    let EntityEvent { revision, ordinal: _, key, action, author, committed_at, message } = event;
    v1::EntityEvent {
        change: Some((&registry_core::Change { key, action }).into()),
        revision: revision.0,
        author,
        committed_at: Some(convert::timestamp(committed_at)),
        message,
    }
}
