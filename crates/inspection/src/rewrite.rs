//! Replacement of values in a text or JSON document.

use std::{fmt, ops::Range};

use registry_core::entity::policy::DataClass;

use crate::{class::Classes, finding::Finding, finding::Part, json};

/// Findings that overlap in one string, and are replaced as one.
pub struct Overlap<'a> {
    /// At least one, ordered by their start.
    pub findings: Vec<&'a Finding>,
    /// The text of all spans together. It is sensitive.
    pub value: &'a str,
}

impl fmt::Debug for Overlap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlap").field("findings", &self.findings).finish_non_exhaustive()
    }
}

impl Overlap<'_> {
    /// The class of the longest finding.
    pub fn class(&self) -> DataClass {
        let longest = self.findings.iter().max_by_key(|finding| finding.span.len());
        longest.map_or(DataClass::Credential, |finding| finding.class())
    }

    /// The classes of all findings. A base64 text may have several, and its value is in each of them.
    pub fn classes(&self) -> Classes {
        self.findings.iter().map(|finding| finding.class()).collect()
    }
}

/// A key has a finding. Renaming a member would change the meaning of the document.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot replace a value in the name of the member at `{pointer}`")]
pub struct KeyFinding {
    /// The pointer of the member.
    pub pointer: String,
}

/// The text with these findings replaced. The findings are of this text, in any order.
pub fn rewrite_text<'a>(
    text: &str,
    findings: impl IntoIterator<Item = &'a Finding>,
    mut replacement: impl FnMut(&Overlap<'_>) -> String,
) -> String {
    let mut findings: Vec<_> = findings.into_iter().collect();
    findings.sort_by_key(|finding| (finding.span.start, finding.span.end));
    replaced(text, &findings, &mut replacement)
}

/// The JSON document with these findings replaced. The findings are of this document, in any order. A
/// number becomes a string. A string that was a JSON object or array still is one.
pub fn rewrite_json<'a>(
    json: &str,
    findings: impl IntoIterator<Item = &'a Finding>,
    mut replacement: impl FnMut(&Overlap<'_>) -> String,
) -> Result<String, KeyFinding> {
    let mut findings: Vec<_> = findings.into_iter().collect();
    if let Some(finding) = findings.iter().find(|finding| finding.part == Part::Key) {
        return Err(KeyFinding { pointer: finding.pointer.to_string() });
    }
    let inner = |finding: &Finding| finding.inner.clone().unwrap_or_default();
    findings.sort_by_key(|finding| {
        let Range { start, end } = finding.span;
        (finding.token.start, inner(finding).start, start, end)
    });
    let outer = |finding: &Finding| finding.token.clone();
    Ok(with_strings(json, &findings, outer, |string, findings| {
        if findings[0].inner.is_none() {
            return replaced(string, findings, &mut replacement);
        }
        with_strings(string, findings, inner, |string, findings| {
            replaced(string, findings, &mut replacement)
        })
    }))
}

/// The document with the strings and numbers at these places written again. The findings are ordered by
/// their places.
fn with_strings(
    json: &str,
    findings: &[&Finding],
    place: impl Fn(&Finding) -> Range<usize>,
    mut string: impl FnMut(&str, &[&Finding]) -> String,
) -> String {
    let mut written = String::with_capacity(json.len());
    let mut end = 0;
    for group in findings.chunk_by(|a, b| place(a) == place(b)) {
        let token = place(group[0]);
        let (Some(before), Some(raw)) = (json.get(end..token.start), json.get(token.clone()))
        else {
            continue;
        };
        written += before;
        json::write_string(&string(&json::string(raw), group), &mut written);
        end = token.end;
    }
    written += json.get(end..).unwrap_or_default();
    written
}

/// The string with its findings replaced, which are ordered by start.
fn replaced(
    string: &str,
    findings: &[&Finding],
    replacement: &mut impl FnMut(&Overlap<'_>) -> String,
) -> String {
    let mut written = String::with_capacity(string.len());
    let mut end = 0;
    for Merged { span, findings } in merged(findings) {
        let (Some(before), Some(value)) = (string.get(end..span.start), string.get(span.clone()))
        else {
            continue;
        };
        written += before;
        written += &replacement(&Overlap { findings: findings.to_vec(), value });
        end = span.end;
    }
    written += string.get(end..).unwrap_or_default();
    written
}

struct Merged<'a, 'b> {
    span: Range<usize>,
    findings: &'b [&'a Finding],
}

/// Joins findings whose spans share a byte.
fn merged<'a, 'b>(findings: &'b [&'a Finding]) -> Vec<Merged<'a, 'b>> {
    let mut all: Vec<Merged<'_, '_>> = Vec::new();
    let mut first = 0;
    for (i, finding) in findings.iter().enumerate() {
        let span = finding.span.clone();
        if let Some(last) = all.last_mut().filter(|last| span.start < last.span.end) {
            last.span.end = last.span.end.max(span.end);
            last.findings = &findings[first..=i];
        } else {
            first = i;
            all.push(Merged { span, findings: &findings[i..=i] });
        }
    }
    all
}
