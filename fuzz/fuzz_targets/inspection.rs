//! Inspection: spans are inside of the text, and a rewritten document is JSON.

#![no_main]

use inspection::{DigestKey, Inspector, Selection, redaction, rewrite_json, rewrite_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let inspector = Inspector::new(Selection::all(), DigestKey::new(&[1; 32]));
    let whole = inspector.text(text);
    for finding in &whole.list {
        assert!(text.get(finding.span.clone()).is_some_and(|value| !value.is_empty()));
    }
    rewrite_text(text, &whole.list, |overlap| redaction(overlap.class()));
    let is_json = serde_json::from_str::<serde_json::Value>(text).is_ok();
    let inspected = inspector.json(text);
    assert!(inspected.is_ok() || !is_json);
    let Ok(inspected) = inspected else { return };
    if let Ok(written) = rewrite_json(text, &inspected.list, |overlap| redaction(overlap.class())) {
        assert!(!is_json || serde_json::from_str::<serde_json::Value>(&written).is_ok());
    }
});
