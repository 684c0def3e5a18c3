//! Strings that may distinguish two schemas: typical texts, and near misses of expressions.

use serde_json::Value;

use super::{
    prover::{Prover, Stop},
    rules::{Range, Types},
    sample::LONGEST_TEXT,
    value_set::{Facts, ValueSet},
};

/// One text for each class of characters that expressions distinguish.
const PROBES: [&str; 18] = [
    "a", "A", "0", " ", "-", "_", ".", "/", "<", "\n", "é", "a b", "\\", "\"", "$", ":", "@", "日",
];
/// Maximum number of returned strings.
const TEXTS: usize = 4;

impl Prover<'_> {
    /// Strings that the given schemas may accept and that the expression does not match.
    pub(super) fn unmatched(
        &mut self,
        given: &ValueSet,
        facts: &Facts,
        pattern: &str,
    ) -> Result<Vec<Value>, Stop> {
        let given = given.clone().with_types(Types::STRING);
        let samples = self.samples(&given)?;
        let mut texts: Vec<String> =
            samples.iter().filter_map(|sample| sample.as_str().map(str::to_owned)).collect();
        texts.extend(PROBES.map(str::to_owned));
        let wanted = self.pattern(pattern)?;
        texts.extend(wanted.longest.filter(|l| *l < LONGEST_TEXT).map(|l| "a".repeat(l + 1)));
        let mut models = wanted.examples.clone();
        for (_, rules) in &facts.rules {
            if let Some(own) = &rules.pattern {
                models.extend(self.pattern(own)?.examples.iter().cloned());
            }
        }
        texts.extend(models.iter().flat_map(|model| near(model)));
        let (mut sure, mut perhaps) = (Vec::new(), Vec::new());
        for text in texts.iter().filter_map(|text| fitted(text, facts.length)) {
            if sure.len() == TEXTS {
                break;
            }
            if self.matches(pattern, &text)? {
                continue;
            }
            let text = Value::String(text);
            match self.accepts_all(&given, &text)? {
                Some(true) if !sure.contains(&text) => sure.push(text),
                None if perhaps.len() < TEXTS => perhaps.push(text),
                _ => {}
            }
        }
        sure.extend(perhaps);
        Ok(sure)
    }
}

/// Strings that differ slightly from this one.
fn near(text: &str) -> Vec<String> {
    let mut found: Vec<String> = PROBES.iter().map(|probe| format!("{text}{probe}")).collect();
    found.extend(PROBES.iter().map(|probe| format!("{probe}{text}")));
    let mut shorter = text.chars();
    shorter.next_back();
    found.push(shorter.as_str().to_owned());
    let mut shorter = text.chars();
    shorter.next();
    found.extend(PROBES.iter().map(|probe| format!("{probe}{}", shorter.as_str())));
    found.extend([shorter.as_str().to_owned(), text.repeat(2)]);
    found.extend([text.to_uppercase(), text.to_lowercase()]);
    found
}

/// The string, repeated or truncated to a length in the range; `None` if that is very long.
pub(super) fn fitted(text: &str, range: Range) -> Option<String> {
    let length = text.chars().count();
    let (min, max) = (usize::try_from(range.min).ok()?, usize::try_from(range.max).ok());
    let max = max.unwrap_or(usize::MAX);
    if length < min {
        let is_possible = length > 0 && min <= LONGEST_TEXT;
        return is_possible.then(|| text.chars().cycle().take(min).collect());
    }
    Some(if length > max { text.chars().take(max).collect() } else { text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::{Range, fitted};

    #[test]
    fn fitted_text_has_length_in_range() {
        let fit = |text, min, max| fitted(text, Range { min, max });
        assert_eq!(fit("aé", 5, 9).as_deref(), Some("aéaéa"));
        assert_eq!(fit("日本語", 0, 2).as_deref(), Some("日本"));
        assert_eq!(fit("", 1, 2), None);
        assert_eq!(fit("a", u64::MAX, u64::MAX), None);
    }
}
