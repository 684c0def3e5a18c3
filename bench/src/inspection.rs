//! Inspection of texts and JSON documents by all classes: throughput, and time on hostile input.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use acceptance::mcp::MODERN;
use inspection::{DigestKey, Inspector, Selection};
use registry_core::entity::policy::DataClass;
use registry_proto::v1;
use serde_json::{Value, json};

use crate::{
    report::{Report, Row},
    sample,
    turns::{self, CONNECTIONS, Case},
};

/// Bytes of one inspected text. It has fewer findings than are collected.
const TEXT_BYTES: usize = 256 << 10;
const TIME: Duration = Duration::from_secs(1);
const PROSE: &str = "The gateway forwards each call to its upstream and returns the result to the \
                     caller. Every event is one line with a name, a verdict and a reason. ";
/// Candidates of each kind of value, valid and invalid.
const CANDIDATES: [&str; 10] = [
    "4111 1111 1111 1111",
    "4111111111111112",
    "anna.berg@kestrel.dev",
    "user@example.com",
    "+49 30 23125 123",
    "DE89 3704 0044 0532 0130 00",
    "password=config.value",
    "512-33-8741",
    "10.20.30.40",
    "api_key=YOUR_API_KEY",
];
/// Texts whose repetitions have as many candidates as possible, or long ones.
const HOSTILE: [&str; 29] = [
    "4111 ",
    "1 ",
    "1",
    "1.1.1.",
    "+1 ",
    "DE89 ",
    "@",
    "a@",
    "://a:b@",
    "password=",
    "token='",
    "key key ",
    "-----BEGIN PRIVATE KEY-----",
    "eyJ.",
    "sk-",
    "bearer ",
    "%41",
    "%41 ",
    "aGVs",
    "a:b:",
    "%FCa",
    "[[",
    "é@",
    "| key | ",
    "secret:\n",
    "wa.me/1",
    "4111111111111111/12/",
    "DE89 3704 0044 0532 0130 01 ",
    "a",
];

/// Measures throughput, then hostile input.
pub(crate) async fn measure(report: &mut Report, seconds: u64) {
    calls(report, (40, "≤ 1.2 × without policies"), seconds).await;
    calls(report, (1_024, "≤ 1.4 × without policies"), seconds).await;
    let inspector = Inspector::new(Selection::of(DataClass::ALL), DigestKey::new(&[1; 32]));
    let prose = PROSE.repeat(TEXT_BYTES / PROSE.len());
    let inspected = |text: &str| {
        megabytes_per_second(text, |text| {
            black_box(inspector.text(text));
        })
    };
    report.add_alone(
        "inspection of a text without candidates",
        format!("{:.0} MB/s", inspected(&prose)),
        "≥ 150 MB/s",
    );
    report.add_alone(
        "inspection of a text with one candidate per 100 bytes",
        format!("{:.0} MB/s", inspected(&with_candidates())),
        "≥ 40 MB/s",
    );
    documents(report, &inspector);
    hostile(report, &inspector);
}

/// Inspection of arguments and results for all classes.
pub(crate) fn strict() -> v1::PolicyInspection {
    v1::PolicyInspection {
        profile: v1::PolicyInspectionProfile::Strict.into(),
        ..Default::default()
    }
}

/// CPU of a call whose arguments and result are inspected for all classes.
async fn calls(report: &mut Report, (payload_bytes, budget): (usize, &'static str), seconds: u64) {
    let inspection = strict();
    let (free, inspected) = ("ungoverned", "inspected");
    let policy =
        v1::Policy { inspection: Some(inspection), ..sample::policy(inspected, inspected, "echo") };
    let cases =
        [Case { agent: free, policy: None }, Case { agent: inspected, policy: Some(policy) }];
    let [without, with] = turns::cpu_per_call(&cases, payload_bytes, seconds).await;
    report.add(Row {
        path: format!(
            "CPU per tools/call of {MODERN}, {payload_bytes} B there and back, \
             {CONNECTIONS} connections, with inspection of arguments and results for all classes"
        ),
        value: format!("{with:.1} µs"),
        baseline: format!("without policies {without:.1} µs"),
        ratio: Some(with / without),
        budget,
    });
}

/// A candidate in each 100 bytes.
fn with_candidates() -> String {
    let part = |candidate: &&str| {
        let rest = 99 - candidate.len();
        format!("{} {candidate}", &PROSE[..rest])
    };
    let parts: String = CANDIDATES.iter().map(part).collect();
    parts.repeat(TEXT_BYTES / parts.len())
}

fn megabytes_per_second(text: &str, inspect: impl Fn(&str)) -> f64 {
    inspect(text);
    let (begin, mut bytes) = (Instant::now(), 0);
    while begin.elapsed() < TIME {
        inspect(text);
        bytes += text.len();
    }
    megabytes(bytes) / begin.elapsed().as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "counts of bytes fit a double")]
fn megabytes(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// Compares with the time to parse the same document.
fn documents(report: &mut Report, inspector: &Inspector) {
    let item = |number: usize| {
        json!({
            "id": number, "name": format!("item number {number}"), "active": true, "price": 12.5,
            "tags": ["red", "blue"], "createdAt": "2026-11-26T13:05:02Z",
        })
    };
    let document = (0..2_000).map(item).collect::<Value>().to_string();
    let inspected = megabytes_per_second(&document, |text| {
        black_box(inspector.json(text).is_ok());
    });
    let parsed = megabytes_per_second(&document, |text| {
        black_box(serde_json::from_str::<Value>(text).is_ok());
    });
    report.add(Row {
        path: "inspection of a JSON document with numbers and times".to_owned(),
        value: format!("{inspected:.0} MB/s"),
        baseline: format!("parsed by serde_json: {parsed:.0} MB/s"),
        ratio: Some(inspected / parsed),
        budget: "",
    });
}

/// Compares 16 MiB with 1 MiB of each hostile text.
fn hostile(report: &mut Report, inspector: &Inspector) {
    let rate = |part: &str, bytes: usize| {
        let text = part.repeat(bytes / part.len());
        let begin = Instant::now();
        black_box(inspector.text(&text));
        megabytes(text.len()) / begin.elapsed().as_secs_f64()
    };
    // The fastest of three runs: other programs use the machine.
    let best = |part: &str, bytes| (0..3).map(|_| rate(part, bytes)).fold(0.0, f64::max);
    let rates = HOSTILE.map(|part| (part, best(part, 1 << 20), best(part, 16 << 20)));
    let ratios = rates.map(|(part, short, long)| (part, short / long, long));
    let (part, ratio, _) = ratios.iter().max_by(|a, b| a.1.total_cmp(&b.1)).expect("texts");
    report.add(Row {
        path: format!("inspection of {} hostile texts: time per byte of 16 MiB", HOSTILE.len()),
        value: format!("at most {ratio:.2} × that of 1 MiB, for `{}`", part.trim()),
        baseline: "1 MiB of the same text".to_owned(),
        ratio: Some(*ratio),
        budget: "≤ 2",
    });
    let (part, _, slowest) = ratios.iter().min_by(|a, b| a.2.total_cmp(&b.2)).expect("texts");
    report.add_alone(
        "inspection of the slowest hostile text",
        format!("{slowest:.0} MB/s, for `{}`", part.trim()),
        "",
    );
}
