//! `DiscoveryService`: search.

use registry_core::{Kind, limits};
use registry_proto::{convert, v1, v1::discovery_service_server::DiscoveryService};
use registry_search::{
    Highlight, Hit, Index, Query, Target, Total, Versions,
    limits::{SEARCH_BYTES, SEARCH_FILTERS},
};
use tonic::{Request, Response, Status};

use super::{
    Service,
    invalid::{self, FILTER_BYTES, InvalidRequest},
};
use crate::app::{
    page,
    search::{PageWanted, Searched},
};

#[tonic::async_trait]
impl DiscoveryService for Service {
    async fn search(
        &self,
        request: Request<v1::SearchRequest>,
    ) -> Result<Response<v1::SearchResponse>, Status> {
        let mut request = request.into_inner();
        let at = convert::at(request.at.take()).map_err(InvalidRequest::from)?;
        let (with_documents, token) = (request.include_document, request.page_token.clone());
        let size = page::search_size(request.page_size)?;
        let query = read(request)?;
        let wanted = PageWanted { at, size, token: &token, with_documents };
        let Searched { hits, total, next_page_token, index } =
            self.app.search.search(&self.app.catalogs, query, wanted).await?;
        let (total, total_is_at_least) = match total {
            Total::Exactly(count) => (count, false),
            Total::AtLeast(count) => (count, true),
        };
        Ok(Response::new(v1::SearchResponse {
            results: hits.into_iter().map(|hit| write(&index, hit, with_documents)).collect(),
            next_page_token,
            revision: index.revision().0,
            total: total as u64,
            total_is_at_least,
        }))
    }
}

fn read(request: v1::SearchRequest) -> Result<Query, InvalidRequest> {
    let v1::SearchRequest {
        query,
        kinds,
        owner,
        tags,
        lifecycle,
        provides,
        depends_on,
        used_by,
        all_versions,
        page_size: _,        // of the page, not of the query
        page_token: _,       // the same
        include_document: _, // the same
        at: _,               // of the index
    } = request;
    let kinds = invalid::list("kinds", kinds, SEARCH_FILTERS)?;
    let tags = invalid::list("tags", tags, SEARCH_FILTERS)?;
    let lifecycle = invalid::list("lifecycle", lifecycle, SEARCH_FILTERS)?;
    let owner = invalid::line("owner", owner, limits::AUTHOR_BYTES)?;
    let tags = tags.into_iter().map(|tag| invalid::line("tags", tag, FILTER_BYTES));
    let kinds: Result<Vec<Kind>, _> = kinds.into_iter().map(convert::kind).collect();
    Ok(Query {
        text: invalid::text("query", query, SEARCH_BYTES)?,
        kinds: kinds?,
        owner: Some(owner).filter(|owner| !owner.is_empty()),
        tags: tags.collect::<Result<_, _>>()?,
        lifecycle: convert::filter_states(&lifecycle)?,
        provides: tool("provides", provides)?,
        depends_on: target("depends_on", depends_on)?,
        used_by: target("used_by", used_by)?,
        versions: if all_versions { Versions::All } else { Versions::Newest },
    })
}

/// Reads a tool by its name, with or without its kind and its version.
fn tool(field: &'static str, text: String) -> Result<Option<Target>, InvalidRequest> {
    let is_bare = !text.is_empty() && !text.contains('/');
    target(field, if is_bare { format!("{}/{text}", Kind::Tool) } else { text })
}

fn target(field: &'static str, text: String) -> Result<Option<Target>, InvalidRequest> {
    if text.is_empty() {
        return Ok(None);
    }
    let text = invalid::line(field, text, 2 * FILTER_BYTES)?;
    let parsed: Result<Target, _> = text.parse();
    parsed.map(Some).map_err(|e| invalid::field(field, &e))
}

fn write(index: &Index, hit: Hit, with_documents: bool) -> v1::SearchResult {
    let Hit { record, score, highlights, place: _ } = hit;
    let document = with_documents.then(|| record.document.bytes().clone());
    let record = v1::EntityRecord { document, ..convert::record_of(index.catalog(), &record) };
    let highlights = highlights.into_iter().map(write_highlight).collect();
    v1::SearchResult { record: Some(record), score, highlights }
}

fn write_highlight(Highlight { field, text, ranges }: Highlight) -> v1::Highlight {
    // A snippet is short.
    let bytes = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
    let ranges = ranges
        .into_iter()
        .map(|range| v1::TextRange { start: bytes(range.start), end: bytes(range.end) })
        .collect();
    v1::Highlight { field: field.as_str().to_owned(), text, ranges }
}
