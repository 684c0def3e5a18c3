//! `deprecated-dependency`: a new dependency on a deprecated (warning) or retired (error) entity.
//!
//! The state after the batch counts. A registered active entity keeps its dependencies; a restored
//! one is checked again. An import from another registry may contain retired entities together with
//! their dependents, because that registry accepted them.

use super::{
    BatchOrigin,
    proposal::{NewEntity, Proposal},
};
use crate::{
    diagnostic::{Code, Diagnostic},
    edges::Relation,
    lifecycle::LifecycleState,
    reference::Key,
};

pub(super) fn check(
    proposal: &Proposal<'_>,
    new: &NewEntity<'_>,
    origin: BatchOrigin,
    found: &mut Vec<Diagnostic>,
) {
    for reference in new.references.iter().filter(|r| r.relation != Relation::Provides) {
        let (state, reason) = proposal.lifecycle(&reference.key);
        let report = match state {
            LifecycleState::Active => continue,
            LifecycleState::Deprecated => Diagnostic::warning,
            LifecycleState::Retired if may_need(proposal, new.key(), &reference.key, origin) => {
                Diagnostic::warning
            }
            LifecycleState::Retired => Diagnostic::error,
        };
        let mut message = format!("{} depends on {}, which is {state}", new.key(), reference.key);
        if let Some(reason) = reason {
            message = format!("{message}: {reason}");
        }
        let problem = report(Code::DeprecatedDependency, reference.pointer.clone(), message);
        let help = match proposal.replacement(&reference.key) {
            Some(replacement) => format!("depend on its replacement {replacement}"),
            None => "depend on a version that is active".to_owned(),
        };
        new.report(found, problem.with_help(help));
    }
}

/// Whether a new entity may depend on a retired one because both come from another registry.
fn may_need(proposal: &Proposal<'_>, user: &Key, target: &Key, origin: BatchOrigin) -> bool {
    let together = proposal.position(target).is_some();
    match (origin, proposal.lifecycle(user).0) {
        (BatchOrigin::File, _) | (_, LifecycleState::Deprecated) => together,
        (_, LifecycleState::Active) => together && proposal.is_forced(target),
        (_, LifecycleState::Retired) => true,
    }
}

/// A restored entity must not depend on retired ones.
pub(super) fn check_restored(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    for restored in &proposal.restored {
        for reference in restored.references.iter().filter(|r| r.relation != Relation::Provides) {
            if proposal.lifecycle(&reference.key).0 == LifecycleState::Retired {
                let (key, target) = (restored.key(), &reference.key);
                let message = format!("{key} depends on {target}, which is retired");
                let pointer = reference.pointer.clone();
                let problem = Diagnostic::error(Code::DeprecatedDependency, pointer, message);
                let help = format!("restore {target} too, in the same batch or before");
                restored.report(found, problem.with_help(help));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Proposed,
        testing::{catalog, found_of, lines, renamed, server, set, set_with, source_tool},
        validate,
    };
    use crate::{
        diagnostic::Code,
        lifecycle::{
            LifecycleState::{Active, Deprecated, Retired},
            Notice,
        },
    };

    fn found(registered: &[Proposed], batch: &[Proposed]) -> String {
        found_of(Code::DeprecatedDependency, registered, batch)
    }

    fn alias() -> Proposed {
        renamed(&source_tool("read", "files"), "cat")
    }

    #[test]
    fn deprecated_dependency_warns_and_retired_is_error() {
        let registered = [server("files", &["read"]), source_tool("read", "files")];
        let deprecate = set("server/files@1.0.0", Deprecated, Some("use disks"));
        insta::assert_snapshot!(
            found(&registered, &[alias(), deprecate]),
            @"warning[deprecated-dependency] tool/cat@1.0.0 at \"/source\": tool/cat@1.0.0 depends \
              on server/files@1.0.0, which is deprecated: use disks (depend on a version that is \
              active)"
        );
        let retire = || set("server/files@1.0.0", Retired, None);
        insta::assert_snapshot!(
            found(&registered, &[retire(), alias()]),
            @"error[deprecated-dependency] tool/cat@1.0.0 at \"/source\": tool/cat@1.0.0 depends \
              on server/files@1.0.0, which is retired (depend on a version that is active)"
        );
        let restore = set("server/files@1.0.0", Active, None);
        assert_eq!(found(&registered, &[retire(), restore, alias()]), "");
    }

    #[test]
    fn deprecated_dependency_names_active_replacement() {
        let registered = [server("files", &["read"]), server("disks", &["read"])];
        let replacement = Some("server/disks@1.0.0".parse().unwrap());
        let notice = Notice { replacement, ..Notice::default() };
        let deprecate = set_with("server/files@1.0.0", Deprecated, notice);
        let of = |batch: &[Proposed]| found(&[&registered[..], batch].concat(), &[alias()]);
        let named = "(depend on its replacement server/disks@1.0.0)";
        assert!(of(std::slice::from_ref(&deprecate)).ends_with(named));
        let in_batch = found(&registered, &[deprecate.clone(), alias()]);
        assert!(in_batch.ends_with(named), "{in_batch}");
        let retire = set("server/disks@1.0.0", Retired, None);
        insta::assert_snapshot!(
            of(&[deprecate, retire]),
            @r#"warning[deprecated-dependency] tool/cat@1.0.0 at "/source": tool/cat@1.0.0 depends on server/files@1.0.0, which is deprecated (depend on a version that is active)"#
        );
    }

    #[test]
    fn import_may_contain_retired_entities_with_dependents() {
        let notice = Notice { force_reason: Some("leaked keys".into()), ..Notice::default() };
        let forced = set_with("server/files@1.0.0", Retired, notice);
        let copy = |retirement: &Proposed, user| {
            let tool = source_tool("read", "files");
            let batch = [server("files", &["read"]), tool, retirement.clone()];
            batch.into_iter().chain(user).collect::<Vec<_>>()
        };
        let user = |state| Some(set("tool/read@1.0.0", state, None));
        let warning = "warning[deprecated-dependency] tool/read@1.0.0";
        assert!(found(&[], &copy(&forced, None)).starts_with(warning));
        // Without force, a retired entity cannot have active dependents.
        let plain = set("server/files@1.0.0", Retired, None);
        assert!(found(&[], &copy(&plain, None)).starts_with("error"));
        assert!(found(&[], &copy(&plain, user(Deprecated))).starts_with(warning));
        assert!(found(&[], &copy(&plain, user(Retired))).starts_with(warning));
        let late = [forced, renamed(&source_tool("read", "files"), "cat")];
        assert!(found(&copy(&plain, None)[..2], &late).starts_with("error"));
        // A complete registry is accepted unchanged.
        let whole = lines(&validate(&catalog(&[]), &copy(&plain, None)).diagnostics);
        assert!(whole.starts_with(warning), "{whole}");
    }

    #[test]
    fn restored_entity_must_not_depend_on_retired() {
        let registered = [server("files", &["read"]), source_tool("read", "files")];
        let (tool, server) = ("tool/read@1.0.0", "server/files@1.0.0");
        let mut gone = registered.to_vec();
        gone.extend([set(tool, Retired, None), set(server, Retired, None)]);
        insta::assert_snapshot!(
            found(&gone, &[set(tool, Active, None)]),
            @"error[deprecated-dependency] tool/read@1.0.0 at \"/source\": tool/read@1.0.0 depends \
              on server/files@1.0.0, which is retired (restore server/files@1.0.0 too, in the same \
              batch or before)"
        );
        assert_eq!(found(&gone, &[set(tool, Active, None), set(server, Active, None)]), "");
        // A deprecated entity accepts users too, so the same rule applies.
        assert!(found(&gone, &[set(tool, Deprecated, None)]).starts_with("error"));
        assert_eq!(found(&gone, &[set(tool, Deprecated, None), set(server, Active, None)]), "");
        assert_eq!(found(&registered, &[set(tool, Deprecated, None)]), "");
    }

    #[test]
    fn registered_entity_keeps_its_dependencies() {
        let registered = [server("files", &["read"]), source_tool("read", "files")];
        let again = source_tool("read", "files");
        assert_eq!(found(&registered, &[again, set("server/files@1.0.0", Retired, None)]), "");
    }
}
