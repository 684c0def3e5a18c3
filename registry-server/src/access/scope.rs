//! What a principal may write, within what its team owns.
//!
//! Deliberately absent: who owns a name; that is in the log.

use std::{fmt, str::FromStr, sync::Arc};

/// Most selectors of one principal.
pub const SCOPES: usize = 32;

/// Selectors of names; none: everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Arc<[Arc<str>]>);

impl Scopes {
    /// The selectors.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|s| &**s)
    }
}

impl FromStr for Scopes {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.split_whitespace().map(Arc::from).collect()))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.iter().collect();
        f.write_str(&all.join(" "))
    }
}
