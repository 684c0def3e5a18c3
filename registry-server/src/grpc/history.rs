//! `HistoryService`: read the log.

mod encode;

use std::mem::take;

use prost::Message as _;
use registry_core::{InvalidSelector, Name, Revision, Timestamp, limits};
use registry_proto::{convert, v1, v1::history_service_server::HistoryService};
use tonic::{Request, Response, Status};

use super::{
    Service,
    invalid::{self, InvalidRequest, Selected, field, named_selector, read_version},
};
use crate::{
    app::{
        blame::{self, Question},
        compare::{self, Comparison},
        copy,
        history::{self, ListCommits},
        page::{Page, PageRequest},
    },
    store::{CommitFilter, EntityFilter, Order, StoredCommit},
};

#[tonic::async_trait]
impl HistoryService for Service {
    async fn list_commits(
        &self,
        request: Request<v1::ListCommitsRequest>,
    ) -> Result<Response<v1::ListCommitsResponse>, Status> {
        let mut request = request.into_inner();
        self.reach(take(&mut request.min_revision)).await?;
        let page = page_request!("ListCommits", request);
        let v1::ListCommitsRequest {
            page_size: _,
            page_token: _,
            newest_first,
            author,
            after_revision,
            entity,
            setting_target,
            start_time,
            end_time,
            at,
            min_revision: _,
            include_canonical,
        } = request;
        let query = ListCommits {
            order: if newest_first { Order::NewestFirst } else { Order::OldestFirst },
            author: invalid::line("author", author, limits::AUTHOR_BYTES)?,
            after: Revision(after_revision),
            filter: commit_filter(entity_filter(entity)?, &setting_target)?,
            since: time("start_time", start_time)?,
            end: time("end_time", end_time)?,
            at: convert::point_in_time(at).map_err(InvalidRequest::from)?,
        };
        let Page { items, next_page_token } =
            history::list_commits(&self.app.catalogs, &self.app.store, query, &page).await?;
        let write = |StoredCommit { commit, chain, canonical }: StoredCommit| {
            convert::commit(&commit, &chain, include_canonical.then_some(canonical))
        };
        let commits = items.into_iter().map(write).collect();
        Ok(Response::new(v1::ListCommitsResponse { commits, next_page_token }))
    }

    async fn get_commit(
        &self,
        request: Request<v1::GetCommitRequest>,
    ) -> Result<Response<v1::GetCommitResponse>, Status> {
        let v1::GetCommitRequest { revision, include_canonical, min_revision } =
            request.into_inner();
        self.reach(min_revision).await?;
        let stored =
            history::get_commit(&self.app.catalogs, &self.app.store, Revision(revision)).await?;
        let canonical = include_canonical.then_some(stored.canonical);
        let commit = convert::commit(&stored.commit, &stored.chain, canonical);
        Ok(Response::new(v1::GetCommitResponse { commit: Some(commit) }))
    }

    async fn list_entity_events(
        &self,
        request: Request<v1::ListEntityEventsRequest>,
    ) -> Result<Response<v1::ListEntityEventsResponse>, Status> {
        let mut request = request.into_inner();
        self.reach(take(&mut request.min_revision)).await?;
        let page = page_request!("ListEntityEvents", request);
        let Selected { kind, name, version } = read_entity(request.entity)?;
        let at = convert::point_in_time(request.at).map_err(InvalidRequest::from)?;
        let entity = history::Entity { kind, name, version, at };
        let Page { items, next_page_token } =
            history::entity_history(&self.app.catalogs, &self.app.store, entity, &page).await?;
        let events = items.into_iter().map(encode::event).collect();
        Ok(Response::new(v1::ListEntityEventsResponse { events, next_page_token }))
    }

    async fn compare_revisions(
        &self,
        request: Request<v1::CompareRevisionsRequest>,
    ) -> Result<Response<v1::CompareRevisionsResponse>, Status> {
        let mut request = request.into_inner();
        self.reach(take(&mut request.min_revision)).await?;
        let page = page_request!("CompareRevisions", request);
        let v1::CompareRevisionsRequest { old_point, new_point, entity, .. } = request;
        let from = convert::point_in_time(old_point).map_err(|e| field("old_point", &e))?;
        let comparison = Comparison {
            from: from.ok_or(InvalidRequest::Missing("old_point"))?,
            to: convert::point_in_time(new_point).map_err(|e| field("new_point", &e))?,
            filter: entity_filter(entity)?,
        };
        let compared = compare::compare(&self.app.catalogs, comparison, &page).await?;
        Ok(Response::new(encode::compared(&compared)))
    }

    async fn blame_entity(
        &self,
        request: Request<v1::BlameEntityRequest>,
    ) -> Result<Response<v1::BlameEntityResponse>, Status> {
        let mut request = request.into_inner();
        self.reach(take(&mut request.min_revision)).await?;
        let page = page_request!("BlameEntity", request);
        let Selected { kind, name, version } = read_entity(request.entity)?;
        let at = convert::point_in_time(request.at).map_err(InvalidRequest::from)?;
        let question = Question { kind, name, version, at };
        let explained = blame::blame(&self.app.catalogs, &self.app.store, question, &page).await?;
        Ok(Response::new(encode::explained(explained)))
    }

    async fn export_catalog(
        &self,
        request: Request<v1::ExportCatalogRequest>,
    ) -> Result<Response<v1::ExportCatalogResponse>, Status> {
        let mut request = request.into_inner();
        self.reach(take(&mut request.min_revision)).await?;
        let token = take(&mut request.page_token);
        // Pages have no size but that of a message.
        let page = PageRequest::new(usize::MAX, token, "ExportCatalog", &request.encode_to_vec());
        let at = convert::point_in_time(request.at).map_err(InvalidRequest::from)?;
        let copied = copy::copy(&self.app.catalogs, at, &page).await?;
        Ok(Response::new(encode::copied(&copied)))
    }
}

fn read_entity(selector: Option<v1::EntitySelector>) -> Result<Selected, InvalidRequest> {
    named_selector("entity", selector.ok_or(InvalidRequest::Missing("entity"))?)
}

/// Reads a selector whose name and version can be empty; a version requires a name.
fn entity_filter(
    selector: Option<v1::EntitySelector>,
) -> Result<Option<EntityFilter>, InvalidRequest> {
    let Some(v1::EntitySelector { kind, name, version }) = selector else { return Ok(None) };
    let invalid = |e: &dyn std::fmt::Display| field("entity", &e.to_string());
    let kind = convert::kind(kind).map_err(|e| invalid(&e))?;
    let name = Some(name).filter(|name| !name.is_empty());
    let name = name.map(|name| Name::parse(kind, &name)).transpose().map_err(|e| invalid(&e))?;
    let version = read_version("entity", &version)?;
    if name.is_none() && version.is_some() {
        return Err(field("entity", &"a version requires a name"));
    }
    Ok(Some(EntityFilter { kind, name, version }))
}

/// A filter of commits by entities or by the settings of a target.
fn commit_filter(
    filter: Option<EntityFilter>,
    target: &str,
) -> Result<Option<CommitFilter>, InvalidRequest> {
    match filter {
        _ if target.is_empty() => Ok(filter.map(CommitFilter::Entity)),
        None => target
            .parse()
            .map(|target| Some(CommitFilter::Setting(target)))
            .map_err(|e: InvalidSelector| field("setting_target", &e)),
        Some(_) => Err(field("setting_target", &"it excludes `entity`; set one of them")),
    }
}

fn time(
    name: &'static str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>, InvalidRequest> {
    time.map(convert::read_timestamp).transpose().map_err(|e| field(name, &e))
}
