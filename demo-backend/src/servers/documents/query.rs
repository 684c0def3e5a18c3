//! What a caller may ask of the document search. Superset of the registered versions 1.0.0 and
//! 1.1.0 of `search_documents`.

use schemars::JsonSchema;
use serde::Deserialize;
use time::Date;
use time::format_description::well_known::Iso8601;

use super::model::Document;
use crate::page::Window;
use crate::refusal::Refusal;
use crate::search::Search;

/// A search over the documents.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchDocuments {
    /// The words to look for.
    pub query: String,
    /// Which part of the hits to return.
    #[serde(flatten)]
    pub window: Window,
    /// Which documents to consider.
    #[serde(default)]
    pub filters: Filters,
    /// Leave out hits that score less.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_score: f64,
}

impl SearchDocuments {
    /// The same, for the shared search.
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
    /// Tags of which it has at least one; none means any document.
    #[serde(default)]
    pub tags: Vec<String>,
    /// Who wrote it.
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
    /// Refuses days that are none.
    pub fn check(&self) -> Result<(), Refusal> {
        let range = self.date_range.as_ref();
        let days = range.into_iter().flat_map(|range| [&range.start, &range.end]).flatten();
        for day in days {
            Date::parse(day, &Iso8601::DATE).map_err(|_| {
                Refusal::invalid(format!("dateRange has {day:?}, expected YYYY-MM-DD"))
            })?;
        }
        Ok(())
    }

    /// Whether the document may be found.
    pub fn admits(&self, document: &Document) -> bool {
        let tagged = self.tags.is_empty() || self.tags.iter().any(|t| document.tags.contains(t));
        let written = self.author.is_none() || self.author == document.author;
        tagged && written && self.date_range.as_ref().is_none_or(|range| range.admits(document))
    }
}

impl DateRange {
    fn admits(&self, document: &Document) -> bool {
        // Days of this form order as text.
        let day = document.created_at.split('T').next().unwrap_or_default();
        self.start.as_deref().is_none_or(|start| day >= start)
            && self.end.as_deref().is_none_or(|end| day <= end)
    }
}
