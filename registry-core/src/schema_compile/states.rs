//! About how many states a regular expression has: a text that matches late costs so many steps a
//! byte, however linear the engine is.
//!
//! Deliberately absent: matching, and exactness: a character class counts as one.

use regex_syntax::{
    Parser,
    hir::{Hir, HirKind},
};
use serde_json::Value;

use crate::json_schema::each_object;

/// The states of the biggest expression in a schema.
pub(super) fn most_states(schema: &Value) -> usize {
    let mut most = 0;
    each_object(schema, &mut |map| {
        let keyed = map.get("patternProperties").and_then(Value::as_object);
        let names = keyed.into_iter().flatten().map(|(pattern, _)| pattern.as_str());
        let own = map.get("pattern").and_then(Value::as_str);
        most = names.chain(own).map(of_pattern).max().unwrap_or(0).max(most);
    });
    most
}

/// What cannot be read here is as big as its text.
fn of_pattern(pattern: &str) -> usize {
    Parser::new().parse(pattern).map_or(pattern.len(), |hir| states(&hir))
}

fn states(hir: &Hir) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(_) => 1,
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.max(1));
            states(&repetition.sub).saturating_mul(usize::try_from(times).unwrap_or(usize::MAX))
        }
        HirKind::Capture(capture) => states(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(states).fold(0, usize::saturating_add)
        }
    }
}
