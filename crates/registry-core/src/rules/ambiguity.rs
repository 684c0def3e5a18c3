//! `dependency-ambiguous`: a declared dependency name has two versions.
//!
//! Agents and compositions call tools and agents by name. The declared dependencies determine the
//! version, so each name may have only one.

use std::collections::HashMap;

use super::{dependency::declared, proposal::NewEntity};
use crate::{
    diagnostic::{Code, Diagnostic},
    kind::Kind,
};

pub(super) fn check(new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let (depends, list) = declared(new.entity());
    let mut versions = HashMap::new();
    for (i, dependency) in depends.iter().enumerate() {
        let kind = dependency.target.kind();
        if new.key().kind == Kind::Agent && kind == Kind::Agent {
            continue;
        }
        let first = *versions.entry((kind, &dependency.name)).or_insert(&dependency.version);
        if *first != dependency.version {
            let (name, version) = (&dependency.name, &dependency.version);
            let message = format!(
                "{} depends on {kind} `{name}` in the versions {first} and {version}, \
                 but calls it by name",
                new.key()
            );
            let pointer = format!("{list}/{i}/version");
            let problem = Diagnostic::error(Code::DependencyAmbiguous, pointer, message);
            new.report(found, problem.with_help("depend on one version of each name"));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{agent, found_of, source_tool, versioned};
    use crate::diagnostic::Code;

    #[test]
    fn ambiguity_reports_two_versions_of_tool() {
        let depends = json!([
            { "type": "tool", "name": "read", "version": "1.0.0" },
            { "type": "tool", "name": "read", "version": "2.0.0" },
        ]);
        let batch = [
            source_tool("read", "files"),
            versioned(&source_tool("read", "files"), "2.0.0"),
            agent("a", &depends),
        ];
        insta::assert_snapshot!(
            found_of(Code::DependencyAmbiguous, &[], &batch),
            @"error[dependency-ambiguous] agent/a@1.0.0 at \
              \"/capabilities/extensions/0/params/depends/1/version\": agent/a@1.0.0 depends on \
              tool `read` in the versions 1.0.0 and 2.0.0, but calls it by name (depend on one \
              version of each name)"
        );
    }

    #[test]
    fn ambiguity_allows_two_versions_of_agent() {
        let depends = json!([
            { "type": "agent", "name": "b", "version": "1.0.0", "skill": "work" },
            { "type": "agent", "name": "b", "version": "2.0.0", "skill": "work" },
        ]);
        let b = agent("b", &json!([]));
        let batch = [versioned(&b, "2.0.0"), b, agent("a", &depends)];
        assert_eq!(found_of(Code::DependencyAmbiguous, &[], &batch), "");
    }
}
