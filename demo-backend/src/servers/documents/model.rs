//! Documents, and the arguments and results of their tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::page::Totals;
use crate::relevance::Text;
use crate::search::Candidate;
use crate::tool_error::ToolError;

/// A stored document.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    /// Its id, such as `doc-1`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its whole text.
    pub content: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// The author.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// When it was created.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// When it was last changed.
    #[schemars(extend("format" = "date-time"))]
    pub updated_at: String,
    /// Into how many chunks the content was split.
    pub chunk_count: usize,
}

impl Document {
    /// The searchable text.
    pub fn candidate(&self) -> Candidate<'_> {
        let mut metadata = Map::new();
        metadata.insert("kind".into(), json!("document"));
        metadata.insert("tags".into(), json!(self.tags));
        metadata.insert("createdAt".into(), json!(self.created_at));
        if let Some(author) = &self.author {
            metadata.insert("author".into(), json!(author));
        }
        Candidate {
            id: &self.id,
            text: Text { title: &self.title, tags: &self.tags, body: &self.content },
            url: format!("https://documents.example/{}", self.id),
            metadata,
        }
    }
}

/// A document to create.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateDocument {
    /// Its title.
    #[schemars(length(min = 1))]
    pub title: String,
    /// Its whole text.
    pub content: String,
    /// Its tags.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The author.
    pub author: Option<String>,
    /// Characters in a chunk.
    #[serde(default = "default_chunk_size")]
    #[schemars(range(min = 1))]
    pub chunk_size: usize,
    /// Characters that neighbouring chunks share; less than chunkSize.
    #[serde(default = "default_chunk_overlap")]
    pub chunk_overlap: usize,
}

/// One document.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct DocumentId {
    /// The document's id, such as `doc-1`.
    pub id: String,
}

/// A document without its content.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentSummary {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// When it was created.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
}

impl From<&Document> for DocumentSummary {
    fn from(document: &Document) -> Self {
        Self {
            id: document.id.clone(),
            title: document.title.clone(),
            tags: document.tags.clone(),
            created_at: document.created_at.clone(),
        }
    }
}

/// A page of documents.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DocumentList {
    /// The documents of this page.
    pub documents: Vec<DocumentSummary>,
    /// The size of the whole.
    #[serde(flatten)]
    pub totals: Totals,
}

/// How many chunks of `size` characters, each sharing `overlap` with the next, hold `content`.
pub fn chunk_count(content: &str, size: usize, overlap: usize) -> Result<usize, ToolError> {
    let step = size.checked_sub(overlap).filter(|step| *step > 0).ok_or_else(|| {
        ToolError::invalid(format!("chunkOverlap {overlap} must be less than chunkSize {size}"))
    })?;
    let length = content.chars().count();
    Ok(1 + length.saturating_sub(size).div_ceil(step))
}

const fn default_chunk_size() -> usize {
    512
}

const fn default_chunk_overlap() -> usize {
    50
}
