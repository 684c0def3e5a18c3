//! Scopes: the names that a principal may write, within those of its team.

use std::{fmt, str::FromStr, sync::Arc};

use registry_core::{Selector, setting::InvalidSelector};

/// Maximum selectors of one principal.
pub const MAX_SCOPES: usize = 32;

/// Selectors of names; an empty list allows all names. The database stores them separated by spaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes(Arc<[Selector]>);

impl Scopes {
    /// The selectors.
    pub fn selectors(&self) -> &Arc<[Selector]> {
        &self.0
    }

    /// Parses one selector per item. An empty item is an error, so it cannot widen the scopes.
    ///
    /// # Errors
    ///
    /// Returns the first invalid selector.
    pub fn parse_list(selectors: &[String]) -> Result<Self, InvalidSelector> {
        selectors.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the first selector that `others` do not include; `None` if they include all.
    pub fn first_outside(&self, others: &Self) -> Option<Selector> {
        if others.0.is_empty() {
            return None;
        }
        let is_outside = |one: &&Selector| !others.0.iter().any(|other| other.includes(one));
        let everything = [Selector::Everything];
        let these = if self.0.is_empty() { &everything[..] } else { &self.0[..] };
        these.iter().find(is_outside).cloned()
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
    fn invalid_selector_is_rejected_and_never_widens() {
        let read = |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(|text| (*text).to_owned()).collect();
            Scopes::parse_list(&texts).map(|scopes| scopes.to_string())
        };
        for wrong in [&[""][..], &[" "], &["docs/*", ""], &["docs/* server/fetch"], &["\u{a0}"]] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(read(&["docs/*", "server/fetch"]).as_deref(), Ok("docs/* server/fetch"));
        assert_eq!(read(&[]).as_deref(), Ok(""));
    }

    #[test]
    fn first_outside_finds_the_first_selector_outside() {
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
            let found = scopes(these).first_outside(&scopes(others)).map(|found| found.to_string());
            assert_eq!(found.as_deref(), beyond, "{these} within {others}");
        }
    }
}
