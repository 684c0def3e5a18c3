//! Strict reading of compositions: the fields of [`crate::decode`] with the limits of a spec.
//!
//! Deliberately absent: the patterns themselves, each of which reads itself.

use std::cell::{Cell, RefCell};

use serde_json::Value;

use super::{Mappings, Spec, operation::Use};
use crate::{
    decode::{At, Problems},
    diagnostic::{Code, Diagnostic},
};

/// What is known while a composition is read.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) problems: Problems,
    uses: RefCell<Vec<Use>>,
    steps: Cell<usize>,
    depth: Cell<usize>,
}

impl Reader {
    pub(super) fn into_parts(self) -> (Vec<Use>, Vec<Diagnostic>) {
        (self.uses.into_inner(), self.problems.into_vec())
    }
}
