//! Granted scopes (RFC 6749, section 3.3) with those that they imply.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GrantedScopes(BTreeSet<String>);

impl GrantedScopes {
    /// The given scopes and all that they imply.
    pub(super) fn new(
        given: impl IntoIterator<Item = String>,
        implied: &BTreeMap<String, Vec<String>>,
    ) -> Self {
        let mut all = BTreeSet::new();
        let mut open: Vec<_> = given.into_iter().collect();
        while let Some(scope) = open.pop() {
            // Known scopes are skipped, so cycles end.
            if all.insert(scope.clone()) {
                open.extend(implied.get(&scope).into_iter().flatten().cloned());
            }
        }
        Self(all)
    }

    /// All scopes.
    pub(super) fn all(&self) -> &BTreeSet<String> {
        &self.0
    }

    pub(super) fn contains_all<'a>(&self, needed: impl IntoIterator<Item = &'a str>) -> bool {
        needed.into_iter().all(|scope| self.0.contains(scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implied_scopes_are_granted_despite_cycles() {
        let list = |scopes: &[&str]| scopes.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let implied = BTreeMap::from([
            ("admin".to_owned(), list(&["write"])),
            ("write".to_owned(), list(&["read", "admin"])),
        ]);
        let granted = |scopes| GrantedScopes::new(list(scopes), &implied);
        assert!(granted(&["admin"]).contains_all(["read", "write", "admin"]));
        assert!(
            granted(&["read"]).contains_all(["read"])
                && !granted(&["read"]).contains_all(["write"])
        );
        assert!(granted(&[]).contains_all([]) && !granted(&[]).contains_all(["read"]));
    }
}
