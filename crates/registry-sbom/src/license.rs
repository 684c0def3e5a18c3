//! Licenses in metadata: an SPDX expression, or a name.

use spdx::{
    AdditionItem, Expression, LicenseItem, ParseMode,
    identifiers::{EXCEPTIONS, LICENSES},
};

use crate::id;

/// The license of an entity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum License {
    /// A valid SPDX license expression of listed licenses and `LicenseRef-…`.
    Expression(String),
    /// Any other text.
    Name(String),
}

/// The rules of SPDX; deprecated licenses (`GPL-2.0`, `GPL-2.0+`) are still listed.
const MODE: ParseMode =
    ParseMode { allow_deprecated: true, allow_postfix_plus_on_gpl: true, ..ParseMode::STRICT };

/// SPDX's value for an unspecified license.
const NOTHING_SAID: &str = "NOASSERTION";

impl License {
    /// Parses a license; `None` if the text means unspecified.
    pub(super) fn read(text: &str) -> Option<Self> {
        let written = rewritten(text);
        if written == NOTHING_SAID {
            return None;
        }
        let is_sound = !written.split([' ', '(', ')']).any(is_contradiction);
        Some(match Expression::parse_mode(&written, MODE) {
            Ok(expression) if is_sound && is_self_contained(&expression) => {
                Self::Expression(written)
            }
            _ => Self::Name(text.to_owned()),
        })
    }

    /// The license in SPDX 2.3, where a name needs an id.
    pub(super) fn spdx2(&self) -> String {
        match self {
            Self::Expression(expression) => expression.clone(),
            Self::Name(name) => format!("LicenseRef-{}", id::short_hash(name)),
        }
    }

    /// Every `LicenseRef-…` with its known text.
    pub(super) fn references(&self) -> Vec<(String, &str)> {
        match self {
            Self::Name(name) => vec![(self.spdx2(), name)],
            Self::Expression(expression) => {
                let Ok(parsed) = Expression::parse_mode(expression, MODE) else { return vec![] };
                let reference = |item: &LicenseItem| match item {
                    LicenseItem::Other(other) => Some(format!("LicenseRef-{}", other.lic_ref)),
                    LicenseItem::Spdx { .. } => None,
                };
                let found = parsed.requirements().filter_map(|r| reference(&r.req.license));
                found.map(|id| (id, UNKNOWN_TEXT)).collect()
            }
        }
    }
}

/// The expression with identifiers spelled as in the list, ignoring case (SPDX 2.3, annex D),
/// operators in upper case, and normalized spaces.
fn rewritten(text: &str) -> String {
    let spaced = text.replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = spaced.split_whitespace().map(respelled).collect();
    words.join(" ").replace("( ", "(").replace(" )", ")")
}

fn respelled(word: &str) -> String {
    let (id, plus) = word.split_at(word.trim_end_matches('+').len());
    if matches!(id, "and" | "or" | "with") {
        return word.to_ascii_uppercase();
    }
    let licenses = LICENSES.iter().map(|license| license.name);
    let listed = licenses.chain(EXCEPTIONS.iter().map(|exception| exception.name));
    let spelling = listed.into_iter().find(|name| name.eq_ignore_ascii_case(id)).unwrap_or(id);
    format!("{spelling}{plus}")
}

/// The placeholder for the text of a license that is known only by name.
pub(super) const UNKNOWN_TEXT: &str = "The registry does not hold the text of this licence.";

/// Whether the expression is contradictory, like `GPL-2.0-only+`.
fn is_contradiction(word: &str) -> bool {
    word.ends_with("-only+")
}

/// Whether the expression refers to no other document, names its own references, specifies each
/// part, and has only listed exceptions. SPDX 2.3 allows no others.
fn is_self_contained(expression: &Expression) -> bool {
    expression.requirements().all(|requirement| {
        let license = match &requirement.req.license {
            LicenseItem::Other(other) => other.doc_ref.is_none() && !other.lic_ref.is_empty(),
            LicenseItem::Spdx { id, .. } => id.name != NOTHING_SAID,
        };
        license && !matches!(&requirement.req.addition, Some(AdditionItem::Other(_)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(text: &str) -> Option<String> {
        match License::read(text).unwrap() {
            License::Expression(expression) => Some(expression),
            License::Name(name) => {
                assert_eq!(name, text);
                None
            }
        }
    }

    #[test]
    fn expressions_are_distinguished_from_names() {
        for good in [
            "MIT",
            "Apache-2.0 OR MIT",
            "(MIT AND BSD-3-Clause) OR Apache-2.0 WITH LLVM-exception",
            "GPL-2.0",
            "GPL-2.0+",
            "(LGPL-2.1+ OR MIT) AND Apache-2.0+",
            "LicenseRef-Acme-1",
        ] {
            assert_eq!(expression(good).as_deref(), Some(good));
        }
        for (given, written) in [
            (" MIT  or ISC ", "MIT OR ISC"),
            ("apache-2.0", "Apache-2.0"),
            ("mit-0  or   mIT", "MIT-0 OR MIT"),
            ("APACHE-2.0+ with llvm-EXCEPTION", "Apache-2.0+ WITH LLVM-exception"),
            ("gpl-2.0+", "GPL-2.0+"),
            ("MIT and(ISC)", "MIT AND (ISC)"),
            ("(MIT)and( (ISC ) )", "(MIT) AND ((ISC))"),
        ] {
            assert_eq!(expression(given).as_deref(), Some(written));
        }
        for name in [
            "proprietary",
            "Apache 2",
            "MIT OR",
            "(MIT",
            "MIT Apache-2.0",
            "DocumentRef-x:LicenseRef-y",
            "MIT WITH AdditionRef-z",
            "LicenseRef-ö",
            "LicenseRef-",
            "MIT OR LicenseRef-",
            "GPL-2.0-only+",
            "gpl-2.0-ONLY+",
            "MIT +",
            "and+",
            "GPL-2.0-or-later+",
            "MIT OR NOASSERTION",
            "MIT OR noassertion",
        ] {
            assert_eq!(expression(name), None, "{name}");
        }
    }

    #[test]
    fn unlisted_license_gets_reference() {
        let name = License::read("proprietary").unwrap();
        assert!(name.spdx2().starts_with("LicenseRef-"));
        assert_eq!(name.references(), [(name.spdx2(), "proprietary")]);
        let mixed = License::read("MIT OR LicenseRef-Acme").unwrap();
        assert_eq!(mixed.references(), [("LicenseRef-Acme".to_owned(), UNKNOWN_TEXT)]);
        assert_eq!(License::read("MIT").unwrap().references(), []);
    }

    #[test]
    fn noassertion_is_absent_license() {
        assert_eq!(License::read("NOASSERTION"), None);
        assert_eq!(License::read(" noAssertion "), None);
    }
}
