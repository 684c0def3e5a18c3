//! Regular expressions, parsed once per comparison: their cost, and matching texts as candidates
//! for counterexamples.

use std::rc::Rc;

use regex_syntax::{
    Parser,
    hir::{Class, Hir, HirKind},
};
use serde_json::{Value, json};

use super::prover::{Prover, Stop};
use crate::schema_compile::{Validator, compile, states};

/// Maximum size of generated texts in bytes.
const LONGEST: usize = 512;
/// Number of generated variants.
const VARIANTS: usize = 8;
/// The cost of parsing an expression in steps, and the number of states that cost one more.
const READING: usize = 100;
const STATES: usize = 8;
/// The cost in steps of an expression that only the real engine supports.
const FOREIGN: usize = 2_000;

/// A parsed regular expression.
pub(super) struct Pattern {
    validator: Validator,
    cost: usize,
    /// Some matching texts, as far as the expression is supported.
    pub(super) examples: Vec<String>,
    /// The maximum size of matching texts in bytes, if there is one.
    pub(super) longest: Option<usize>,
}

impl Prover<'_> {
    /// Parses a regular expression. Registered expressions compile, so a failure ends the
    /// comparison.
    pub(super) fn pattern(&mut self, pattern: &str) -> Result<Rc<Pattern>, Stop> {
        self.step(1)?;
        if let Some(known) = self.patterns.get(pattern) {
            return Ok(Rc::clone(known));
        }
        let cost = cost(pattern);
        self.step(cost)?;
        let validator = compile(&json!({ "pattern": pattern }), &|_| None).map_err(|_| Stop)?;
        let hir = Parser::new().parse(pattern).ok();
        let examples = hir.as_ref().map(examples).unwrap_or_default();
        let longest = hir.and_then(|hir| hir.properties().maximum_len());
        let read = Rc::new(Pattern { validator, cost, examples, longest });
        self.patterns.insert(pattern.to_owned(), Rc::clone(&read));
        Ok(read)
    }

    /// Whether the regular expression matches a part of the text.
    pub(super) fn matches(&mut self, pattern: &str, text: &str) -> Result<bool, Stop> {
        let pattern = self.pattern(pattern)?;
        // In the worst case, the engine visits all states for every character.
        self.step(text.len().saturating_mul(pattern.cost) / 8_192)?;
        pattern.validator.accepts(&Value::String(text.to_owned())).ok_or(Stop)
    }
}

/// The cost of compiling the expression in steps.
pub(super) fn cost(pattern: &str) -> usize {
    let states = Parser::new().parse(pattern).map(|hir| states(&hir, ranges));
    states.map_or(FOREIGN, |states| READING + states / STATES) + pattern.len() / STATES
}

/// A class compiles to about as many states as it has ranges.
fn ranges(class: &Class) -> usize {
    match class {
        Class::Unicode(class) => class.ranges().len(),
        Class::Bytes(class) => class.ranges().len(),
    }
}

fn examples(hir: &Hir) -> Vec<String> {
    let mut found = Vec::new();
    for variant in 0..VARIANTS {
        let mut text = String::new();
        if write(hir, variant, &mut text).is_some() && !found.contains(&text) {
            found.push(text);
        }
    }
    // An expression without anchors also matches inside of a text.
    found.extend(found.first().map(|text| format!("x {text} x")));
    found
}

fn write(hir: &Hir, variant: usize, text: &mut String) -> Option<()> {
    if text.len() > LONGEST {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => text.push(one_of(class, variant)?),
        HirKind::Repetition(repetition) => {
            let more = [0, 1, 2, 0, 7, 30, 1, 100][variant % VARIANTS];
            let most = repetition.max.unwrap_or(u32::MAX);
            for _ in 0..repetition.min.saturating_add(more).min(most) {
                write(&repetition.sub, variant, text)?;
                if text.len() > LONGEST {
                    return None;
                }
            }
        }
        HirKind::Capture(capture) => write(&capture.sub, variant, text)?,
        HirKind::Concat(parts) => {
            for part in parts {
                write(part, variant, text)?;
            }
        }
        HirKind::Alternation(branches) => {
            write(branches.get(variant % branches.len())?, variant, text)?;
        }
    }
    Some(())
}

/// A character of the class: an ordinary one if possible, else its first or last.
fn one_of(class: &Class, variant: usize) -> Option<char> {
    let ordinary = ['a', '0', 'A', 'z', '-', '_', ' ', '9'];
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.iter().map(|r| (r.start(), r.end())).collect(),
        Class::Bytes(class) => class.iter().map(|r| (r.start().into(), r.end().into())).collect(),
    };
    let is_in = |c: &char| ranges.iter().any(|(start, end)| (*start..=*end).contains(c));
    let known: Vec<char> = ordinary.into_iter().filter(is_in).collect();
    if variant + 1 == VARIANTS {
        return ranges.last().map(|(_, end)| *end);
    }
    let pick = known.get(variant % known.len().max(1)).copied();
    pick.or_else(|| ranges.first().map(|(start, _)| *start))
}

#[cfg(test)]
mod tests {
    use regex_syntax::Parser;

    use super::cost;

    fn examples(pattern: &str) -> Vec<String> {
        super::examples(&Parser::new().parse(pattern).unwrap())
    }

    #[test]
    fn examples_are_short_and_match() {
        assert!(examples("^[a-z]{2,3}$").contains(&"aa".to_owned()));
        assert!(examples("^(x|y)-\\d+$").iter().any(|text| text.starts_with("y-")));
        assert!(examples("((a{100}){100}){100}").is_empty());
    }

    #[test]
    fn cost_reflects_expanded_size() {
        assert!(cost("^a1b$") < 2 * cost("a"));
        assert!(cost("[a-z]{1000}") < cost("(abc){5000}"));
        assert!(cost("((a{100}){100}){100}") > 10_000);
        assert!(cost("(") > cost("a"));
    }
}
