//! Quality on the labelled corpus: precision and recall by class.

use std::collections::BTreeMap;

use inspection::{DigestKey, Finding, Findings, Inspector, Selection};
use registry_core::entity::policy::DataClass;

const CORPUS: &str = include_str!("corpus.txt");

/// A text, and the values that must be found in it.
struct Labelled {
    line: usize,
    text: String,
    values: Vec<(DataClass, String)>,
}

impl Labelled {
    fn is_json(&self) -> bool {
        self.text.starts_with('{')
            || self.text.starts_with('[')
                && !self.text.starts_with("[[c")
                && serde_json::from_str::<serde_json::Value>(&self.text).is_ok()
    }

    fn findings(&self, inspector: &Inspector) -> Findings {
        if self.is_json() {
            inspector.json(&self.text).unwrap_or_else(|e| panic!("line {}: {e}", self.line))
        } else {
            inspector.text(&self.text)
        }
    }

    /// The value of a finding.
    fn value(&self, finding: &Finding) -> String {
        let token = &self.text[finding.token.clone()];
        let is_string = self.is_json() && token.starts_with('"');
        let string = is_string.then(|| serde_json::from_str::<String>(token).expect("a string"));
        let string = string.as_deref().unwrap_or(token);
        let inner = finding.inner.clone().map(|inner| &string[inner]);
        let is_string = inner.is_some_and(|inner| inner.starts_with('"'));
        let unescaped = inner.filter(|_| is_string);
        let unescaped =
            unescaped.map(|inner| serde_json::from_str::<String>(inner).expect("a string"));
        unescaped.as_deref().or(inner).unwrap_or(string)[finding.span.clone()].to_owned()
    }
}

fn corpus() -> Vec<Labelled> {
    let lines = CORPUS.lines().enumerate().filter(|(_, line)| {
        let is_comment = line.starts_with("# ");
        !line.is_empty() && !is_comment
    });
    lines.map(|(i, line)| labelled(i + 1, line)).collect()
}

fn labelled(line: usize, marked: &str) -> Labelled {
    let clean = marked.replace('¦', "").replace('↵', "\n");
    let (mut text, mut values) = (String::new(), Vec::new());
    let mut rest = clean.as_str();
    while let Some((before, mark)) = rest.split_once('«') {
        let (mark, after) = mark.split_once('»').expect("the end of a mark");
        let (class, value) = mark.split_once('|').expect("a class and a value");
        text = text + before + value;
        let is_json = clean.starts_with(['{', '[']);
        let value = if is_json { value.replace("\\n", "\n") } else { value.to_owned() };
        values.push((class.parse().expect("a class"), value));
        rest = after;
    }
    text += rest;
    Labelled { line, text, values }
}

#[derive(Debug, Default, Clone, Copy)]
struct Score {
    correct: u32,
    wrong: u32,
    missed: u32,
}

impl Score {
    fn precision(self) -> f64 {
        f64::from(self.correct) / f64::from(self.correct + self.wrong)
    }

    fn recall(self) -> f64 {
        f64::from(self.correct) / f64::from(self.correct + self.missed)
    }

    fn f1(self) -> f64 {
        2.0 * self.precision() * self.recall() / (self.precision() + self.recall())
    }
}

/// Scores by class, and a description of each error without its value.
fn scores(inspector: &Inspector) -> (BTreeMap<DataClass, Score>, Vec<String>) {
    let (mut scores, mut errors) = (BTreeMap::<_, Score>::new(), Vec::new());
    for text in corpus() {
        let findings = text.findings(inspector).list;
        let mut expected = text.values.clone();
        for finding in &findings {
            let found = (finding.class(), text.value(finding));
            let score = scores.entry(finding.class()).or_default();
            if let Some(at) = expected.iter().position(|value| *value == found) {
                expected.swap_remove(at);
                score.correct += 1;
            } else {
                score.wrong += 1;
                let (line, name) = (text.line, finding.detector.name());
                errors.push(format!("line {line}: unexpected {name} at {:?}", finding.span));
            }
        }
        for (class, _) in expected {
            scores.entry(class).or_default().missed += 1;
            errors.push(format!("line {}: missed {class}", text.line));
        }
    }
    (scores, errors)
}

#[test]
fn corpus_has_enough_texts_of_each_class() {
    let corpus = corpus();
    assert!(corpus.len() >= 400, "{}", corpus.len());
    for class in DataClass::ALL {
        let values = corpus.iter().flat_map(|text| &text.values);
        assert!(values.filter(|value| value.0 == class).count() >= 30, "{class}");
    }
    assert!(corpus.iter().filter(|text| text.values.is_empty()).count() >= 150);
}

#[test]
fn each_class_reaches_its_score() {
    let inspector = Inspector::new(Selection::all(), DigestKey::new(&[3; 32]));
    let (scores, errors) = scores(&inspector);
    for class in DataClass::ALL {
        let score = scores[&class];
        assert!(
            score.f1() >= 0.95,
            "{class}: F1 {:.3}, {score:?}\n{}",
            score.f1(),
            errors.join("\n")
        );
    }
    let credential = scores[&DataClass::Credential];
    assert!(credential.precision() >= 0.98, "{credential:?}\n{}", errors.join("\n"));
}

#[test]
fn debug_output_has_no_value() {
    let inspector = Inspector::new(Selection::all(), DigestKey::new(&[3; 32]));
    for text in corpus() {
        let printed = format!("{:?}", text.findings(&inspector));
        for (_, value) in text.values {
            assert!(!printed.contains(&value), "line {}", text.line);
        }
    }
}

/// Source code scanners match keys in one line of a file.
#[test]
fn corpus_file_has_no_complete_key() {
    let inspector =
        Inspector::new(Selection::of([DataClass::Credential]), DigestKey::new(&[3; 32]));
    for (i, line) in CORPUS.lines().enumerate() {
        let findings = inspector.text(&line.replace(['«', '»', '|'], " ")).list;
        let is_provider = |finding: &&Finding| {
            !matches!(finding.detector.name(), "assigned-secret" | "bearer-token" | "url-password")
        };
        assert_eq!(findings.iter().filter(is_provider).count(), 0, "line {}", i + 1);
    }
}
