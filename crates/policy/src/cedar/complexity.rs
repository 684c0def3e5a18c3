//! Limits on the nesting of a text, so that Cedar's recursive algorithms fit the stack of a thread.
//!
//! Cedar's type checker reports no error for a condition that it does not finish because the stack is
//! short. The condition would count as correct.

use super::{CedarProblem, outside_comments_and_strings, problem};

/// Maximum nesting of brackets. Cedar's parser needs 60 KiB of the stack for each in debug builds, and
/// 14 KiB in release builds.
pub(super) const BRACKETS: usize = 16;
/// Maximum nesting of operators. Cedar's type checker needs 20 KiB of the stack for each in debug
/// builds, and 4 KiB in release builds.
pub(super) const OPERATORS: usize = 48;

/// Ends an operand of a list, or of `if`, `then` and `else`.
const SEPARATOR: usize = 0;
const LOGICAL: usize = 1;
/// Comparisons and arithmetic.
const BINARY: usize = 2;
/// Accesses, calls and prefixes.
const UNARY: usize = 3;

/// Finds the first statement that is nested too deeply. The time is linear in the text.
pub(super) fn find_complexity(text: &str) -> Option<CedarProblem> {
    // The statement, then the open brackets.
    let mut outer = Vec::new();
    let mut group = Group::default();
    for (offset, c) in outside_comments_and_strings(text) {
        match c {
            '(' | '[' | '{' => {
                group.add(UNARY, 1);
                outer.push(std::mem::take(&mut group));
            }
            ')' | ']' | '}' => {
                if let Some(parent) = outer.pop() {
                    let depth = std::mem::replace(&mut group, parent).depth();
                    group.add_operand(depth);
                }
            }
            // `has` with a path expands to two nested operators for each member.
            '.' => group.add(UNARY, 2),
            '!' => group.add(UNARY, 1),
            '+' | '-' | '*' | '<' | '>' | '=' => group.add(BINARY, 1),
            '&' | '|' if text[..offset].ends_with(c) => group.add(LOGICAL, 1),
            ',' => group.add(SEPARATOR, 0),
            ';' if outer.is_empty() => group = Group::default(),
            _ => match word_at(text, offset, c) {
                Some("if" | "when" | "unless") => group.add(LOGICAL, 1),
                Some("then" | "else") => group.add(LOGICAL, 0),
                Some("has" | "in" | "is" | "like") => group.add(BINARY, 1),
                _ => {}
            },
        }
        if outer.len() > BRACKETS {
            let help = format!("nest at most {BRACKETS} brackets, or split the statement");
            let message = "too many nested brackets".to_owned();
            return Some(problem(text, offset, message, Some(help)));
        }
        if group.depth() > OPERATORS {
            let help = format!(
                "nest at most {OPERATORS} operators, split the statement, or use `contains` of a set"
            );
            let message = "too many nested operators".to_owned();
            return Some(problem(text, offset, message, Some(help)));
        }
    }
    None
}

/// The nesting of the operators between two brackets, by precedence. Each operator of
/// a chain adds one level.
#[derive(Debug, Clone, Copy, Default)]
struct Group {
    /// The number of operators in the current chain.
    chains: [usize; 4],
    /// The depth of its deepest operand.
    operands: [usize; 4],
}

impl Group {
    /// Adds an operator with this number of nodes. It ends the chains of higher precedence, which
    /// are its operands.
    fn add(&mut self, precedence: usize, nodes: usize) {
        for higher in (precedence + 1..self.chains.len()).rev() {
            let depth = std::mem::take(&mut self.chains[higher])
                + std::mem::take(&mut self.operands[higher]);
            self.operands[higher - 1] = self.operands[higher - 1].max(depth);
        }
        self.chains[precedence] += nodes;
    }

    fn add_operand(&mut self, depth: usize) {
        self.operands[UNARY] = self.operands[UNARY].max(depth);
    }

    fn depth(mut self) -> usize {
        self.add(SEPARATOR, 0);
        self.operands[SEPARATOR]
    }
}

/// The word that ends with the character at this offset.
fn word_at(text: &str, offset: usize, c: char) -> Option<&str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let (word, rest) = text.split_at(offset + c.len_utf8());
    if !is_part(c) || rest.starts_with(is_part) {
        return None;
    }
    word.rsplit(|c: char| !is_part(c)).next()
}
