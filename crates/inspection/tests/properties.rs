//! Properties of each text: spans and replacements.

use inspection::{
    DigestKey, Finding, Inspector, Selection, find_placeholders, map_strings, redaction,
    rewrite_json, rewrite_text,
};
use proptest::prelude::*;
use registry_core::entity::policy::DataClass;

fn inspector() -> Inspector {
    Inspector::new(Selection::all(), DigestKey::new(&[1; 32]))
}

/// Values, parts of values, and separators.
const PARTS: [&str; 72] = [
    "+49 4111 1111 1111 1111",
    "+49-4111-1111-1111-1111",
    "https://",
    "mongodb://svc:Zq%4019pL@cluster0.kestrel.dev",
    "%FC",
    "jörg@müller.de",
    "https://api.firma.de/cards/4111111111111111",
    ".0",
    "4539\u{a0}5787\u{a0}6362\u{a0}1486",
    "+1\u{2011}415\u{2011}555\u{2011}2671",
    "\u{202f}",
    "\u{2013}",
    "4111 1111 1111 1111",
    "4111111111111111",
    "5555-5555-5555-4444",
    "378282246310005",
    "1",
    "23",
    "DE89 3704 0044 0532 0130 00",
    "GB29NWBK60161331926819",
    "212-45-6789",
    "ssn ",
    "card: ",
    "order ",
    "anna.berg@kestrel.dev",
    "@",
    "git@github.com:a/b",
    "https://u:p4ss%21w@h.dev/",
    "://",
    "a%40b.de",
    "+49 30 901820",
    "phone (415) 555-2671",
    "+1 415 555 2671",
    "10.20.30.40",
    "1.2.3.4",
    "fe80::1ff:2",
    "00:1b:44:11:3a:b7",
    "00-1b-44-11-3a-b7",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-ant-",
    "eyJ",
    "password=",
    "hunter2x!",
    "\"token\": \"",
    "9f8a7c6b5e4d3f2a1b0c9d8e",
    "Bearer ",
    "Basic dXNlcjpwYXNzd29yZA==",
    "-----BEGIN PRIVATE KEY-----\n",
    "MC4CAQAwBQYDK2VwBCIEIJ1hPp2nYvK4y3mQwZ0aLr8sTf6uXe5iGo7dHjBkCv9x",
    "\n-----END PRIVATE KEY-----",
    "YW5uYS5iZXJnQGtlc3RyZWwuZGV2IGFuZCBtb3Jl",
    " ",
    "\n",
    "-",
    ".",
    ":",
    "/",
    "=",
    "é",
    "日本",
    "\"",
    "\\",
    "x",
    "_",
    ",",
    "[",
    "]",
    "%",
    "+",
    "(",
    ")",
    "[[contact:K7QX2M]]",
];

fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        8 => prop::sample::select(&PARTS[..]).prop_map(str::to_owned),
        1 => ".{0,6}",
        1 => "[0-9]{1,20}",
        1 => "[A-Za-z0-9+/=_-]{1,40}",
    ];
    prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

/// Values with a separator between them.
fn separated() -> impl Strategy<Value = String> {
    let part = prop::sample::select(&PARTS[..]).prop_map(str::to_owned);
    let separator = prop::sample::select(&[" ", "\n", ", ", "; ", " (", "\" \"", " = ", ": "][..]);
    let parts = prop::collection::vec((part, separator), 0..16);
    parts.prop_map(|parts| parts.into_iter().map(|(part, separator)| part + separator).collect())
}

fn redacted(text: &str, findings: &[Finding]) -> String {
    rewrite_text(text, findings, |overlap| redaction(overlap.class()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn spans_are_inside_at_character_boundaries(text in text()) {
        for finding in inspector().text(&text).list {
            prop_assert!(text.get(finding.span.clone()).is_some_and(|value| !value.is_empty()));
        }
    }

    #[test]
    fn redacted_text_has_no_finding(text in separated()) {
        let findings = inspector().text(&text);
        let redacted = redacted(&text, &findings.list);
        let rest = inspector().text(&redacted);
        prop_assert!(rest.is_empty(), "{redacted:?}: {:?}", rest.list);
    }

    #[test]
    fn redacted_class_has_no_finding(text in separated()) {
        for class in DataClass::ALL {
            let inspector = Inspector::new(Selection::of([class]), DigestKey::new(&[1; 32]));
            let redacted = redacted(&text, &inspector.text(&text).list);
            let rest = inspector.text(&redacted);
            prop_assert!(rest.is_empty(), "{redacted:?}: {:?}", rest.list);
        }
    }

    #[test]
    fn findings_do_not_depend_on_other_classes(text in prop_oneof![text(), separated()]) {
        let find = |selection| Inspector::new(selection, DigestKey::new(&[1; 32])).text(&text).list;
        let all = find(Selection::of(DataClass::ALL));
        let with_opt_in = find(Selection::all());
        for class in DataClass::ALL {
            let alone = find(Selection::of([class]));
            let among = all.iter().filter(|finding| finding.class() == class).cloned();
            prop_assert_eq!(&alone, &among.collect::<Vec<_>>());
            prop_assert!(alone.iter().all(|finding| with_opt_in.contains(finding)));
        }
    }

    #[test]
    fn documents_have_the_findings_of_their_strings(text in separated(), key in "[a-z]{1,8}") {
        let json = serde_json::json!([{ &key: text }, 1, null]).to_string();
        let found = inspector().json(&json).unwrap();
        for finding in &found.list {
            let expected = format!("/0/{key}");
            prop_assert_eq!(&*finding.pointer, expected.as_str());
            let raw = &json[finding.token.clone()];
            prop_assert_eq!(serde_json::from_str::<String>(raw).unwrap(), text.as_str());
        }
        let rewritten = rewrite_json(&json, &found.list, |overlap| redaction(overlap.class())).unwrap();
        prop_assert!(inspector().json(&rewritten).unwrap().is_empty(), "{}", rewritten);
        prop_assert_eq!(rewrite_json(&json, [], |_| String::new()).unwrap(), json);
    }

    #[test]
    fn documents_in_strings_have_their_findings(text in separated(), key in "[a-z]{1,8}") {
        let inner = serde_json::json!({ &key: text }).to_string();
        let json = serde_json::json!({ "text": &inner }).to_string();
        let shape = |list: &[Finding]| -> Vec<_> {
            list.iter().map(|found| (found.span.clone(), found.digest)).collect()
        };
        let found = inspector().json(&json).unwrap();
        prop_assert_eq!(shape(&found.list), shape(&inspector().json(&inner).unwrap().list));
        let redact = |json: &str, list: &[Finding]| {
            rewrite_json(json, list, |overlap| redaction(overlap.class())).unwrap()
        };
        let rewritten = redact(&json, &found.list);
        prop_assert!(inspector().json(&rewritten).unwrap().is_empty(), "{}", rewritten);
        let rewritten: serde_json::Value = serde_json::from_str(&rewritten).unwrap();
        let expected = redact(&inner, &inspector().json(&inner).unwrap().list);
        prop_assert_eq!(rewritten["text"].as_str(), Some(expected.as_str()));
    }

    #[test]
    fn arbitrary_json_is_read_like_serde(json in "[\\[\\]{}:,\"\\\\a-z0-9. \\n-]{0,40}") {
        if serde_json::from_str::<serde_json::Value>(&json).is_ok() {
            prop_assert!(inspector().json(&json).is_ok());
            prop_assert_eq!(map_strings(&json, |_| None).unwrap(), json);
        }
    }

    #[test]
    fn placeholders_are_inside_the_text(text in text()) {
        for (span, placeholder) in find_placeholders(&text) {
            let written = placeholder.to_string();
            prop_assert!(text[span].eq_ignore_ascii_case(&written));
        }
    }
}
