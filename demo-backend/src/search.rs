//! Search results with the same form for documents and users, so that a composition can merge them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::page::{Totals, Window};
use crate::relevance::{self, Text};
use crate::tool_error::ToolError;

/// One thing that matched.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SearchHit {
    /// Id of what matched, such as `doc-1` or `user-1`.
    pub id: String,
    /// Title or name.
    pub title: String,
    /// The part of its text that matched.
    pub snippet: String,
    /// Relevance, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub score: f64,
    /// URL of the item.
    #[schemars(extend("format" = "uri"))]
    pub url: String,
    /// Additional metadata.
    pub metadata: Map<String, Value>,
}

/// A page of hits, best first.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SearchResults {
    /// The hits of this page.
    pub results: Vec<SearchHit>,
    /// The size of the whole.
    #[serde(flatten)]
    pub totals: Totals,
}

/// An item to search.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its text.
    pub text: Text<'a>,
    /// URL of the item.
    pub url: String,
    /// Metadata of a hit.
    pub metadata: Map<String, Value>,
}

/// A search.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// The query.
    pub query: &'a str,
    /// Hits with a lower score are excluded, as are those without a matching word.
    pub min_score: f64,
    /// The page of hits to return.
    pub window: Window,
}

impl Search<'_> {
    /// Ranks the candidates and cuts the page.
    pub fn run(self, candidates: Vec<Candidate<'_>>) -> Result<SearchResults, ToolError> {
        let texts: Vec<Text<'_>> = candidates.iter().map(|candidate| candidate.text).collect();
        let scores = relevance::score(self.query, &texts);
        let mut ranked: Vec<(f64, Candidate<'_>)> = scores
            .into_iter()
            .zip(candidates)
            .filter(|(score, _)| *score > 0.0 && *score >= self.min_score)
            .collect();
        // A stable sort keeps equal hits in the order of creation.
        ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let (page, totals) = self.window.cut(ranked)?;
        let results = page.into_iter().map(|(score, found)| self.hit(score, found)).collect();
        Ok(SearchResults { results, totals })
    }

    fn hit(self, score: f64, found: Candidate<'_>) -> SearchHit {
        SearchHit {
            id: found.id.to_owned(),
            title: found.text.title.to_owned(),
            snippet: relevance::snippet(self.query, found.text.body),
            score,
            url: found.url,
            metadata: found.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate<'a>(id: &'a str, title: &'a str, body: &'a str) -> Candidate<'a> {
        let text = Text { title, tags: &[], body };
        Candidate { id, text, url: format!("https://x.example/{id}"), metadata: Map::new() }
    }

    fn search(min_score: f64, window: Window) -> SearchResults {
        let candidates = vec![
            candidate("a", "nothing", "here"),
            candidate("b", "other", "one pump"),
            candidate("c", "Pump", "works"),
        ];
        Search { query: "pump", min_score, window }.run(candidates).unwrap()
    }

    fn ids(results: &SearchResults) -> Vec<&str> {
        results.results.iter().map(|hit| hit.id.as_str()).collect()
    }

    #[test]
    fn results_are_matches_ordered_by_score() {
        let results = search(0.0, Window::default());
        assert_eq!(ids(&results), ["c", "b"]);
        assert_eq!(results.totals.total_count, 2);
    }

    #[test]
    fn minimum_score_and_window_limit_results() {
        assert_eq!(ids(&search(0.9, Window::default())), ["c"]);
        let second = search(0.0, Window { limit: 1, offset: 1 });
        assert_eq!((ids(&second), second.totals.has_more), (vec!["b"], false));
    }
}
