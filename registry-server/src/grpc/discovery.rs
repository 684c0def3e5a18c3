//! `DiscoveryService`: search.

use std::mem::take;

use registry_core::{Kind, limits};
use registry_proto::{convert, v1, v1::discovery_service_server::DiscoveryService};
use registry_search::{
    Field, Highlight, Hit, Index, Query, Target, Total, Versions,
    limits::{SEARCH_BYTES, SEARCH_FILTERS},
};
use tonic::{Request, Response, Status};

use super::{
    Service,
    invalid::{self, FILTER_BYTES, InvalidRequest, Selected, field},
};
use crate::app::{
    page,
    search::{Options, Searched},
};

#[tonic::async_trait]
impl DiscoveryService for Service {
    async fn search_entities(
        &self,
        request: Request<v1::SearchEntitiesRequest>,
    ) -> Result<Response<v1::SearchEntitiesResponse>, Status> {
        let mut request = request.into_inner();
        self.reach(take(&mut request.min_revision)).await?;
        let page = page_request!("SearchEntities", request, page::search_size);
        let at = convert::point_in_time(request.at.take()).map_err(InvalidRequest::from)?;
        let with_documents = request.include_document;
        let query = read(request)?;
        let options = Options { at, page, with_documents };
        let Searched { hits, total, next_page_token, index } =
            self.app.search.search(&self.app.catalogs, query, options).await?;
        let (total, total_count_is_lower_bound) = match total {
            Total::Exactly(count) => (count, false),
            Total::AtLeast(count) => (count, true),
        };
        Ok(Response::new(v1::SearchEntitiesResponse {
            results: hits.into_iter().map(|hit| write(&index, hit, with_documents)).collect(),
            next_page_token,
            revision: index.revision().0,
            total_count: total as u64,
            total_count_is_lower_bound,
        }))
    }
}

fn read(request: v1::SearchEntitiesRequest) -> Result<Query, InvalidRequest> {
    let v1::SearchEntitiesRequest {
        query,
        kinds,
        owner,
        tags,
        lifecycle_states,
        provides,
        depends_on,
        used_by,
        all_versions,
        page_size: _,
        page_token: _,
        include_document: _,
        at: _,
        min_revision: _,
    } = request;
    let kinds = invalid::list("kinds", kinds, SEARCH_FILTERS)?;
    let tags = invalid::list("tags", tags, SEARCH_FILTERS)?;
    let states = invalid::list("lifecycle_states", lifecycle_states, SEARCH_FILTERS)?;
    let owner = invalid::line("owner", owner, limits::AUTHOR_BYTES)?;
    let tags = tags.into_iter().map(|tag| invalid::line("tags", tag, FILTER_BYTES));
    let kinds: Result<Vec<Kind>, _> = kinds.into_iter().map(convert::kind).collect();
    Ok(Query {
        text: invalid::text("query", query, SEARCH_BYTES)?,
        kinds: kinds.map_err(|e| field("kinds", &e))?,
        owner: Some(owner).filter(|owner| !owner.is_empty()),
        tags: tags.collect::<Result<_, _>>()?,
        lifecycle: convert::filter_states(&states)?,
        provides: provided_tool(provides)?,
        depends_on: target("depends_on", depends_on)?,
        used_by: target("used_by", used_by)?,
        versions: if all_versions { Versions::All } else { Versions::Newest },
    })
}

/// Reads the selector of a tool, whose kind can be omitted.
fn provided_tool(selector: Option<v1::EntitySelector>) -> Result<Option<Target>, InvalidRequest> {
    let selector = selector.map(|selector| match convert::filter_kind(selector.kind) {
        Ok(None) => v1::EntitySelector { kind: v1::EntityKind::Tool.into(), ..selector },
        _ => selector,
    });
    target("provides", selector)
}

fn target(
    field: &'static str,
    selector: Option<v1::EntitySelector>,
) -> Result<Option<Target>, InvalidRequest> {
    let Some(selector) = selector else { return Ok(None) };
    let Selected { kind, name, version } = invalid::named_selector(field, selector)?;
    Ok(Some(Target { kind, name, version }))
}

fn write(index: &Index, hit: Hit, with_documents: bool) -> v1::SearchResult {
    let Hit { record, score, highlights, place: _ } = hit;
    let document = with_documents.then(|| record.document.bytes().clone());
    let record = v1::EntityRecord { document, ..convert::record_of(index.catalog(), &record) };
    let highlights = highlights.into_iter().map(write_highlight).collect();
    v1::SearchResult { record: Some(record), score, highlights }
}

fn write_highlight(Highlight { field, text, ranges }: Highlight) -> v1::SearchHighlight {
    // A snippet is short.
    let bytes = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let ranges = ranges
        .into_iter()
        .map(|range| v1::TextRange { start: bytes(range.start), end: bytes(range.end) })
        .collect();
    let field = match field {
        Field::Name => v1::SearchField::Name,
        Field::Title => v1::SearchField::Title,
        Field::Tag => v1::SearchField::Tag,
        Field::Skill => v1::SearchField::Skill,
        Field::Description => v1::SearchField::Description,
        Field::Property => v1::SearchField::Property,
        Field::Detail => v1::SearchField::Detail,
        Field::Related => v1::SearchField::Related,
    };
    v1::SearchHighlight { field: field.into(), text, ranges }
}
