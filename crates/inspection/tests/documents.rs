//! Findings in JSON documents and their replacement.

use inspection::{
    DigestKey, Encoding, Finding, Findings, Inspector, InvalidJson, MAX_FINDINGS, Part,
    Placeholder, Selection, find_placeholders, redaction, rewrite_json, rewrite_text,
};
use registry_core::entity::policy::DataClass;
use serde_json::{Value, json};

const CARD: &str = "4111111111111111";
const MAIL: &str = "anna.berg@kestrel.dev";

fn inspector() -> Inspector {
    Inspector::new(Selection::all(), DigestKey::new(&[5; 32]))
}

fn found(document: &Value) -> Vec<Finding> {
    let Findings { list, is_truncated } = inspector().json(&document.to_string()).expect("JSON");
    assert!(!is_truncated);
    list
}

fn pointers(document: &Value) -> Vec<String> {
    found(document).iter().map(|finding| finding.pointer.to_string()).collect()
}

fn redacted(document: &Value) -> Value {
    let text = document.to_string();
    let findings = inspector().json(&text).expect("JSON").list;
    let written = rewrite_json(&text, &findings, |overlap| redaction(overlap.class()))
        .expect("no finding in a key");
    serde_json::from_str(&written).expect("JSON")
}

#[test]
fn numbers_and_strings_have_findings() {
    let document =
        json!({ "a": 4_111_111_111_111_111_u64, "b": [CARD], "c": 4.111_111_111_111_111 });
    assert_eq!(pointers(&document), ["/a", "/b/0"]);
    let digests: Vec<_> = found(&document).iter().map(|finding| finding.digest).collect();
    assert_eq!(digests[0], digests[1], "a number and a string of equal digits");
}

#[test]
fn integral_numbers_are_read_in_each_spelling() {
    for number in [
        "4111111111111111.0",
        "4.111111111111111e15",
        "4.1111111111111110E+15",
        "0.4111111111111111e16",
        "0.004111111111111111e18",
        "41111111111111110e-1",
        "411111111111111100.00e-2",
    ] {
        let text = format!(r#"{{"a":{number},"b":"{{\"c\":{number}}}"}}"#);
        let findings = inspector().json(&text).expect("JSON").list;
        let written = rewrite_json(&text, &findings, |overlap| redaction(overlap.class()));
        let expected = r#"{"a":"[redacted:financial]","b":"{\"c\":\"[redacted:financial]\"}"}"#;
        assert_eq!(written.as_deref(), Ok(expected));
        assert_eq!(findings[0].digest, found(&json!(CARD))[0].digest);
    }
}

#[test]
fn keys_have_findings_and_are_hidden() {
    let findings = found(&json!({ MAIL: { "card": CARD }, "b": { MAIL: 1 } }));
    let places: Vec<_> = findings.iter().map(|found| (&*found.pointer, found.part)).collect();
    let expected = [
        ("/[redacted:contact]", Part::Key),
        ("/[redacted:contact]/card", Part::Value),
        ("/b/[redacted:contact]", Part::Key),
    ];
    assert_eq!(places, expected);
}

#[test]
fn keys_are_never_replaced() {
    let text = json!({ "a": { MAIL: 1 } }).to_string();
    let findings = inspector().json(&text).expect("JSON").list;
    let error = rewrite_json(&text, &findings, |_| String::new()).unwrap_err();
    assert_eq!(error.pointer, "/a/[redacted:contact]");
}

#[test]
fn escaped_strings_are_decoded() {
    let text =
        r#"{"a":"anna.berg\u0040kestrel.dev","b":"4111\n","c":"p\/x 4111\u0020111111111111"}"#;
    let findings = inspector().json(text).unwrap().list;
    assert_eq!(findings.iter().map(Finding::class).collect::<Vec<_>>(), [DataClass::Contact]);
    assert_eq!(&text[findings[0].token.clone()], r#""anna.berg\u0040kestrel.dev""#);
    assert_eq!(findings[0].span, 0..MAIL.len());
}

#[test]
fn json_texts_are_inspected_by_their_strings() {
    let inner = r#"{"log":"a\n4111111111111111\nanna.berg\u0040kestrel.dev\t\u00e9AKIAIOSFODNN7EXAMPLE",
        "card":4111111111111111, "anna.berg@kestrel.dev": [true, "\n"], "phones": ["4155552671"]}"#;
    let document = json!({ "content": [{ "type": "text", "text": inner }] });
    let written = redacted(&document);
    let text = written["content"][0]["text"].as_str().expect("a text");
    let expected = json!({
        "log": "a\n[redacted:financial]\n[redacted:contact]\té[redacted:credential]",
        "card": "[redacted:financial]", "[redacted:contact]": [true, "\n"],
        "phones": ["[redacted:contact]"],
    });
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), expected);
    assert!(pointers(&document).iter().all(|pointer| pointer == "/content/0/text"));
    assert!(found(&document).iter().all(|finding| finding.part == Part::Value));
}

#[test]
fn replaced_values_of_json_texts_are_unescaped() {
    let text = json!({ "text": r#"["x\nanna.berg\u0040kestrel.dev"]"# }).to_string();
    let findings = inspector().json(&text).expect("JSON").list;
    let mut values = Vec::new();
    let written = rewrite_json(&text, &findings, |overlap| {
        values.push(overlap.value.to_owned());
        "\"".to_owned()
    });
    assert_eq!(values, [MAIL]);
    let written: Value = serde_json::from_str(&written.expect("no key")).expect("JSON");
    assert_eq!(written["text"], r#"["x\n\""]"#);
    assert_eq!(findings[0].digest, found(&json!(MAIL))[0].digest);
}

#[test]
fn json_texts_have_the_name_of_their_member() {
    assert_eq!(pointers(&json!({ "phones": "[\"4155552671\"]" })), ["/phones"]);
    assert_eq!(pointers(&json!({ "phones": "{\"id\":\"4155552671\"}" })), [""; 0]);
}

#[test]
fn escapes_of_other_texts_are_boundaries() {
    for text in [r"log: \n4111111111111111", r#"{"a":"\nAKIAIOSFODNN7EXAMPLE" ..."#] {
        assert_eq!(pointers(&json!({ "text": text })), ["/text"], "{text}");
    }
    let mail = json!({ "text": r#"{"a": "\nanna.berg@kestrel.dev\n" ..."# });
    assert_eq!(redacted(&mail)["text"], r#"{"a": "\n[redacted:contact]\n" ..."#);
}

#[test]
fn placeholders_hide_no_adjacent_value() {
    for marker in ["[redacted:contact]", "[[contact:K7QX2M]]"] {
        for value in [CARD, MAIL, "AKIAIOSFODNN7EXAMPLE", "DE89370400440532013000", "536-22-8726"] {
            let text = format!("{marker}{value}{marker}");
            let findings = inspector().text(&text).list;
            let spans: Vec<_> =
                findings.iter().map(|finding| &text[finding.span.clone()]).collect();
            assert_eq!(spans, [value], "{text}");
        }
    }
}

#[test]
fn unicode_spaces_and_dashes_separate_digits() {
    let values = [
        "+49 1 51 12 34 56 78",
        "+1-415-555-2671",
        "DE89 3704 0044 0532 0130 00",
        "4539 5787 6362 1486",
        "4539-5787-6362-1486",
        "536-22-8726",
    ];
    for value in values {
        let digest = found(&json!(value))[0].digest;
        for (space, dash) in
            [("\u{a0}", "\u{2010}"), ("\u{202f}", "\u{2011}"), (" ", "\u{2012}"), (" ", "\u{2013}")]
        {
            let text = value.replace(' ', space).replace('-', dash);
            let findings = found(&json!(text));
            assert_eq!(findings.len(), 1, "{text}");
            assert_eq!((findings[0].span.clone(), findings[0].digest), (0..text.len(), digest));
        }
    }
}

#[test]
fn base64_and_percent_are_decoded_once() {
    // The first text is encoded once, the second one twice.
    let once = "bWFpbCB0byBhbm5hLmJlcmdAa2VzdHJlbC5kZXY=";
    let twice = "YldGcGJDQjBieUJoYm01aExtSmxjbWRBYTJWemRISmxiQzVrWlhZPQ==";
    let findings = found(&json!([once, twice, "anna.berg%40kestrel.dev", "a%2540kestrel.dev"]));
    let encodings: Vec<_> = findings.iter().map(|f| (&*f.pointer, f.encoding)).collect();
    assert_eq!(encodings, [("/0", Some(Encoding::Base64)), ("/2", Some(Encoding::Percent))]);
    assert_eq!(findings[0].digest, findings[1].digest);
    assert_eq!(findings[0].digest, found(&json!(MAIL))[0].digest);
}

#[test]
fn base64_of_images_is_not_decoded() {
    let image = "iVBORw0KGgoAAAANSUhEUgAA".repeat(1_000);
    assert_eq!(found(&json!({ "data": image, "mimeType": "image/png" })), []);
}

#[test]
fn member_names_are_context() {
    assert_eq!(pointers(&json!({ "phone": "4155552671", "id": "4155552671" })), ["/phone"]);
    assert_eq!(pointers(&json!({ "phones": ["4155552671"] })), ["/phones/0"]);
    assert_eq!(pointers(&json!({ "password": "correct horse 7 battery" })), ["/password"]);
    assert_eq!(pointers(&json!({ "orderId": CARD, "card": CARD })), ["/card"]);
}

#[test]
fn redaction_keeps_the_rest_of_the_document() {
    let document = json!({
        "text": format!("pay {CARD} or write to {MAIL}\n"), "number": 4_111_111_111_111_111_u64,
        "kept": ["\"\\é", 1, null],
    });
    let expected = json!({
        "text": "pay [redacted:financial] or write to [redacted:contact]\n",
        "number": "[redacted:financial]", "kept": ["\"\\é", 1, null],
    });
    assert_eq!(redacted(&document), expected);
}

#[test]
fn overlapping_spans_are_replaced_as_one() {
    let text = format!("Authorization: Basic YW5uYS5iZXJnQGtlc3RyZWwuZGV2OnEhVng3MQ== {MAIL}");
    let findings = inspector().text(&text).list;
    assert_eq!(findings.len(), 3, "the credentials, the address in them, and the other address");
    let mut overlaps = Vec::new();
    let written = rewrite_text(&text, &findings, |overlap| {
        overlaps.push((overlap.findings.len(), overlap.value.len()));
        "X".to_owned()
    });
    assert_eq!(written, "Authorization: Basic X X");
    assert_eq!(overlaps, [(2, 40), (1, MAIL.len())]);
}

#[test]
fn values_of_other_classes_hide_no_value() {
    for text in [
        "+49 4111 1111 1111 1111",
        "+49 4111-1111-1111-1111",
        "+49-4111-1111-1111-1111",
        "call +49 4539 5787 6362 1486 now",
        "Tel. 4111 1111 1111 1111",
    ] {
        let findings = inspector().text(text).list;
        let cards = findings.iter().filter(|found| found.class() == DataClass::Financial);
        let cards: Vec<_> = cards.map(|found| found.span.len()).collect();
        assert_eq!(cards, [19], "{text}");
        let written = rewrite_text(text, &findings, |_| "X".to_owned());
        assert!(!written.contains(|char: char| char.is_ascii_digit()), "{written}");
    }
}

#[test]
fn passwords_hide_no_encoded_value_of_another_class() {
    let text = "https://svc:4539%205787%206362%201486@db.kestrel.dev/";
    let findings = inspector().text(text).list;
    for class in [DataClass::Financial, DataClass::Credential] {
        assert!(findings.iter().any(|found| found.class() == class), "{class}");
    }
}

#[test]
fn numbers_inside_of_numbers_of_their_class_are_no_findings() {
    for (text, class) in [
        ("+49 30 23125 123", DataClass::Contact),
        ("phone +49 212 664 7665", DataClass::Contact),
        ("card 4111 1111 1111 1111", DataClass::Financial),
    ] {
        let classes: Vec<_> = inspector().text(text).list.iter().map(Finding::class).collect();
        assert_eq!(classes, [class], "{text}");
    }
}

#[test]
fn overlaps_have_all_their_classes() {
    // "card 4539578763621486 mail alice.long@firma.de"
    let text = "Y2FyZCA0NTM5NTc4NzYzNjIxNDg2IG1haWwgYWxpY2UubG9uZ0BmaXJtYS5kZQ==";
    let findings = inspector().text(text).list;
    let mut classes = Vec::new();
    rewrite_text(text, &findings, |overlap| {
        classes.extend(overlap.classes().iter());
        String::new()
    });
    assert_eq!(classes, [DataClass::Financial, DataClass::Contact]);
}

#[test]
fn chosen_findings_are_replaced() {
    let text = format!("{CARD} {MAIL}");
    let findings = inspector().text(&text).list;
    let contacts = findings.iter().filter(|finding| finding.class() == DataClass::Contact);
    let written = rewrite_text(&text, contacts, |overlap| {
        Placeholder::from_random(overlap.class(), 1).to_string()
    });
    assert_eq!(find_placeholders(&written).count(), 1);
    assert!(written.starts_with(CARD) && !written.contains(MAIL));
}

#[test]
fn many_findings_are_reported_as_truncated() {
    let document = json!(vec![MAIL; MAX_FINDINGS + 1]).to_string();
    for findings in [inspector().json(&document).unwrap(), inspector().text(&document)] {
        assert_eq!(findings.list.len(), MAX_FINDINGS);
        assert!(findings.is_truncated);
    }
}

#[test]
fn large_document_is_inspected_completely() {
    let mut items = vec![json!({ "text": "word ".repeat(200), "n": 12_345 }); 15_000];
    items.push(json!({ "card": CARD }));
    let document = json!(items);
    assert!(document.to_string().len() > 15_000_000);
    assert_eq!(pointers(&document), ["/15000/card"]);
}

#[test]
fn invalid_documents_are_rejected() {
    assert_eq!(inspector().json("{\"a\":").unwrap_err(), InvalidJson::Syntax(5));
    let deep = "[".repeat(2_000);
    assert!(matches!(inspector().json(&deep).unwrap_err(), InvalidJson::TooDeep(_)));
}

#[test]
fn unselected_classes_have_no_findings() {
    let text = format!("{CARD} {MAIL} CPF 111.444.777-35");
    let inspect = |selection| Inspector::new(selection, DigestKey::new(&[5; 32])).text(&text).list;
    assert_eq!(inspect(Selection::of([])), []);
    let contact = inspect(Selection::of([DataClass::Contact]));
    assert_eq!(contact.iter().map(Finding::class).collect::<Vec<_>>(), [DataClass::Contact]);
    assert_eq!(inspect(Selection::of([DataClass::GovernmentId])), [], "CPF is opt-in");
}

#[test]
fn digests_depend_on_the_key() {
    let digest = |key| {
        let inspector = Inspector::new(Selection::default(), DigestKey::new(&[key; 32]));
        inspector.text(MAIL).list[0].digest
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}
