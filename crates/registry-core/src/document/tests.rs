//! Tests of documents.

use serde_json::{Value, json};

use super::{Digest, Document, InvalidDocument, canonical_bytes, exact_bytes, parse_json};
use crate::{
    diagnostic::Diagnostic,
    kind::Kind,
    limits,
    rules::testing::{lines, tool},
};

fn canonical(json: &str) -> String {
    let value: Value = serde_json::from_str(json).unwrap();
    String::from_utf8(canonical_bytes(&value)).unwrap()
}

/// RFC 8785, sections 3.2.2 and 3.2.4.
#[test]
fn canonical_form_matches_rfc_example() {
    let input = r#"{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    assert_eq!(
        canonical(input),
        r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
    );
}

/// RFC 8785, section 3.2.3: names are sorted by UTF-16 code units.
#[test]
fn canonical_form_sorts_by_utf16() {
    let input = r#"{
        "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis"
    }"#;
    let names: Vec<_> = canonical(input)
        .split("\":\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "Carriage Return",
            "One",
            "Control",
            "Latin Small Letter O With Diaeresis",
            "Euro Sign",
            "Emoji: Grinning Face",
            "Hebrew Letter Dalet With Dagesh",
        ]
    );
}

/// RFC 8785, appendix B: IEEE 754 bit patterns and their text.
#[test]
fn canonical_form_matches_rfc_numbers() {
    for (bits, expected) in [
        (0x0000_0000_0000_0000, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        let number = f64::from_bits(bits);
        assert_eq!(canonical(&canonical_bytes_of(number)), expected, "{bits:016x}");
    }
}

#[test]
fn exact_form_keeps_digits_or_is_none() {
    let exact = |json: &str| {
        let value: Value = serde_json::from_str(json).unwrap();
        exact_bytes(&value).map(|bytes| String::from_utf8(bytes).unwrap())
    };
    for (json, expected) in [
        (
            r#"{"b":1234567890123456789,"a":[null,true]}"#,
            r#"{"a":[null,true],"b":1234567890123456789}"#,
        ),
        ("1234567890123456790", "1234567890123456790"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551615", "18446744073709551615"),
        ("1.0", "1"),
        ("1e2", "100"),
        ("-0.0", "0"),
        ("0.1", "0.1"),
    ] {
        assert_eq!(exact(json).as_deref(), Some(expected), "{json}");
    }
    for json in ["18446744073709551616", "[-9223372036854775809]", r#"{"a":9007199254740993.0}"#] {
        assert_eq!(exact(json), None, "{json}");
    }
}

/// JSON text that parses back to the same number.
fn canonical_bytes_of(number: f64) -> String {
    format!("{number:e}")
}

fn problems(members: Value) -> String {
    let mut value = json!({ "name": "A", "version": "1.0.0", "schema": true });
    value.as_object_mut().unwrap().insert("metadata".to_owned(), members);
    lines(&Document::parse(Kind::Schema, &value).err().unwrap_or_default())
}

#[test]
fn document_limits_size_depth_and_numbers() {
    let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({ "x": inner }));
    assert_eq!(problems(deep(limits::DOCUMENT_DEPTH - 2)), "");
    insta::assert_snapshot!(
        problems(deep(limits::DOCUMENT_DEPTH - 1)),
        @"error[document-invalid] at \
          \"/metadata/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x/x\": \
          nested deeper than 64 levels (flatten it, or move parts into separate schemas)"
    );
    assert_eq!(problems(json!({ "n": limits::SAFE_INTEGER })), "");
    let unsafe_numbers = [
        json!(limits::SAFE_INTEGER + 1),
        json!(-limits::SAFE_INTEGER - 1),
        json!(u64::MAX),
        json!(1e17),
    ];
    let found = unsafe_numbers.map(|number| problems(json!({ "n": number })));
    insta::assert_snapshot!(found.join("\n"), @r#"
    error[document-invalid] at "/metadata/n": the number 9007199254740993 is outside of ±2^53 and would lose precision (write it as a string)
    error[document-invalid] at "/metadata/n": the number -9007199254740993 is outside of ±2^53 and would lose precision (write it as a string)
    error[document-invalid] at "/metadata/n": the number 18446744073709551615 is outside of ±2^53 and would lose precision (write it as a string)
    error[document-invalid] at "/metadata/n": the number 1e+17 is outside of ±2^53 and would lose precision (write it as a string)
    "#);
    let big = problems(json!({ "x": "y".repeat(limits::DOCUMENT_BYTES) }));
    insta::assert_snapshot!(
        big,
        @"error[document-invalid] at \"\": the document has 262208 bytes; the maximum is 262144 \
          (move shared parts into separate schemas)"
    );
}

#[test]
fn digest_is_independent_of_syntax() {
    let one = r#"{ "version": "1.0.0", "$comment": "x", "name": "A", "schema": { "b": 1.0, "a": 10e0 } }"#;
    let other = r#"{"name":"A","schema":{"a":10,"b":1},"version":"1.0.0","description":null}"#;
    let digest = |text| {
        let value = parse_json(str::as_bytes(text)).unwrap();
        Document::parse(Kind::Schema, &value).unwrap().digest()
    };
    assert_eq!(digest(one), digest(other));
    assert_eq!(digest(one).to_string().len(), 71);
    assert_eq!(Digest::parse(&digest(one).to_string()).unwrap(), digest(one));
}

#[test]
fn verify_rejects_other_digest_or_kind() {
    let crate::rules::Proposed::Register(document) = tool("t", json!({ "spec": {} })) else {
        panic!("not a registration")
    };
    let (bytes, digest) = (document.bytes().clone(), document.digest());
    assert_eq!(Document::verify(Kind::Tool, bytes.clone(), digest).unwrap(), *document);
    let other = Document::verify(Kind::Tool, bytes.slice(1..), digest).unwrap_err();
    assert!(matches!(other, InvalidDocument::Digest { expected, .. } if expected == digest));
    let kind = Document::verify(Kind::Agent, bytes, digest).unwrap_err();
    assert!(matches!(kind, InvalidDocument::Entity { kind: Kind::Agent, .. }), "{kind}");
    let text = bytes::Bytes::from_static(b"{");
    let error = Document::verify(Kind::Tool, text.clone(), Digest::compute(&text)).unwrap_err();
    assert!(matches!(error, InvalidDocument::Json(_)));
}

#[test]
fn parse_reports_all_problems_without_name() {
    let found = |kind, value: Value| -> Vec<String> {
        let problems: Vec<Diagnostic> = Document::parse(kind, &value).unwrap_err();
        problems.iter().map(|d| format!("{} {}: {}", d.code, d.pointer, d.message)).collect()
    };
    assert_eq!(
        found(Kind::Tool, json!({ "version": "1", "depends": [{}], "x": 1, "inputSchema": 7 })),
        [
            "document-invalid : the required field `name` is missing",
            "version-invalid /version: `1` is not an exact semantic version: \
             unexpected end of input while parsing major version number",
            "implementation-ambiguous : a tool needs exactly one of `source` and `spec`, \
             but has neither",
            "document-invalid /depends/0: the required field `type` is missing",
            "document-invalid /depends/0: the required field `name` is missing",
            "document-invalid /depends/0: the required field `version` is missing",
            "document-invalid /inputSchema: \
             expected a JSON Schema (an object or a boolean), got the number 7",
            "document-invalid /x: unknown field `x`",
        ]
    );
    let agent = found(Kind::Agent, json!({ "skills": [{ "id": 1 }], "y": {} }));
    assert!(agent.contains(&"document-invalid /y: unknown field `y`".to_owned()), "{agent:?}");
    assert!(
        agent.contains(
            &"document-invalid /skills/0: the required field `name` is missing".to_owned()
        )
    );
    let server = found(Kind::Server, json!({ "z": 1 }));
    assert_eq!(server.len(), 4, "{server:?}");
    let schema = found(Kind::Schema, json!({ "z": 1 }));
    assert_eq!(schema.len(), 4, "{schema:?}");
}

#[test]
fn text_instead_of_schema_shows_the_reference() {
    for (written, expected) in [
        ("#Ticket", Some(r##"{ "$ref": "#Ticket:1.0.0" }"##)),
        ("#Ticket:2.1.0", Some(r##"{ "$ref": "#Ticket:2.1.0" }"##)),
        ("object", None),
        ("#not a name", None),
    ] {
        let tool = json!({ "name": "t", "version": "1.0.0", "outputSchema": written });
        let found = Document::parse(Kind::Tool, &tool).unwrap_err();
        let about = found.iter().find(|found| found.pointer == "/outputSchema").unwrap();
        let help = about.help.as_deref().unwrap();
        assert_eq!(help.contains("$ref"), expected.is_some(), "{help}");
        assert!(help.contains(expected.unwrap_or("write a JSON Schema")), "{help}");
    }
}

#[test]
fn parse_json_rejects_repeated_names() {
    let twice = parse_json(br#"{ "a": 1, "b": { "c": 1, "c": 2 } }"#).unwrap_err();
    insta::assert_snapshot!(twice.reason, @"not valid JSON: `c` occurs twice in one object");
    assert_eq!((twice.line, twice.column), (1, 28));
    assert!(parse_json(br#"{ "a": 1, "b": { "a": 1 } }"#).is_ok());
    assert!(parse_json(b"{} {}").unwrap_err().reason.contains("trailing"));
}

#[test]
fn parse_json_distinguishes_depth_from_syntax() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(parse_json(nested(127).as_bytes()).is_ok());
    let deep = parse_json(nested(128).as_bytes()).unwrap_err().to_string();
    insta::assert_snapshot!(deep, @"JSON nested deeper than 127 levels at line 1 column 128");
    // Invalid JSON is reported as invalid at any depth.
    let broken = parse_json(b"[").unwrap_err().to_string();
    insta::assert_snapshot!(broken, @"not valid JSON: EOF while parsing a list at line 1 column 1");
}

#[test]
fn document_equals_reparsed_bytes() {
    let value = json!({ "name": "A", "version": "1.0.0", "schema": { "enum": [1.0, -0.0, 2.5] } });
    let document = Document::parse(Kind::Schema, &value).unwrap();
    let read = Document::verify(Kind::Schema, document.bytes().clone(), document.digest());
    assert_eq!(read, Ok(document));
}
