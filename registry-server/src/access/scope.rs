//! What a principal may write, within what its team owns.
//!
//! Deliberately absent: who owns a name; that is in the log.

use std::{fmt, str::FromStr, sync::Arc};

use registry_core::{Selector, setting::InvalidSelector};

/// Most selectors of one principal.
pub const SCOPES: usize = 32;

/// Selectors of names; none: everything. As text: with spaces between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Arc<[Selector]>);

impl Scopes {
    /// The selectors.
    pub fn selectors(&self) -> &Arc<[Selector]> {
        &self.0
    }
}

impl FromStr for Scopes {
    type Err = InvalidSelector;

    fn from_str(text: &str) -> Result<Self, InvalidSelector> {
        text.split_whitespace().map(Selector::from_str).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&all.join(" "))
    }
}
