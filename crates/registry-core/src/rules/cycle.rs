//! `dependency-cycle` and `schema-cycle`: no entity depends on itself.
//!
//! Registered entities are immutable and their references exact, so they cannot refer to new
//! entities. Only the batch can contain a cycle.

use super::proposal::{NewEntity, Proposal};
use crate::{
    cycles::cycles,
    diagnostic::{Code, Diagnostic},
    edges::{Reference, Relation},
    kind::Kind,
};

/// Number of entities shown at each end of a long path.
const SHOWN: usize = 10;

pub(super) fn check(proposal: &Proposal<'_>, found: &mut Vec<Diagnostic>) {
    let depends = |_: &NewEntity<'_>, r: &Reference| r.relation == Relation::Depends;
    report(proposal, Code::DependencyCycle, depends, found);
    let schemas = |new: &NewEntity<'_>, r: &Reference| {
        new.key().kind == Kind::Schema && r.relation == Relation::Schema
    };
    report(proposal, Code::SchemaCycle, schemas, found);
}

fn report(
    proposal: &Proposal<'_>,
    code: Code,
    counts: impl Fn(&NewEntity<'_>, &Reference) -> bool,
    found: &mut Vec<Diagnostic>,
) {
    let successors = |new: &NewEntity<'_>| {
        let references = new.references.iter().filter(|r| counts(new, r));
        references.filter_map(|r| proposal.position(&r.key)).collect()
    };
    let graph: Vec<Vec<usize>> = proposal.new.iter().map(successors).collect();
    for path in cycles(&graph) {
        let [first, second, ..] = path[..] else { continue };
        let (first, second) = (&proposal.new[first], &proposal.new[second]);
        let keys: Vec<_> = path.iter().map(|&i| proposal.new[i].key().to_string()).collect();
        let message = format!("{} depends on itself: {}", first.key(), shown(&keys));
        let link = first.references.iter().find(|r| counts(first, r) && r.key == *second.key());
        let pointer = link.map_or_else(String::new, |r| r.pointer.clone());
        first.report(found, Diagnostic::error(code, pointer, message).with_help(help(code)));
    }
}

/// The path, with the middle of a very long one omitted.
fn shown(keys: &[String]) -> String {
    let left_out = keys.len().saturating_sub(2 * SHOWN);
    if left_out == 0 {
        return keys.join(" → ");
    }
    let (begin, end) = (&keys[..SHOWN], &keys[keys.len() - SHOWN..]);
    format!("{} → … {left_out} more … → {}", begin.join(" → "), end.join(" → "))
}

fn help(code: Code) -> &'static str {
    match code {
        Code::SchemaCycle => "combine mutually dependent schemas into one, under `$defs`",
        _ => "remove one of these dependencies",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{agent, found_of, schema};
    use crate::diagnostic::Code;

    #[test]
    fn dependency_cycle_reports_path() {
        let on = |name: &str| json!([{ "type": "agent", "name": name, "version": "1.0.0", "skill": "work" }]);
        let batch = [agent("a", &on("b")), agent("b", &on("c")), agent("c", &on("a"))];
        insta::assert_snapshot!(
            found_of(Code::DependencyCycle, &[], &batch),
            @"error[dependency-cycle] agent/a@1.0.0 at \
              \"/capabilities/extensions/0/params/depends/0\": agent/a@1.0.0 depends on itself: \
              agent/a@1.0.0 → agent/b@1.0.0 → agent/c@1.0.0 → agent/a@1.0.0 (remove one of these \
              dependencies)"
        );
        assert_eq!(found_of(Code::DependencyCycle, &[], &batch[1..]), "");
    }

    #[test]
    fn long_cycle_reports_both_ends() {
        let on = |i: usize| json!([{ "type": "agent", "name": format!("a{:03}", i % 100), "version": "1.0.0", "skill": "work" }]);
        let batch: Vec<_> = (0..100).map(|i| agent(&format!("a{i:03}"), &on(i + 1))).collect();
        let found = found_of(Code::DependencyCycle, &[], &batch);
        assert!(
            found.contains(" → agent/a009@1.0.0 → … 81 more … → agent/a091@1.0.0 → "),
            "{found}"
        );
    }

    #[test]
    fn schema_cycle_reports_path() {
        let batch = [
            schema("A", &json!({ "items": { "$ref": "#B:1.0.0" } })),
            schema("B", &json!({ "not": { "$ref": "#A:1.0.0" } })),
            schema("Own", &json!({ "items": { "$ref": "#Own:1.0.0" } })),
        ];
        insta::assert_snapshot!(found_of(Code::SchemaCycle, &[], &batch), @r#"
        error[schema-cycle] schema/A@1.0.0 at "/schema/items/$ref": schema/A@1.0.0 depends on itself: schema/A@1.0.0 → schema/B@1.0.0 → schema/A@1.0.0 (combine mutually dependent schemas into one, under `$defs`)
        error[schema-cycle] schema/Own@1.0.0 at "/schema/items/$ref": schema/Own@1.0.0 depends on itself: schema/Own@1.0.0 → schema/Own@1.0.0 (combine mutually dependent schemas into one, under `$defs`)
        "#);
    }
}
