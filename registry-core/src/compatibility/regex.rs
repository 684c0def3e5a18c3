//! Texts that a regular expression matches: candidates for examples, which validators check.
//!
//! Deliberately absent: matching (`eval.rs`), and all the texts; a few different ones are enough.

use regex_syntax::{
    Parser,
    hir::{Class, Hir, HirKind},
};

/// Longest text that is built, in bytes.
const LONGEST: usize = 512;
/// How many different texts are tried.
const VARIANTS: usize = 8;

/// A few texts that the expression matches, as far as it is understood.
pub(super) fn examples(pattern: &str) -> Vec<String> {
    let Ok(hir) = Parser::new().parse(pattern) else { return Vec::new() };
    let mut found = Vec::new();
    for variant in 0..VARIANTS {
        let mut text = String::new();
        if write(&hir, variant, &mut text).is_some() && !found.contains(&text) {
            found.push(text);
        }
    }
    // An expression without anchors matches inside of a text, too.
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

/// A character of the class: an ordinary one where there is one, or its first or last.
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
    use super::examples;

    #[test]
    fn examples_are_short_and_fit() {
        assert!(examples("^[a-z]{2,3}$").contains(&"aa".to_owned()));
        assert!(examples("^(x|y)-\\d+$").iter().any(|text| text.starts_with("y-")));
        assert!(examples("((a{100}){100}){100}").is_empty());
        assert!(examples("(").is_empty());
    }
}
