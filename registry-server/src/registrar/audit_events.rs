//! Log events for auditors: commits and denied writes.

use registry_core::{Code, Commit, Diagnostic, SealedCommit};

use super::Submission;

/// Maximum logged denials of one request.
const DENIALS: usize = 20;

/// Logs a commit of this server. `address` is empty if it is unknown.
pub(super) fn committed(sealed: &SealedCommit, address: &str) {
    let Commit { revision, author, changes, settings, .. } = sealed.commit();
    let address = Some(address).filter(|address| !address.is_empty());
    tracing::info!(
        target: "audit",
        event = "committed",
        revision = revision.0,
        principal = author,
        address,
        chain = %sealed.chain(),
        changes = changes.len() + settings.len(),
    );
}

/// Logs the changes of a rejected write, or of its dry run, that its author may not make.
pub(crate) fn denied(submission: &Submission, found: &[Diagnostic], is_dry_run: bool) {
    let Submission { author, address, .. } = submission;
    for denial in found.iter().filter(|found| is_denial(found.code)).take(DENIALS) {
        tracing::info!(
            target: "audit",
            event = "denied",
            principal = author,
            address,
            reason = denial.code.as_str(),
            entity = denial.entity.as_ref().map(ToString::to_string),
            detail = denial.message,
            dry_run = is_dry_run,
        );
    }
}

/// Whether a finding denies the permission of an author.
pub(crate) fn is_denial(code: Code) -> bool {
    matches!(code, Code::NotOwner | Code::OutsideScope | Code::RoleRequired)
}
