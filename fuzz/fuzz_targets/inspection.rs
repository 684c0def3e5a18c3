//! Inspection: spans are inside of the text, a stream has the findings of the whole text, and a
//! rewritten document is JSON.

#![no_main]

use inspection::{
    DigestKey, Findings, Inspector, Selection, Stream, redaction, rewrite_json, rewrite_text,
};
use libfuzzer_sys::fuzz_target;

/// Detectors and spans in the whole text.
fn shape(findings: &Findings, offset: usize) -> Vec<(&'static str, usize, usize)> {
    let list = findings.list.iter();
    list.map(|found| (found.detector.name(), found.span.start + offset, found.span.end + offset))
        .collect()
}

fuzz_target!(|input: (u8, &str)| {
    let (step, text) = input;
    let inspector = Inspector::new(Selection::all(), DigestKey::new(&[1; 32]));
    let whole = inspector.text(text);
    for finding in &whole.list {
        assert!(text.get(finding.span.clone()).is_some_and(|value| !value.is_empty()));
    }
    rewrite_text(text, &whole.list, |overlap| redaction(overlap.class()));

    let mut stream = Stream::new(inspector.clone());
    let (mut released, mut found, mut rest) = (String::new(), Vec::new(), text);
    while !rest.is_empty() {
        let length = rest.ceil_char_boundary(usize::from(step.max(1)).min(rest.len()));
        let part = stream.push(&rest[..length]).expect("short words");
        found.extend(shape(&part.findings, released.len()));
        released += &part.text;
        rest = &rest[length..];
    }
    let part = stream.finish();
    found.extend(shape(&part.findings, released.len()));
    released += &part.text;
    assert_eq!(released, text);
    assert_eq!(found, shape(&whole, 0));

    let is_json = serde_json::from_str::<serde_json::Value>(text).is_ok();
    let inspected = inspector.json(text);
    assert!(inspected.is_ok() || !is_json);
    let Ok(inspected) = inspected else { return };
    if let Ok(written) = rewrite_json(text, &inspected.list, |overlap| redaction(overlap.class())) {
        assert!(!is_json || serde_json::from_str::<serde_json::Value>(&written).is_ok());
    }
});
