//! `deprecated-dependency`: nobody begins to depend on what is going away.
//!
//! A warning for something deprecated, an error for something retired, as it is once the batch is
//! in. What is registered already keeps its dependencies; so does what comes in one batch with a
//! target that is retired from the start, as in a copy of another registry. Deliberately absent: a
//! server's `provides`, which is an offer and no dependency.

use super::{
    Relation,
    proposal::{New, Proposal},
};
use crate::{
    diagnostic::{Code, Diagnostic},
    lifecycle::LifecycleState,
};

pub(super) fn check(proposal: &Proposal<'_>, new: &New<'_>, found: &mut Vec<Diagnostic>) {
    for reference in new.references.iter().filter(|r| r.relation != Relation::Provides) {
        let (state, reason) = proposal.lifecycle(&reference.key);
        let report = match state {
            LifecycleState::Active => continue,
            LifecycleState::Deprecated => Diagnostic::warning,
            LifecycleState::Retired if proposal.position(&reference.key).is_some() => {
                Diagnostic::warning
            }
            LifecycleState::Retired => Diagnostic::error,
        };
        let mut message = format!("{} depends on {}, which is {state}", new.key(), reference.key);
        if let Some(reason) = reason {
            message = format!("{message}: {reason}");
        }
        let problem = report(Code::DeprecatedDependency, reference.pointer.clone(), message);
        new.report(found, problem.with_help("depend on a version that is active"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Proposed,
        testing::{found_of, renamed, server, set, source_tool},
    };
    use crate::{
        diagnostic::Code,
        lifecycle::LifecycleState::{Active, Deprecated, Retired},
    };

    fn found(registered: &[Proposed], batch: &[Proposed]) -> String {
        found_of(Code::DeprecatedDependency, registered, batch)
    }

    #[test]
    fn deprecated_warns_and_retired_is_refused() {
        let registered = [server("files", &["read"]), source_tool("read", "files")];
        let alias = || renamed(&source_tool("read", "files"), "cat");
        let deprecate = set("server/files@1.0.0", Deprecated, Some("use disks"));
        assert_eq!(
            found(&registered, &[alias(), deprecate]),
            "warning[deprecated-dependency] tool/cat@1.0.0 at \"/source\": tool/cat@1.0.0 depends \
             on server/files@1.0.0, which is deprecated: use disks \
             (depend on a version that is active)"
        );
        let retire = || set("server/files@1.0.0", Retired, None);
        assert_eq!(
            found(&registered, &[retire(), alias()]),
            "error[deprecated-dependency] tool/cat@1.0.0 at \"/source\": tool/cat@1.0.0 depends \
             on server/files@1.0.0, which is retired (depend on a version that is active)"
        );
        let restore = set("server/files@1.0.0", Active, None);
        assert_eq!(found(&registered, &[retire(), restore, alias()]), "");
    }

    #[test]
    fn a_copy_brings_what_is_retired_together_with_what_depends_on_it() {
        let copy = [
            server("files", &["read"]),
            source_tool("read", "files"),
            set("server/files@1.0.0", Retired, None),
        ];
        assert!(found(&[], &copy).starts_with("warning[deprecated-dependency] tool/read@1.0.0"));
        assert!(found(&copy[..2], &[copy[2].clone(), renamed(&copy[1], "cat")]).starts_with("err"));
    }

    #[test]
    fn what_is_registered_keeps_its_dependencies() {
        let registered = [server("files", &["read"]), source_tool("read", "files")];
        let again = source_tool("read", "files");
        assert_eq!(found(&registered, &[again, set("server/files@1.0.0", Retired, None)]), "");
    }
}
