//! The approximate number of states of a regular expression, which is proportional to the time per
//! byte of a late match and to the compile time.

use regex_syntax::{
    Parser,
    hir::{Class, Hir, HirKind},
};
use serde_json::{Map, Value};

use crate::json_schema::each_object;

/// The number of states of the largest expression in a schema.
pub(super) fn most_states(schema: &Value) -> usize {
    let mut most = 0;
    each_object(schema, &mut |map| {
        most = patterns_of(map).map(pattern_states).max().unwrap_or(0).max(most);
    });
    most
}

/// The regular expressions of one schema object.
pub fn patterns_of(map: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let keyed = map.get("patternProperties").and_then(Value::as_object);
    let names = keyed.into_iter().flatten().map(|(pattern, _)| pattern.as_str());
    names.chain(map.get("pattern").and_then(Value::as_str))
}

/// The states of an expression; an unsupported one counts by its length.
fn pattern_states(pattern: &str) -> usize {
    Parser::new().parse(pattern).map_or(pattern.len(), |hir| states(&hir, |_| 1))
}

/// The number of states of an expression. A character class has `of_class` states: one for reading
/// a text, more for compilation.
pub fn states(hir: &Hir, of_class: fn(&Class) -> usize) -> usize {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(literal) => literal.0.len(),
        HirKind::Class(class) => of_class(class),
        HirKind::Repetition(repetition) => {
            let times = repetition.max.unwrap_or(repetition.min.max(1));
            states(&repetition.sub, of_class)
                .saturating_mul(usize::try_from(times).unwrap_or(usize::MAX))
        }
        HirKind::Capture(capture) => states(&capture.sub, of_class),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(|part| states(part, of_class)).fold(0, usize::saturating_add)
        }
    }
}
