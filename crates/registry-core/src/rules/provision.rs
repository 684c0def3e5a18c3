//! `provision-unknown`: a server provides only registered tool versions.

use super::{
    NOT_REGISTERED,
    proposal::{NewEntity, Proposal},
};
use crate::{
    diagnostic::{Code, Diagnostic},
    edges::Relation,
};

pub(super) fn check(proposal: &Proposal<'_>, new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    for reference in new.references.iter().filter(|r| r.relation == Relation::Provides) {
        let key = &reference.key;
        if !proposal.is_known(key) {
            let message = format!("the server provides {key}, which {NOT_REGISTERED}");
            let unknown = Diagnostic::error(Code::ProvisionUnknown, &reference.pointer, message);
            new.report(found, unknown.with_help(proposal.help_for_unknown(key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{found, server, source_tool};

    #[test]
    fn provision_reports_each_unknown_tool_version() {
        let batch = [server("files", &["read", "write@2.0.0"]), source_tool("read", "files")];
        insta::assert_snapshot!(
            found(&[], &batch),
            @"error[provision-unknown] server/files@1.0.0 at \"/provides/1\": the server provides \
              tool/write@2.0.0, which is not registered (register tool/write@2.0.0 first, or in \
              the same batch)"
        );
    }

    #[test]
    fn provision_help_lists_registered_versions() {
        let registered = [source_tool("read", "files"), server("files", &["read"])];
        let found = found(&registered, &[server("more", &["read@1.1.0"])]);
        insta::assert_snapshot!(
            found,
            @"error[provision-unknown] server/more@1.0.0 at \"/provides/0\": the server provides \
              tool/read@1.1.0, which is not registered (register tool/read@1.1.0 in the same \
              batch, or refer to a registered version: 1.0.0)"
        );
    }
}
