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
    let omitted = all - findings.len();
    if omitted > 0 {
        let message = format!("{omitted} of {all} findings do not fit into the response");
        let rest = Diagnostic::warning(Code::FindingsTruncated, "", message);
        findings.push((&rest.with_help(help)).into());
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_findings_have_their_own_code() {
        let finding = v1::Diagnostic { message: "x".repeat(100), ..Default::default() };
        let kept = fitting(vec![finding.clone(); 2], 1_000, "");
        assert_eq!(kept, vec![finding.clone(); 2]);
        let codes: Vec<_> =
            fitting(vec![finding; 3], 250, "").into_iter().map(|found| found.code).collect();
        assert_eq!(codes, ["", "", "findings-truncated"]);
    }
}
