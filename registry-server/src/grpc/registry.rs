//! `RegistryService`: change and read the present.

use std::sync::Arc;

use registry_core::{
    Catalog, Diagnostic, Key, Record, Revision, SettingChange, limits, rules::Proposed,
    visible::has_invisible_characters,
};
use registry_proto::{convert, v1, v1::registry_service_server::RegistryService};
use tonic::{Request, Response, Status};

use super::{
    Service, access, deadline, findings,
    invalid::{self, FILTER_BYTES, InvalidRequest},
    status,
};
use crate::{
    access::Principal,
    app::{
        apply::Mode,
        list::{self, ListQuery},
        page, settings,
    },
    metrics,
    registrar::{Applied, Submission},
};

/// A batch of more changes is worked on beside the runtime.
const BIG: usize = 8;

#[tonic::async_trait]
impl RegistryService for Service {
    async fn apply(
        &self,
        request: Request<v1::ApplyRequest>,
    ) -> Result<Response<v1::ApplyResponse>, Status> {
        let principal = access::principal(&request)?;
        if !request.get_ref().dry_run {
            deadline::begin_write(&request);
        }
        let request = request.into_inner();
        let mode = if request.dry_run { Mode::DryRun } else { Mode::Commit };
        let submission = match submission(&principal, request).await? {
            Ok(submission) => submission,
            Err(found) if mode == Mode::DryRun => {
                let revision = self.app.catalog().revision().0;
                let diagnostics = findings::for_answer(convert::diagnostics(&found));
                let answer = v1::ApplyResponse { revision, diagnostics, ..Default::default() };
                return Ok(Response::new(answer));
            }
            Err(found) => {
                metrics::rejected(&found);
                return Err(status::refused(&found));
            }
        };
        let Applied { revision, committed, batch, plan } =
            self.app.writes.apply(submission, mode).await?;
        let answer = v1::ApplyResponse {
            revision: revision.0,
            committed,
            plan: convert::plan(&batch, &plan),
            diagnostics: findings::for_answer(convert::diagnostics(&plan.diagnostics)),
            settings: plan.settings.iter().map(Into::into).collect(),
        };
        if batch.len() > BIG {
            // Freeing so many parsed documents takes milliseconds; nobody need wait for it.
            tokio::task::spawn_blocking(move || drop(batch));
        }
        Ok(Response::new(answer))
    }

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::GetResponse>, Status> {
        let v1::GetRequest { key, include_document, at } = request.into_inner();
        let key = key.ok_or(InvalidRequest::Missing("key"))?;
        let key = Key::try_from(key).map_err(InvalidRequest::from)?;
        let at = convert::at(at).map_err(InvalidRequest::from)?;
        let catalog = self.app.catalogs.at(at).await?;
        let record = catalog.find(&key).ok_or_else(|| status::not_found(&key))?;
        let record = encode(&catalog, record, include_document);
        Ok(Response::new(v1::GetResponse { record: Some(record), revision: catalog.revision().0 }))
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        let v1::ListRequest {
            kind,
            name,
            name_prefix,
            lifecycle,
            owner,
            page_size,
            page_token,
            include_document,
            at,
        } = request.into_inner();
        let lifecycle = invalid::list("lifecycle", lifecycle, 16)?;
        let query = ListQuery {
            kind: convert::filter_kind(kind).map_err(InvalidRequest::from)?,
            name: invalid::line("name", name, FILTER_BYTES)?,
            name_prefix: invalid::line("name_prefix", name_prefix, FILTER_BYTES)?,
            lifecycle: convert::filter_states(&lifecycle).map_err(InvalidRequest::from)?,
            owner: invalid::line("owner", owner, limits::AUTHOR_BYTES)?,
            with_documents: include_document,
            at: convert::at(at).map_err(InvalidRequest::from)?,
        };
        let size = page::size(page_size)?;
        let listed = list::list(&self.app.catalogs, query, size, &page_token).await?;
        let encode = |record: &Arc<Record>| encode(&listed.catalog, record, include_document);
        Ok(Response::new(v1::ListResponse {
            records: listed.records.iter().map(encode).collect(),
            next_page_token: listed.next_page_token,
            revision: listed.catalog.revision().0,
        }))
    }

    async fn list_settings(
        &self,
        request: Request<v1::ListSettingsRequest>,
    ) -> Result<Response<v1::ListSettingsResponse>, Status> {
        let v1::ListSettingsRequest { page_size, page_token, at } = request.into_inner();
        let at = convert::at(at).map_err(InvalidRequest::from)?;
        let size = page::size(page_size)?;
        let listed = settings::list(&self.app.catalogs, at, size, &page_token).await?;
        let write = |(on, set): &(_, _)| convert::setting_state(on, set);
        Ok(Response::new(v1::ListSettingsResponse {
            settings: listed.settings.iter().map(write).collect(),
            next_page_token: listed.next_page_token,
            revision: listed.catalog.revision().0,
        }))
    }
}

/// Whoever is authenticated writes in its own name; at an open server, in any.
fn read_author(principal: &Principal, author: String) -> Result<String, InvalidRequest> {
    if author.is_empty() || author == *principal.name {
        return Ok(principal.name.to_string());
    }
    let author = invalid::line("author", author, limits::AUTHOR_BYTES)?;
    if principal.is_authenticated() {
        let problem =
            format!("`{author}` is not who is calling, `{}`; leave it out", principal.name);
        return Err(InvalidRequest::Field { field: "author", problem });
    }
    // Whoever registers a free name owns it, and an owner can be seen as it is.
    if has_invisible_characters(&author) {
        let problem = "it has characters that cannot be seen, or spaces around it".to_owned();
        return Err(InvalidRequest::Field { field: "author", problem });
    }
    Ok(author)
}

fn read_settings(settings: Vec<v1::SettingChange>) -> Result<Vec<SettingChange>, InvalidRequest> {
    let settings = invalid::list("settings", settings, limits::BATCH_SETTINGS)?;
    settings.into_iter().map(|change| Ok(SettingChange::try_from(change)?)).collect()
}

/// Reads what somebody wants to apply; a batch that cannot be read gives its findings.
async fn submission(
    principal: &Principal,
    request: v1::ApplyRequest,
) -> Result<Result<Submission, Vec<Diagnostic>>, Status> {
    let v1::ApplyRequest {
        changes,
        message,
        author,
        request_id,
        base_revision,
        dry_run: _,
        settings,
    } = request;
    let changes = invalid::list("changes", changes, limits::BATCH_CHANGES)?;
    let message = invalid::text("message", message, limits::MESSAGE_BYTES)?;
    let author = read_author(principal, author)?;
    let request_id = invalid::request_id(request_id)?;
    let base_revision = base_revision.map(Revision);
    let settings = read_settings(settings)?;
    Ok(decode(changes).await?.map(|batch| Submission {
        batch,
        settings,
        author,
        origin: principal.origin(),
        address: principal.address_text(),
        claimant: principal.claimant(),
        message,
        request_id,
        base_revision,
    }))
}

/// Reads a batch; a big one beside the runtime, because it takes a while.
async fn decode(
    changes: Vec<v1::Change>,
) -> Result<Result<Vec<Proposed>, Vec<Diagnostic>>, Status> {
    if changes.len() <= BIG {
        return Ok(convert::batch(changes));
    }
    let decoding = tokio::task::spawn_blocking(move || convert::batch(changes));
    decoding.await.map_err(|panic| status::internal(&panic))
}

/// Writes a record, with its document or without.
fn encode(catalog: &Catalog, record: &Record, include_document: bool) -> v1::EntityRecord {
    let document = include_document.then(|| record.document.bytes().clone());
    v1::EntityRecord { document, ..convert::record_of(catalog, record) }
}
