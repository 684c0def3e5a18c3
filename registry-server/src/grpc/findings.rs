//! Truncates lists of findings to the size of a response.

use prost::Message as _;
use registry_core::{Code, Diagnostic};
use registry_proto::v1;

/// The size of the findings in a response. Clients accept 4 MiB by default.
pub(super) const ANSWER_BYTES: usize = 1 << 20;

/// Keeps the first findings that fit into this size.
pub(super) fn cut(findings: &mut Vec<v1::Diagnostic>, most_bytes: usize) {
    let mut bytes = 0;
    findings.retain(|found| {
        bytes += found.encoded_len() + 4;
        bytes <= most_bytes
    });
}

/// The findings that fit into a response. If some are omitted, the last one says so.
pub(super) fn for_answer(findings: Vec<v1::Diagnostic>) -> Vec<v1::Diagnostic> {
    fitting(findings, ANSWER_BYTES, "correct these, or apply smaller batches")
}

/// The same for another size. `help` is the remedy if some are omitted.
pub(super) fn fitting(
    mut findings: Vec<v1::Diagnostic>,
    most_bytes: usize,
    help: &str,
) -> Vec<v1::Diagnostic> {
    let all = findings.len();
    cut(&mut findings, most_bytes);
    if findings.len() < all {
        let message = format!("{} of {all} findings are shown", findings.len());
        let rest = Diagnostic::warning(Code::DocumentInvalid, "", message);
        findings.push((&rest.with_help(help)).into());
    }
    findings
}
