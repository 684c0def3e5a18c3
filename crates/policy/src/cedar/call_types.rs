//! The types of calls, with Cedar's schema of them.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use cedar_policy::Validator;

use super::schema::schema;
use crate::{ResourceKind, arguments::ArgumentType};

/// Maximum number of schemas that a pool keeps, which bounds its memory.
const KEPT: usize = 1_000;

/// The types of calls of resources of a kind.
#[derive(Debug)]
pub(crate) struct CallTypes {
    /// The position in the pool.
    number: usize,
    kind: ResourceKind,
    arguments: ArgumentType,
    /// Built on first use: Cedar needs longer for a schema than for a check. `None`: the types have
    /// no form in Cedar.
    validator: OnceCell<Option<Validator>>,
}

impl CallTypes {
    pub(super) fn new(number: usize, kind: ResourceKind, arguments: ArgumentType) -> Self {
        Self { number, kind, arguments, validator: OnceCell::new() }
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn kind(&self) -> ResourceKind {
        self.kind
    }

    pub(crate) fn arguments(&self) -> &ArgumentType {
        &self.arguments
    }

    /// Calls `check` with Cedar's validator of the types.
    pub(super) fn validate<T>(&self, check: impl FnOnce(Option<&Validator>) -> T) -> T {
        let build = || schema(self.kind, &self.arguments).ok().map(Validator::new);
        if self.number < KEPT {
            check(self.validator.get_or_init(build).as_ref())
        } else {
            check(build().as_ref())
        }
    }
}

/// The different types of the calls that one check of a batch concerns.
#[derive(Debug, Default)]
pub(crate) struct CallTypesPool(RefCell<HashMap<(ResourceKind, ArgumentType), Rc<CallTypes>>>);

impl CallTypesPool {
    /// The types of calls of resources of a kind with these arguments.
    pub(crate) fn get(&self, kind: ResourceKind, arguments: ArgumentType) -> Rc<CallTypes> {
        let mut known = self.0.borrow_mut();
        let number = known.len();
        let types = known.entry((kind, arguments)).or_insert_with_key(|(kind, arguments)| {
            Rc::new(CallTypes::new(number, *kind, arguments.clone()))
        });
        Rc::clone(types)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn equal_types_of_calls_share_a_schema() {
        let pool = CallTypesPool::default();
        let nothing = || ArgumentType::Record(BTreeMap::new());
        let first = pool.get(ResourceKind::Tool, nothing());
        assert!(first.validate(|validator| validator.is_some()));
        let again = pool.get(ResourceKind::Tool, nothing());
        assert!(again.validator.get().is_some(), "its schema is built");
        for (kind, arguments) in
            [(ResourceKind::Skill, nothing()), (ResourceKind::Tool, ArgumentType::Long)]
        {
            assert!(pool.get(kind, arguments).validator.get().is_none());
        }
    }
}
