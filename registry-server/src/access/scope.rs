//! What a principal may write, within what its team owns.

use std::{fmt, str::FromStr, sync::Arc};

use registry_core::{Selector, setting::InvalidSelector};

/// Most selectors of one principal.
pub const SCOPES: usize = 32;

/// Selectors of names; none: everything. As text, in the database: with spaces between.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Arc<[Selector]>);

impl Scopes {
    /// The selectors.
    pub fn selectors(&self) -> &Arc<[Selector]> {
        &self.0
    }

    /// What somebody asked for, each selector by itself: an empty one is none, and not everything.
    ///
    /// # Errors
    ///
    /// The first that is not a selector.
    pub fn read(selectors: &[String]) -> Result<Self, InvalidSelector> {
        selectors.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Self)
    }

    /// The first of them that these others do not reach; none: they reach all.
    pub fn beyond(&self, others: &Self) -> Option<Selector> {
        if others.0.is_empty() {
            return None;
        }
        let is_beyond = |one: &&Selector| !others.0.iter().any(|other| other.includes(one));
        let everything = [Selector::Everything];
        let these = if self.0.is_empty() { &everything[..] } else { &self.0[..] };
        these.iter().find(is_beyond).cloned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_one_selector_is_refused_and_does_not_widen() {
        let read = |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
            Scopes::read(&texts).map(|scopes| scopes.to_string())
        };
        for wrong in [&[""][..], &[" "], &["docs/*", ""], &["docs/* server/fetch"], &["\u{a0}"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(read(&["docs/*", "server/fetch"]).as_deref(), Ok("docs/* server/fetch"));
        assert_eq!(read(&[]).as_deref(), Ok(""));
    }

    #[test]
    fn what_is_beyond_other_scopes_is_found() {
        let scopes = |text: &str| text.parse::<Scopes>().unwrap();
        for (these, others, beyond) in [
            ("", "docs/*", Some("*")),
            ("*", "docs/*", Some("*")),
            ("docs/* tool/fetch", "docs/*", Some("tool/fetch")),
            ("doc/*", "docs/*", Some("doc/*")),
            ("docs/*", "server/docs/a", Some("docs/*")),
            ("tool/fetch", "server/fetch", Some("tool/fetch")),
            ("server/docs/a docs/*", "docs/*", None),
            ("com.example.docs.*", "com.example.*", None),
            ("", "*", None),
            ("", "", None),
            ("docs/*", "", None),
        ] {
            let found = scopes(these).beyond(&scopes(others)).map(|found| found.to_string());
            assert_eq!(found.as_deref(), beyond, "{these} within {others}");
        }
    }
}
