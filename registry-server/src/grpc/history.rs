//! `HistoryService`: read the log.

mod encode;

use registry_core::{InvalidSelector, Kind, Name, Revision, Timestamp, Version, limits};
use registry_proto::{convert, v1, v1::history_service_server::HistoryService};
use tonic::{Request, Response, Status};

use super::{
    Service,
    invalid::{self, InvalidRequest, field},
};
use crate::{
    app::{
        blame::{self, Question},
        compare::{self, Comparison},
        copy,
        history::{self, ListCommits},
        page::{self, Page},
    },
    store::{About, Order, StoredCommit, Subject},
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
            at,
            on,
        } = request.into_inner();
        let query = ListCommits {
            order: if newest_first { Order::NewestFirst } else { Order::OldestFirst },
            author: invalid::line("author", author, limits::AUTHOR_BYTES)?,
            after: Revision(after_revision),
            about: subject(about(kind, name, version)?, &on)?,
            since: time("since", since)?,
            until: time("until", until)?,
            at: convert::at(at).map_err(InvalidRequest::from)?,
        };
        let size = page::size(page_size)?;
        let Page { items, next_page_token } =
            history::list_commits(&self.app.catalogs, &self.app.store, query, size, &page_token)
                .await?;
        let write = |stored: &StoredCommit| convert::commit(&stored.commit, &stored.chain, None);
        let commits = items.iter().map(write).collect();
        Ok(Response::new(v1::ListCommitsResponse { commits, next_page_token }))
    }

    async fn get_commit(
        &self,
        request: Request<v1::GetCommitRequest>,
    ) -> Result<Response<v1::GetCommitResponse>, Status> {
        let v1::GetCommitRequest { revision, include_canonical } = request.into_inner();
        let stored =
            history::get_commit(&self.app.catalogs, &self.app.store, Revision(revision)).await?;
        let canonical = include_canonical.then_some(stored.canonical);
        let commit = convert::commit(&stored.commit, &stored.chain, canonical);
        Ok(Response::new(v1::GetCommitResponse { commit: Some(commit) }))
    }

    async fn get_entity_history(
        &self,
        request: Request<v1::GetEntityHistoryRequest>,
    ) -> Result<Response<v1::GetEntityHistoryResponse>, Status> {
        let v1::GetEntityHistoryRequest { kind, name, version, page_size, page_token, at } =
            request.into_inner();
        let (kind, name, version) = whose(kind, &name, &version)?;
        let at = convert::at(at).map_err(InvalidRequest::from)?;
        let size = page::size(page_size)?;
        let entity = history::Entity { kind, name, version, at };
        let Page { items, next_page_token } =
            history::entity_history(&self.app.catalogs, &self.app.store, entity, size, &page_token)
                .await?;
        let events = items.into_iter().map(encode::event).collect();
        Ok(Response::new(v1::GetEntityHistoryResponse { events, next_page_token }))
    }

    async fn compare_revisions(
        &self,
        request: Request<v1::CompareRevisionsRequest>,
    ) -> Result<Response<v1::CompareRevisionsResponse>, Status> {
        let v1::CompareRevisionsRequest { from, to, kind, name, version, page_size, page_token } =
            request.into_inner();
        let from = convert::at(from).map_err(|e| field("from", &e))?;
        let comparison = Comparison {
            from: from.ok_or(InvalidRequest::Missing("from"))?,
            to: convert::at(to).map_err(|e| field("to", &e))?,
            about: about(kind, name, version)?,
        };
        let size = page::size(page_size)?;
        let compared = compare::compare(&self.app.catalogs, comparison, size, &page_token).await?;
        Ok(Response::new(encode::compared(&compared)))
    }

    async fn blame(
        &self,
        request: Request<v1::BlameRequest>,
    ) -> Result<Response<v1::BlameResponse>, Status> {
        let v1::BlameRequest { kind, name, version, at, page_size, page_token } =
            request.into_inner();
        let (kind, name, version) = whose(kind, &name, &version)?;
        let at = convert::at(at).map_err(InvalidRequest::from)?;
        let question = Question { kind, name, version, at };
        let size = page::size(page_size)?;
        let explained =
            blame::blame(&self.app.catalogs, &self.app.store, question, size, &page_token).await?;
        Ok(Response::new(encode::explained(explained)))
    }

    async fn export_catalog(
        &self,
        request: Request<v1::ExportCatalogRequest>,
    ) -> Result<Response<v1::ExportCatalogResponse>, Status> {
        let v1::ExportCatalogRequest { at, page_token } = request.into_inner();
        let at = convert::at(at).map_err(InvalidRequest::from)?;
        let copied = copy::copy(&self.app.catalogs, at, &page_token).await?;
        Ok(Response::new(encode::copied(&copied)))
    }
}

/// A name that must be given, and a version that may be.
fn whose(
    kind: i32,
    name: &str,
    version: &str,
) -> Result<(Kind, Name, Option<Version>), InvalidRequest> {
    let kind = convert::kind(kind)?;
    let name = Name::parse(kind, name).map_err(|e| field("name", &e))?;
    let version = Some(version).filter(|version| !version.is_empty());
    let version = version.map(Version::parse).transpose().map_err(|e| field("version", &e))?;
    Ok((kind, name, version))
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

/// What commits are to be about: entities, or what is set about something else.
fn subject(about: Option<About>, on: &str) -> Result<Option<Subject>, InvalidRequest> {
    match about {
        _ if on.is_empty() => Ok(about.map(Subject::Entity)),
        None => on
            .parse()
            .map(|on| Some(Subject::Set(on)))
            .map_err(|e: InvalidSelector| field("on", &e)),
        Some(_) => Err(field("on", &"it excludes a kind; ask for one of them")),
    }
}

fn time(
    name: &'static str,
    time: Option<prost_types::Timestamp>,
) -> Result<Option<Timestamp>, InvalidRequest> {
    time.map(convert::read_timestamp).transpose().map_err(|e| field(name, &e))
}
