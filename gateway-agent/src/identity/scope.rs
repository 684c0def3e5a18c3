//! What a token allows: scopes (RFC 6749, section 3.3), and which of them have others in them.

use std::collections::{BTreeMap, BTreeSet};

/// The scopes that a caller has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Granted(BTreeSet<String>);

impl Granted {
    /// These, and all that they have in them.
    pub(super) fn new(
        given: impl IntoIterator<Item = String>,
        implied: &BTreeMap<String, Vec<String>>,
    ) -> Self {
        let mut all = BTreeSet::new();
        let mut open: Vec<_> = given.into_iter().collect();
        while let Some(scope) = open.pop() {
            // What is known already was followed; so a circle ends.
            if all.insert(scope.clone()) {
                open.extend(implied.get(&scope).into_iter().flatten().cloned());
            }
        }
        Self(all)
    }

    /// Whether all of these are among them.
    pub(super) fn cover<'a>(&self, needed: impl IntoIterator<Item = &'a str>) -> bool {
        needed.into_iter().all(|scope| self.0.contains(scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broad_scope_has_the_narrower_ones_in_it_also_in_a_circle() {
        let list = |scopes: &[&str]| scopes.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let implied = BTreeMap::from([
            ("admin".to_owned(), list(&["write"])),
            ("write".to_owned(), list(&["read", "admin"])),
        ]);
        let granted = |scopes| Granted::new(list(scopes), &implied);
        assert!(granted(&["admin"]).cover(["read", "write", "admin"]));
        assert!(granted(&["read"]).cover(["read"]) && !granted(&["read"]).cover(["write"]));
        assert!(granted(&[]).cover([]) && !granted(&[]).cover(["read"]));
    }
}
