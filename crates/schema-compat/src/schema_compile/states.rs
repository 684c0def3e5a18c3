//! About how many states a regular expression has: a text that matches late costs so many steps a
//! byte, however linear the engine is, and compiling takes so long.

use regex_syntax::{
    Parser,
    hir::{Class, Hir, HirKind},
};
use serde_json::{Map, Value};

use crate::json_schema::each_object;

/// The states of the biggest expression in a schema.
pub(super) fn most_states(schema: &Value) -> usize {
    let mut most = 0;
    each_object(schema, &mut |map| {
        most = patterns_of(map).map(of_pattern).max().unwrap_or(0).max(most);
    });
    most
}

/// The regular expressions of one schema object.
pub fn patterns_of(map: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let keyed = map.get("patternProperties").and_then(Value::as_object);
    let names = keyed.into_iter().flatten().map(|(pattern, _)| pattern.as_str());
    names.chain(map.get("pattern").and_then(Value::as_str))
}

/// What cannot be read here is as big as its text.
fn of_pattern(pattern: &str) -> usize {
    Parser::new().parse(pattern).map_or(pattern.len(), |hir| states(&hir, |_| 1))
}

/// The states that an expression unfolds to, where a character class has as many as `of_class`
/// says: one for a text that is read, more while it is compiled.
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
