//! Cutting long lists of findings so that an answer fits.

use prost::Message as _;
use registry_core::{Code, Diagnostic};
use registry_proto::v1;

/// Most bytes of findings beside a plan: stock clients take messages of 4 MiB.
pub(super) const ANSWER_BYTES: usize = 1 << 20;

/// Keeps the first findings, as many as take so many bytes in a message.
pub(super) fn cut(findings: &mut Vec<v1::Diagnostic>, most_bytes: usize) {
    let mut bytes = 0;
    findings.retain(|found| {
        bytes += found.encoded_len() + 4;
        bytes <= most_bytes
    });
}

/// As many findings as an answer has room for, and a last one that says if they are not all.
pub(super) fn for_answer(findings: Vec<v1::Diagnostic>) -> Vec<v1::Diagnostic> {
    fitting(findings, ANSWER_BYTES, "mend these, or apply smaller batches")
}

/// The same for so many bytes; `help` says how to get at the others.
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
