//! Offset pagination, shared by every tool that lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;

const MAX_LIMIT: u32 = 100;

/// Which part of a list the caller wants.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub struct Window {
    /// How many to return at most.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 100))]
    pub limit: u32,
    /// How many to skip.
    #[serde(default)]
    pub offset: u32,
}

/// What a page says about the whole list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// How many match, on all pages together.
    pub total_count: usize,
    /// Whether there are more after this page.
    pub has_more: bool,
}

impl Window {
    /// The window's part of `items`.
    pub fn cut<T>(self, items: impl IntoIterator<Item = T>) -> Result<(Vec<T>, Totals), Refusal> {
        if !(1..=MAX_LIMIT).contains(&self.limit) {
            return Err(Refusal::invalid(format!(
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
    fn cuts_the_middle_and_says_what_is_left() {
        let (page, totals) = Window { limit: 2, offset: 1 }.cut(0..5).unwrap();
        assert_eq!(page, [1, 2]);
        assert_eq!(totals, Totals { total_count: 5, has_more: true });
    }

    #[test]
    fn the_last_page_has_no_more() {
        let (page, totals) = Window { limit: 2, offset: 3 }.cut(0..5).unwrap();
        assert_eq!((page.as_slice(), totals.has_more), ([3, 4].as_slice(), false));
        let (page, totals) = Window { limit: 2, offset: 9 }.cut(0..5).unwrap();
        assert_eq!((page.len(), totals.has_more), (0, false));
    }

    #[test]
    fn a_limit_outside_of_the_schema_is_refused() {
        assert!(Window { limit: 0, offset: 0 }.cut(0..1).is_err());
        assert!(Window { limit: 101, offset: 0 }.cut(0..1).is_err());
    }
}
