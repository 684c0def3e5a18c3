//! Scopes.

use registry_core::{Scope, scope::InvalidScope};

use crate::v1;

/// Reads a scope; one that says nothing has no roots, which is refused.
pub fn scope(scope: v1::Scope) -> Result<Scope, InvalidScope> {
    match scope.scope {
        Some(v1::scope::Scope::Everything(v1::Everything {})) => Ok(Scope::Everything),
        Some(v1::scope::Scope::Roots(v1::Roots { roots })) => Scope::from_roots(&roots),
        None => Err(InvalidScope::Empty),
    }
}

impl From<&Scope> for v1::Scope {
    fn from(scope: &Scope) -> Self {
        let scope = if *scope == Scope::Everything {
            v1::scope::Scope::Everything(v1::Everything {})
        } else {
            let roots = scope.roots().map(ToString::to_string).collect();
            v1::scope::Scope::Roots(v1::Roots { roots })
        };
        Self { scope: Some(scope) }
    }
}
