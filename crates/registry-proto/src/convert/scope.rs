//! Converts scopes.

use registry_core::{Scope, scope::InvalidScope};

use crate::v1;

/// Reads a scope. An empty message is invalid.
pub fn scope(scope: v1::FollowScope) -> Result<Scope, InvalidScope> {
    match scope.scope {
        Some(v1::follow_scope::Scope::Everything(v1::EntireCatalog {})) => Ok(Scope::Everything),
        Some(v1::follow_scope::Scope::Roots(v1::ScopeRoots { roots })) => Scope::from_roots(&roots),
        None => Err(InvalidScope::Empty),
    }
}

impl From<&Scope> for v1::FollowScope {
    fn from(scope: &Scope) -> Self {
        let scope = if *scope == Scope::Everything {
            v1::follow_scope::Scope::Everything(v1::EntireCatalog {})
        } else {
            let roots = scope.roots().map(ToString::to_string).collect();
            v1::follow_scope::Scope::Roots(v1::ScopeRoots { roots })
        };
        Self { scope: Some(scope) }
    }
}
