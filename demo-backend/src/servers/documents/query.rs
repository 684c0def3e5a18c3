//! Arguments of the document search, a superset of the registered versions 1.0.0 and 1.1.0 of
//! `search_documents`.

use schemars::JsonSchema;
use serde::Deserialize;
use time::Date;
use time::format_description::well_known::Iso8601;

use super::model::Document;
use crate::page::Window;
use crate::search::Search;
use crate::tool_error::ToolError;

/// A search over the documents.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchDocuments {
    /// The words to look for.
    pub query: String,
    /// The page of hits to return.
    #[serde(flatten)]
    pub window: Window,
    /// Filters for documents.
    #[serde(default)]
    pub filters: Filters,
    /// Leave out hits that score less.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_score: f64,
}

impl SearchDocuments {
    /// The shared form of the search.
    pub fn search(&self) -> Search<'_> {
        Search { query: &self.query, min_score: self.min_score, window: self.window }
    }
}

/// Conditions that all must hold.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Filters {
    /// When it was created.
    pub date_range: Option<DateRange>,
    /// Match documents with at least one of these tags; empty matches all.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The author.
    pub author: Option<String>,
}

/// Days, both included.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct DateRange {
    /// The first day.
    #[schemars(extend("format" = "date"))]
    pub start: Option<String>,
    /// The last day.
    #[schemars(extend("format" = "date"))]
    pub end: Option<String>,
}

impl Filters {
    /// Rejects invalid dates.
    pub fn check(&self) -> Result<(), ToolError> {
        let range = self.date_range.as_ref();
        let days = range.into_iter().flat_map(|range| [&range.start, &range.end]).flatten();
        for day in days {
            Date::parse(day, &Iso8601::DATE).map_err(|_| {
                ToolError::invalid(format!("dateRange has {day:?}, expected YYYY-MM-DD"))
            })?;
        }
        Ok(())
    }

    /// Whether a document matches the filters.
    pub fn admits(&self, document: &Document) -> bool {
        let tagged = self.tags.is_empty() || self.tags.iter().any(|t| document.tags.contains(t));
        let written = self.author.is_none() || self.author == document.author;
        tagged && written && self.date_range.as_ref().is_none_or(|range| range.admits(document))
    }
}

impl DateRange {
    fn admits(&self, document: &Document) -> bool {
        // Dates in this format are ordered as text.
        let day = document.created_at.split('T').next().unwrap_or_default();
        self.start.as_deref().is_none_or(|start| day >= start)
            && self.end.as_deref().is_none_or(|end| day <= end)
    }
}
