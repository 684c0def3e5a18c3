//! `RegistryService`: changes and reads entities and settings.

use std::{collections::HashSet, mem::take, sync::Arc, time::Duration};

use policy::PolicyBreaks;
use registry_core::{
    Catalog, Key, Record, Revision, SettingChange, chain::Position, limits, rules::Proposed,
    visible::has_invisible_characters,
};
use registry_proto::{
    convert::{self, InvalidBatch},
    v1,
    v1::registry_service_server::RegistryService,
};
use tonic::{Request, Response, Status};

use super::{
    Service, access, deadline, findings,
    invalid::{self, FILTER_BYTES, InvalidRequest, field},
    status,
};
use crate::{
    access::Principal,
    app::{
        apply::Mode,
        catalogs::REVISION_WAIT,
        list::{self, ListQuery},
        page, settings,
    },
    metrics,
    registrar::{Applied, Precondition, Submission},
    relay::Relay,
};

/// Larger batches are decoded outside of the async runtime.
const BIG: usize = 8;

/// The maximum number of keys of `BatchGetEntities`.
const BATCH_GET_KEYS: usize = 100;

#[tonic::async_trait]
impl RegistryService for Service {
    async fn apply_changes(
        &self,
        request: Request<v1::ApplyChangesRequest>,
    ) -> Result<Response<v1::ApplyChangesResponse>, Status> {
        let principal = access::principal(&request)?;
        if !request.get_ref().validate_only {
            deadline::begin_write(&request);
        }
        let request = request.into_inner();
        let mode = if request.validate_only { Mode::DryRun } else { Mode::Commit };
        let submission = match submission(&principal, request).await? {
            Ok(submission) => submission,
            Err(invalid) if mode == Mode::DryRun => {
                let revision = self.app.catalog().revision().0;
                let found = convert::diagnostics(&invalid.diagnostics);
                let diagnostics = findings::for_answer(found);
                let answer =
                    v1::ApplyChangesResponse { revision, diagnostics, ..Default::default() };
                return Ok(Response::new(answer));
            }
            Err(invalid) => {
                metrics::rejected(&invalid.diagnostics);
                return Err(status::rejected_batch(&invalid));
            }
        };
        let Applied { revision, committed, batch, plan } =
            self.app.writes.apply(submission, mode).await?;
        let answer = v1::ApplyChangesResponse {
            revision: revision.0,
            committed,
            plan: convert::plan(&batch, &plan),
            diagnostics: findings::for_answer(convert::diagnostics(&plan.diagnostics)),
            settings: plan.settings.iter().map(Into::into).collect(),
        };
        if batch.len() > BIG {
            // Documents that were not committed are still parsed, and freeing many takes milliseconds.
            tokio::task::spawn_blocking(move || drop(batch));
        }
        Ok(Response::new(answer))
    }

    async fn get_entity(
        &self,
        request: Request<v1::GetEntityRequest>,
    ) -> Result<Response<v1::GetEntityResponse>, Status> {
        let v1::GetEntityRequest { key, include_document, at, min_revision } = request.into_inner();
        let key = key.ok_or(InvalidRequest::Missing("key"))?;
        let key = Key::try_from(key).map_err(InvalidRequest::from)?;
        let at = convert::point_in_time(at).map_err(InvalidRequest::from)?;
        self.reach(min_revision).await?;
        let catalog = self.app.catalogs.at(at).await?;
        let record = catalog.find(&key).ok_or_else(|| status::not_found(&key))?;
        let record = encode(&catalog, record, include_document);
        Ok(Response::new(v1::GetEntityResponse {
            record: Some(record),
            revision: catalog.revision().0,
        }))
    }

    async fn batch_get_entities(
        &self,
        request: Request<v1::BatchGetEntitiesRequest>,
    ) -> Result<Response<v1::BatchGetEntitiesResponse>, Status> {
        let v1::BatchGetEntitiesRequest {
            keys,
            include_document,
            return_partial_success,
            at,
            min_revision,
        } = request.into_inner();
        let keys = read_keys(keys)?;
        let at = convert::point_in_time(at).map_err(InvalidRequest::from)?;
        self.reach(min_revision).await?;
        let catalog = self.app.catalogs.at(at).await?;
        let (mut records, mut missing) = (Vec::with_capacity(keys.len()), Vec::new());
        for key in &keys {
            match catalog.find(key) {
                Some(record) => records.push(encode(&catalog, record, include_document)),
                None if return_partial_success => missing.push(key.into()),
                None => return Err(status::not_found(key)),
            }
        }
        let revision = catalog.revision().0;
        Ok(Response::new(v1::BatchGetEntitiesResponse { records, missing, revision }))
    }

    async fn list_entities(
        &self,
        request: Request<v1::ListEntitiesRequest>,
    ) -> Result<Response<v1::ListEntitiesResponse>, Status> {
        let mut request = request.into_inner();
        self.reach(take(&mut request.min_revision)).await?;
        let page = page_request!("ListEntities", request);
        let v1::ListEntitiesRequest {
            kind,
            name,
            name_prefix,
            lifecycle_states,
            owner,
            page_size: _,
            page_token: _,
            include_document,
            at,
            min_revision: _,
        } = request;
        let states = invalid::list("lifecycle_states", lifecycle_states, 16)?;
        let query = ListQuery {
            kind: convert::filter_kind(kind).map_err(InvalidRequest::from)?,
            name: invalid::line("name", name, FILTER_BYTES)?,
            name_prefix: invalid::line("name_prefix", name_prefix, FILTER_BYTES)?,
            lifecycle: convert::filter_states(&states).map_err(InvalidRequest::from)?,
            owner: invalid::line("owner", owner, limits::AUTHOR_BYTES)?,
            with_documents: include_document,
            at: convert::point_in_time(at).map_err(InvalidRequest::from)?,
        };
        let listed = list::list(&self.app.catalogs, query, page).await?;
        let encode = |record: &Arc<Record>| encode(&listed.catalog, record, include_document);
        Ok(Response::new(v1::ListEntitiesResponse {
            records: listed.records.iter().map(encode).collect(),
            next_page_token: listed.next_page_token,
            revision: listed.catalog.revision().0,
        }))
    }

    async fn list_settings(
        &self,
        request: Request<v1::ListSettingsRequest>,
    ) -> Result<Response<v1::ListSettingsResponse>, Status> {
        let mut request = request.into_inner();
        self.reach(take(&mut request.min_revision)).await?;
        let page = page_request!("ListSettings", request);
        let at = convert::point_in_time(request.at).map_err(InvalidRequest::from)?;
        let listed = settings::list(&self.app.catalogs, at, &page).await?;
        let write = |(target, set): &(_, _)| convert::setting_state(target, set);
        Ok(Response::new(v1::ListSettingsResponse {
            settings: listed.settings.iter().map(write).collect(),
            next_page_token: listed.next_page_token,
            revision: listed.catalog.revision().0,
        }))
    }

    async fn get_registry_info(
        &self,
        request: Request<v1::GetRegistryInfoRequest>,
    ) -> Result<Response<v1::GetRegistryInfoResponse>, Status> {
        self.reach(request.into_inner().min_revision).await?;
        let app = &self.app;
        let head = Position::of_catalog(&app.catalog());
        let features = [
            (v1::RegistryFeature::Writes, app.relay.is_none()),
            (v1::RegistryFeature::JsonDocuments, true),
            (v1::RegistryFeature::MinRevision, true),
            (v1::RegistryFeature::Authentication, !app.access.is_open),
        ];
        let features = features.into_iter().filter(|(_, is_on)| *is_on);
        Ok(Response::new(v1::GetRegistryInfoResponse {
            head: Some((&head).into()),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            limits: Some(registry_limits(self.message_bytes)),
            features: features.map(|(feature, _)| feature.into()).collect(),
            relay: app.relay.as_ref().map(relay_info),
        }))
    }
}

fn registry_limits(message_bytes: usize) -> v1::RegistryLimits {
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let bytes = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    v1::RegistryLimits {
        max_changes: count(limits::BATCH_CHANGES),
        max_settings: count(limits::BATCH_SETTINGS),
        max_batch_get_keys: count(BATCH_GET_KEYS),
        max_page_size: count(page::LARGEST_SIZE),
        max_search_page_size: count(page::LARGEST_SEARCH_SIZE),
        max_message_bytes: bytes(message_bytes),
        max_document_bytes: bytes(limits::DOCUMENT_BYTES),
        max_revision_wait: Some(convert::duration(REVISION_WAIT)),
    }
}

fn relay_info(relay: &Relay) -> v1::RelayInfo {
    let age = Some(relay.age()).filter(|age| *age < Duration::MAX);
    v1::RelayInfo { upstream: relay.upstream(), staleness: age.map(convert::duration) }
}

/// Authenticated callers write in their own name. Without authentication, the request names the author.
fn read_author(principal: &Principal, author: String) -> Result<String, InvalidRequest> {
    if author.is_empty() || author == *principal.name {
        return Ok(principal.name.to_string());
    }
    let author = invalid::line("author", author, limits::AUTHOR_BYTES)?;
    if principal.is_authenticated() {
        let problem = format!(
            "`{author}` is not the authenticated caller `{}`; omit the author",
            principal.name
        );
        return Err(InvalidRequest::Field { field: "author", problem });
    }
    // The author becomes the owner of new names, and owners must be legible.
    if has_invisible_characters(&author) {
        let problem = "invisible characters, or spaces at an end".to_owned();
        return Err(InvalidRequest::Field { field: "author", problem });
    }
    Ok(author)
}

fn read_settings(settings: Vec<v1::SettingChange>) -> Result<Vec<SettingChange>, InvalidRequest> {
    let settings = invalid::list("settings", settings, limits::BATCH_SETTINGS)?;
    let read = |(i, change)| {
        SettingChange::try_from(change).map_err(|e| field("settings", &format!("[{i}]: {e}")))
    };
    settings.into_iter().enumerate().map(read).collect()
}

/// Reads a batch. The inner error has the findings of changes that cannot be read.
async fn submission(
    principal: &Principal,
    request: v1::ApplyChangesRequest,
) -> Result<Result<Submission, InvalidBatch>, Status> {
    let v1::ApplyChangesRequest {
        changes,
        settings,
        message,
        author,
        request_id,
        base_revision,
        validate_only: _,
        allow_policy_break,
    } = request;
    let changes = invalid::list("changes", changes, limits::BATCH_CHANGES)?;
    let preconditions = read_preconditions(&changes)?;
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
        permissions: principal.permissions(),
        message,
        request_id,
        base_revision,
        policy_breaks: if allow_policy_break { PolicyBreaks::Allow } else { PolicyBreaks::Reject },
        preconditions,
    }))
}

fn read_preconditions(changes: &[v1::EntityChange]) -> Result<Vec<Precondition>, InvalidRequest> {
    if changes.iter().all(|change| change.if_digest.is_none()) {
        return Ok(Vec::new());
    }
    let read = |(i, change)| {
        convert::precondition(change).map_err(|e| field("changes", &format!("[{i}]: {e}")))
    };
    changes.iter().enumerate().map(read).collect()
}

fn read_keys(keys: Vec<v1::EntityKey>) -> Result<Vec<Key>, InvalidRequest> {
    if keys.is_empty() {
        return Err(InvalidRequest::Missing("keys"));
    }
    let keys = invalid::list("keys", keys, BATCH_GET_KEYS)?;
    let keys = keys.into_iter().map(Key::try_from).collect::<Result<Vec<_>, _>>();
    let keys = keys.map_err(|e| field("keys", &e))?;
    let mut known = HashSet::new();
    match keys.iter().find(|key| !known.insert(*key)) {
        Some(twice) => Err(field("keys", &format!("{twice} is listed twice"))),
        None => Ok(keys),
    }
}

/// Decodes changes. A large batch is decoded outside of the async runtime.
async fn decode(
    changes: Vec<v1::EntityChange>,
) -> Result<Result<Vec<Proposed>, InvalidBatch>, Status> {
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
