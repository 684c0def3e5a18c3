//! Tests of breaking changes.

use serde_json::{Value, json};

use super::super::{
    Proposed, plan,
    testing::{agent, catalog, found_of, lines, schema, set, source_tool, tool, versioned, with},
    validate,
};
use crate::{
    Commit,
    LifecycleState::{Active, Retired},
    SealedCommit,
    diagnostic::Code::{BreakingChange, CompatibilityUndecided},
    setting::{Setting, SettingChange},
};

fn at(version: &str, json: &Value) -> Proposed {
    versioned(&schema("A", json), version)
}

fn text(version: &str) -> Proposed {
    at(version, &json!({ "type": "string" }))
}

fn short(version: &str) -> Proposed {
    at(version, &json!({ "type": "string", "maxLength": 2 }))
}

fn breaking(registered: &[Proposed], batch: &[Proposed]) -> String {
    found_of(BreakingChange, registered, batch)
}

#[test]
fn breaking_change_reports_counterexample_and_remedy() {
    insta::assert_snapshot!(
        breaking(&[text("1.0.0")], &[short("1.1.0")]),
        @"error[breaking-change] schema/A@1.1.0 at \"/schema/maxLength\": `maxLength` rejects a \
          value that 1.0.0 accepts: \"aaa\" (register it as 2.0.0, or revert the change)"
    );
    assert_eq!(breaking(&[text("1.0.0")], &[short("2.0.0")]), "");
    assert_eq!(breaking(&[short("1.0.0")], &[text("1.0.1")]), "");
}

#[test]
fn breaking_change_names_newly_required_members() {
    let parcel = |required: &[&str]| {
        let members = json!({ "weight": { "type": "integer" }, "unit": {} });
        json!({ "type": "object", "properties": members, "required": required })
    };
    let nested = |required: &[&str]| json!({ "properties": { "parcel": parcel(required) } });
    let old = at("1.0.0", &parcel(&["weight"]));
    let found = breaking(&[old], &[at("1.1.0", &parcel(&["weight", "unit"]))]);
    assert!(found.contains(": `unit` ("), "{found}");
    let found = breaking(&[at("1.0.0", &nested(&[]))], &[at("1.1.0", &nested(&["unit"]))]);
    assert!(found.contains("/properties/parcel/required"), "{found}");
    assert!(found.contains(": `unit` ("), "{found}");
}

#[test]
fn breaking_change_follows_relative_ids() {
    let relative = schema(
        "R",
        &json!({ "$id": "foo", "$ref": "#an",
        "$defs": { "q": { "$anchor": "an", "type": "integer" } } }),
    );
    let using = |version, t: &Value| {
        at(version, &json!({ "properties": { "r": { "$ref": "#R:1.0.0" }, "t": t } }))
    };
    let long = using("1.0.0", &json!({ "type": "string" }));
    let short = using("1.1.0", &json!({ "type": "string", "maxLength": 3 }));
    let found = breaking(&[relative, long], &[short]);
    insta::assert_snapshot!(
        found,
        @"error[breaking-change] schema/A@1.1.0 at \"/schema/properties/t/maxLength\": `maxLength` \
          rejects a value that 1.0.0 accepts: {\"t\":\"aaaa\"} (register it as 2.0.0, or revert \
          the change)"
    );
}

#[test]
fn restored_release_is_compared_with_warning() {
    let gone = |version: &str| set(&format!("schema/A@{version}"), Retired, None);
    let back = |version: &str| [set(&format!("schema/A@{version}"), Active, None)];
    let registered = [text("1.0.0"), gone("1.0.0"), short("1.1.0")];
    let below = breaking(&registered, &back("1.0.0"));
    assert!(below.starts_with("warning[breaking-change] schema/A@1.0.0"), "{below}");
    let mut both = registered.to_vec();
    both.extend([gone("1.1.0"), back("1.0.0")[0].clone()]);
    let above = breaking(&both, &back("1.1.0"));
    assert!(above.starts_with("warning[breaking-change] schema/A@1.1.0"), "{above}");
}

#[test]
fn compatibility_line_below_one_is_minor_version() {
    insta::assert_snapshot!(
        breaking(&[text("0.4.0")], &[short("0.4.1")]),
        @"error[breaking-change] schema/A@0.4.1 at \"/schema/maxLength\": `maxLength` rejects a \
          value that 0.4.0 accepts: \"aaa\" (register it as 0.5.0, or revert the change)"
    );
    assert_eq!(breaking(&[text("0.4.0")], &[short("0.5.0")]), "");
    assert_eq!(breaking(&[text("0.0.4")], &[short("0.0.5")]), "");
    assert_eq!(breaking(&[text("0.4.0")], &[short("1.0.0")]), "");
}

#[test]
fn comparison_uses_newest_lower_release_including_batch() {
    let registered = [text("1.0.0"), short("2.0.0"), text("2.1.0")];
    insta::assert_snapshot!(
        breaking(&registered, &[short("2.2.0")]),
        @"error[breaking-change] schema/A@2.2.0 at \"/schema/maxLength\": `maxLength` rejects a \
          value that 2.1.0 accepts: \"aaa\" (register it as 3.0.0, or revert the change)"
    );
    insta::assert_snapshot!(
        breaking(&registered, &[short("1.1.0")]),
        @"error[breaking-change] schema/A@1.1.0 at \"/schema/maxLength\": `maxLength` rejects a \
          value that 1.0.0 accepts: \"aaa\" (register it as 3.0.0, or revert the change)"
    );
    let batch = [text("3.0.0"), short("3.1.0")];
    assert!(breaking(&registered, &batch).starts_with("error[breaking-change] schema/A@3.1.0"));
}

#[test]
fn prereleases_and_retired_versions_are_not_compared() {
    assert_eq!(breaking(&[text("1.0.0")], &[short("1.1.0-rc.1")]), "");
    assert_eq!(breaking(&[short("1.0.0"), text("1.1.0-rc.1")], &[short("1.1.0")]), "");
    let mistake = [short("1.0.0"), text("1.1.0"), set("schema/A@1.1.0", Retired, None)];
    assert_eq!(breaking(&mistake, &[short("1.1.1")]), "");
}

#[test]
fn release_inserted_below_another_gets_warning() {
    insta::assert_snapshot!(
        breaking(&[short("1.0.0"), short("1.2.0")], &[text("1.1.0")]),
        @"warning[breaking-change] schema/A@1.1.0 at \"\": 1.2.0, which is already registered, is \
          not backward compatible with 1.1.0 (see `registryctl compatibility check`; repeat the \
          change above 1.2.0)"
    );
}

/// The findings with this mode set for the name or for everything.
fn in_mode(mode: &str, registered: &[Proposed], batch: &[Proposed]) -> String {
    let mut catalog = catalog(registered);
    let target = "*".parse().unwrap();
    let setting = Setting::Compatibility(Some(mode.parse().unwrap()));
    let revision = catalog.revision().next();
    let settings = vec![SettingChange { target, setting }];
    let commit = Commit { revision, settings, ..Commit::default() };
    catalog.apply(&SealedCommit::seal(&catalog.chain(), commit, Vec::new()).unwrap()).unwrap();
    let mut found = plan(&catalog, batch).diagnostics;
    found.retain(|diagnostic| diagnostic.code == BreakingChange);
    lines(&found)
}

#[test]
fn mode_selects_comparison() {
    let narrower = |mode| in_mode(mode, &[text("1.0.0")], &[short("1.1.0")]);
    let wider = |mode| in_mode(mode, &[short("1.0.0")], &[text("1.1.0")]);
    for (mode, may_narrow, may_widen) in [
        ("none", true, true),
        ("backward", false, true),
        ("forward", true, false),
        ("full", false, false),
        ("full_transitive", false, false),
    ] {
        assert_eq!(
            (narrower(mode).is_empty(), wider(mode).is_empty()),
            (may_narrow, may_widen),
            "{mode}"
        );
    }
    // The previous release mistakenly allowed values that the one before did not.
    let registered = [text("1.0.0"), short("1.1.0")];
    let again = [short("1.2.0")];
    assert_eq!(in_mode("backward", &registered, &again), "");
    insta::assert_snapshot!(
        in_mode("backward_transitive", &registered, &again),
        @"error[breaking-change] schema/A@1.2.0 at \"/schema/maxLength\": `maxLength` rejects a \
          value that 1.0.0 accepts: \"aaa\" (register it as 2.0.0, or revert the change)"
    );
}

#[test]
fn registered_version_is_not_compared_again() {
    let history = [text("1.0.0"), short("1.1.0")];
    assert!(lines(&plan(&catalog(&[]), &history).diagnostics).contains("breaking-change"));
    assert!(!lines(&validate(&catalog(&[]), &history).diagnostics).contains("breaking-change"));
}

#[test]
fn input_may_widen_and_output_may_narrow() {
    let of =
        |version: &str, members: Value| versioned(&with(&source_tool("t", "s"), members), version);
    let input = |properties: Value| json!({ "inputSchema": { "type": "object", "properties": properties } });
    let text = json!({ "q": { "type": "string" } });
    let either = json!({ "q": { "type": ["string", "null"] } });
    let (narrow, wide) = (input(text.clone()), input(either.clone()));
    assert_eq!(breaking(&[of("1.0.0", narrow.clone())], &[of("1.1.0", wide.clone())]), "");
    let found = breaking(&[of("1.0.0", wide)], &[of("1.1.0", narrow)]);
    insta::assert_snapshot!(
        found,
        @"error[breaking-change] tool/t@1.1.0 at \"/inputSchema/properties/q/type\": `type` \
          rejects a value that 1.0.0 accepts: {\"q\":null} (register it as 2.0.0, or revert the \
          change)"
    );

    let output = |properties: Value| {
        let schema = json!({ "type": "object", "properties": properties, "required": ["q"] });
        json!({ "outputSchema": schema })
    };
    let (narrow, wide) = (output(text), output(either));
    assert_eq!(breaking(&[of("1.0.0", wide.clone())], &[of("1.1.0", narrow.clone())]), "");
    insta::assert_snapshot!(
        breaking(&[of("1.0.0", narrow)], &[of("1.1.0", wide)]),
        @"error[breaking-change] tool/t@1.1.0 at \"/outputSchema/properties/q/type\": `type` of \
          1.0.0 (at /outputSchema/properties/q/type) rejects a value that 1.1.0 accepts: \
          {\"q\":null} (register it as 2.0.0, or revert the change)"
    );
}

#[test]
fn added_or_removed_schema_is_compared() {
    let of = |version: &str, members: Value| versioned(&tool("t", members), version);
    let schema = json!({ "type": "object", "required": ["q"] });
    let (none, input) = (json!({ "spec": {} }), json!({ "spec": {}, "inputSchema": schema }));
    let output = json!({ "spec": {}, "outputSchema": schema });
    let found = |old: &Value, new: &Value| {
        breaking(&[of("1.0.0", old.clone())], &[of("1.1.0", new.clone())])
    };
    assert!(found(&none, &input).contains("at \"/inputSchema/required\""));
    assert_eq!(found(&input, &none), "");
    assert_eq!(found(&none, &output), "");
    insta::assert_snapshot!(
        found(&output, &none),
        @"error[breaking-change] tool/t@1.1.0 at \"\": `type` of 1.0.0 (at /outputSchema/type) \
          rejects a value that 1.1.0 accepts: \"\" (register it as 2.0.0, or revert the change)"
    );
    let source =
        versioned(&with(&source_tool("t", "s"), json!({ "inputSchema": schema })), "1.1.0");
    let undecided = found_of(CompatibilityUndecided, &[source_tool("t", "s")], &[source]);
    insta::assert_snapshot!(
        undecided,
        @"warning[compatibility-undecided] tool/t@1.1.0 at \"/inputSchema\": compatibility with \
          1.0.0 could not be decided: one of the versions has no `inputSchema`, so the schema of \
          the upstream server applies (review the change manually, or register it as a new major \
          version)"
    );
}

#[test]
fn skill_may_be_added_but_not_removed() {
    let two = |version: &str| {
        let skill = |id: &str| json!({ "id": id, "name": id, "description": "d", "tags": [] });
        versioned(
            &with(&agent("a", &json!([])), json!({ "skills": [skill("work"), skill("play")] })),
            version,
        )
    };
    let one = |version: &str| versioned(&agent("a", &json!([])), version);
    assert_eq!(breaking(&[one("1.0.0")], &[two("1.1.0")]), "");
    insta::assert_snapshot!(
        breaking(&[two("1.0.0")], &[one("1.1.0")]),
        @"error[breaking-change] agent/a@1.1.0 at \"/skills\": the skill `play` of 1.0.0 was \
          removed (register it as 2.0.0, or revert the change)"
    );
}

#[test]
fn comparison_follows_references() {
    let item = |version: &str, json: Value| versioned(&schema("Item", &json), version);
    let list = |version: &str, item: &str| {
        at(version, &json!({ "items": { "$ref": format!("#Item:{item}") } }))
    };
    let registered = [
        item("1.0.0", json!({ "type": "string" })),
        item("2.0.0", json!({ "type": "string", "minLength": 1 })),
        list("1.0.0", "1.0.0"),
    ];
    insta::assert_snapshot!(
        breaking(&registered, &[list("1.1.0", "2.0.0")]),
        @"error[breaking-change] schema/A@1.1.0 at \"/schema/items/$ref\": `minLength` (in \
          schema/Item@2.0.0 at /schema/minLength) rejects a value that 1.0.0 accepts: [\"\"] \
          (register it as 2.0.0, or revert the change)"
    );
}
