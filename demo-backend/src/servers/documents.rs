//! `document-service`: documents that can be created, read, listed and searched.

pub mod model;
pub mod query;
mod seed;

use std::sync::Mutex;

use rmcp::handler::server::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::{tool, tool_router};

use self::model::{
    CreateDocument, Document, DocumentId, DocumentList, DocumentSummary, chunk_count,
};
use self::query::SearchDocuments;
use crate::clock::Clock;
use crate::hosted_server::Domain;
use crate::page::Window;
use crate::records::{Records, lock};
use crate::search::SearchResults;
use crate::tool_error::ToolError;

/// The document server.
#[derive(Debug)]
pub struct Documents {
    clock: Clock,
    documents: Mutex<Records<Document>>,
}

impl Documents {
    /// A server with the seeded documents.
    pub fn new(clock: Clock) -> Self {
        Self { clock, documents: Mutex::new(seed::documents()) }
    }
}

impl Domain for Documents {
    const NAME: &'static str = "document-service";
    const VERSION: &'static str = "1.3.0";
    const PATH: &'static str = "/documents/mcp";
    const INSTRUCTIONS: &'static str =
        "Store and find documents. Search before you create, to avoid duplicates.";

    fn tools() -> ToolRouter<Self> {
        Self::tool_router()
    }
}

#[tool_router]
impl Documents {
    /// Find documents by relevance to a query; scores go from 0 to 1, best first.
    #[tool(annotations(
        title = "Search documents",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn search_documents(
        &self,
        Parameters(request): Parameters<SearchDocuments>,
    ) -> Result<Json<SearchResults>, ToolError> {
        request.filters.check()?;
        let documents = lock(&self.documents);
        let candidates = documents
            .iter()
            .filter(|document| request.filters.admits(document))
            .map(Document::candidate)
            .collect();
        request.search().run(candidates).map(Json)
    }

    /// Store a document, split into overlapping chunks.
    #[tool(annotations(
        title = "Create document",
        read_only_hint = false,
        destructive_hint = false,
        idempotent_hint = false,
        open_world_hint = false
    ))]
    fn create_document(
        &self,
        Parameters(new): Parameters<CreateDocument>,
    ) -> Result<Json<Document>, ToolError> {
        if new.title.trim().is_empty() {
            return Err(ToolError::invalid("title is empty"));
        }
        let chunk_count = chunk_count(&new.content, new.chunk_size, new.chunk_overlap)?;
        let now = self.clock.timestamp();
        let mut documents = lock(&self.documents);
        let document = documents.add(|id| Document {
            id,
            title: new.title,
            content: new.content,
            tags: new.tags,
            author: new.author,
            created_at: now.clone(),
            updated_at: now,
            chunk_count,
        });
        Ok(Json(document.clone()))
    }

    /// Read one document by its id.
    #[tool(annotations(
        title = "Get document",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn get_document(
        &self,
        Parameters(DocumentId { id }): Parameters<DocumentId>,
    ) -> Result<Json<Document>, ToolError> {
        let documents = lock(&self.documents);
        let document = documents.find(&id).ok_or_else(|| ToolError::not_found("document", &id))?;
        Ok(Json(document.clone()))
    }

    /// List the documents without their content, oldest first.
    #[tool(annotations(
        title = "List documents",
        read_only_hint = true,
        destructive_hint = false,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    fn list_documents(
        &self,
        Parameters(window): Parameters<Window>,
    ) -> Result<Json<DocumentList>, ToolError> {
        let documents = lock(&self.documents);
        let (page, totals) = window.cut(documents.iter())?;
        let documents = page.into_iter().map(DocumentSummary::from).collect();
        Ok(Json(DocumentList { documents, totals }))
    }
}

#[cfg(test)]
mod tests;
