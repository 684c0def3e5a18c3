//! Offset pagination, shared by every tool that lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool_error::ToolError;

const MAX_LIMIT: u32 = 100;

/// A part of a list.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub struct Window {
    /// Maximum number of items to return.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: u32,
    /// Number of items to skip.
    #[serde(default)]
    pub offset: u32,
}

/// Information about the whole list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Total number of matches on all pages.
    pub total_count: usize,
    /// Whether another page follows.
    pub has_more: bool,
}

impl Window {
    /// The part of `items` in the window.
    pub fn cut<T>(self, items: impl IntoIterator<Item = T>) -> Result<(Vec<T>, Totals), ToolError> {
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            return Err(ToolError::invalid(format!(
                "limit is {}, expected 1 to {MAX_LIMIT}",
                self.limit
            )));
        }
        let (limit, offset) = (self.limit as usize, self.offset as usize);
        let mut total_count = 0;
        let mut page = Vec::new();
        for item in items {
            if total_count >= offset && page.len() < limit {
                page.push(item);
            }
            total_count += 1;
        }
        Ok((page, Totals { total_count, has_more: total_count > offset.saturating_add(limit) }))
    }
}

impl Default for Window {
    fn default() -> Self {
        Self { limit: default_limit(), offset: 0 }
    }
}

const fn default_limit() -> u32 {
    10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_returns_slice_and_remaining_count() {
        let (page, totals) = Window { limit: 2, offset: 1 }.cut(0..5).unwrap();
        assert_eq!(page, [1, 2]);
        assert_eq!(totals, Totals { total_count: 5, has_more: true });
    }

    #[test]
    fn last_page_has_no_next_offset() {
        let (page, totals) = Window { limit: 2, offset: 3 }.cut(0..5).unwrap();
        assert_eq!((page.as_slice(), totals.has_more), ([3, 4].as_slice(), false));
        let (page, totals) = Window { limit: 2, offset: 9 }.cut(0..5).unwrap();
        assert_eq!((page.len(), totals.has_more), (0, false));
    }

    #[test]
    fn limit_out_of_range_is_rejected() {
        assert!(Window { limit: 0, offset: 0 }.cut(0..1).is_err());
        assert!(Window { limit: 101, offset: 0 }.cut(0..1).is_err());
    }
}
