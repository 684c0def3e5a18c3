//! The remedy for a rejected registry file that the import can repair.

use registry_core::diagnostic::{Code, Diagnostic};
use serde_json::Value;

use super::{Additions, RepairedBy, lenient::import_registry_file};

/// A warning next to the errors of a file that names the import as the remedy, if the import
/// repairs anything in it. `name` is the file name for the command.
///
/// Added entries do not count: the registry may have them, or a reference has a typo. Single values do not count
/// either: their errors name the correct value, and the import could add registered entries again.
pub fn remedy(file: &Value, name: &str) -> Option<Diagnostic> {
    let imported = import_registry_file(file);
    let count = |by| imported.repairs.iter().filter(|repair| repair.by == by).count();
    let Additions { servers, tools } = imported.added;
    let all = count(RepairedBy::Import) + imported.unlisted.import;
    let made = all - servers - tools - imported.corrected;
    let left = count(RepairedBy::Person) + imported.unlisted.person;
    if made == 0 || imported.draft.is_empty() {
        return None;
    }
    let places = if made == 1 { "place" } else { "places" };
    let remain = match left {
        0 => String::new(),
        1 => ", and 1 remains to review".to_owned(),
        _ => format!(", and {left} remain to review"),
    };
    let message = format!("the import can repair this file in {made} {places}{remain}");
    let command =
        format!("for an older or incomplete file, run `registryctl import registry {name}");
    let help = if left > 0 {
        format!("{command} --out NEW.json`, and complete the repaired file")
    } else if servers > 0 {
        format!("{command} --out NEW.json`, and review the added servers before you apply it")
    } else {
        format!("{command} --apply`, or with `--out NEW.json` to review the repaired file")
    };
    Some(Diagnostic::warning(Code::DocumentInvalid, "", message).with_help(help))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn remedy_is_named_only_where_the_import_helps() {
        let old = json!({ "schemaVersion": "2.0", "tools": [
            { "name": "search", "source": { "target": "docs", "tool": "search" } }] });
        let told = remedy(&old, "old.json").unwrap();
        assert!(!told.is_error() && told.pointer.is_empty(), "{told:?}");
        assert!(!told.message.contains("remain"), "{told:?}");
        let help = told.help.unwrap();
        insta::assert_snapshot!(
            help,
            @"for an older or incomplete file, run `registryctl import registry old.json --out \
              NEW.json`, and review the added servers before you apply it"
        );
        let good = import_registry_file(&old).draft.to_value();
        let unrepaired = json!({ "schemaVersion": "2.0",
            "tools": [{ "name": "t", "version": "1.0.0", "spec": { "saga": 7 } }] });
        let mut misspelled = good.clone();
        misspelled["tools"][0]["inputschema"] = json!({});
        for other in [good, unrepaired, misspelled, json!({}), json!(7)] {
            assert_eq!(remedy(&other, "x"), None, "{other}");
        }
    }

    #[test]
    fn added_entries_are_no_reason_for_a_remedy() {
        let source =
            json!({ "server": "weather", "serverVersion": "1.0.0", "tool": "get_weather" });
        let alias = json!({ "schemaVersion": "2.0", "tools": [
            { "name": "city_weather", "version": "1.0.0", "source": source,
                "inputSchema": { "$ref": "#CityQery:1.0.0" } }] });
        let added = import_registry_file(&alias).added;
        assert_eq!(added, Additions { servers: 1, tools: 2 });
        assert_eq!(remedy(&alias, "x"), None);
        let server = json!({ "schemaVersion": "2.0", "servers": [{ "name": "weather",
            "version": "1.1.0", "provides": [{ "tool": "get_weather", "version": "1.0.0" }] }] });
        assert_eq!(import_registry_file(&server).added, Additions { servers: 0, tools: 1 });
        assert_eq!(remedy(&server, "x"), None);
    }

    #[test]
    fn wrong_values_are_no_reason_for_a_remedy() {
        let source = json!({ "server": "rooms", "serverVersion": "1.0.0", "tool": "find" });
        for (member, value) in [
            ("annotations", json!({ "readOnlyHint": "yes", "idempotentHint": "true" })),
            ("metadata", json!([])),
        ] {
            let tool =
                json!({ "name": "find_big", "version": "1.0.0", "source": source, member: value });
            let mut file = json!({ "schemaVersion": "2.0", "tools": [tool] });
            assert!(import_registry_file(&file).corrected > 0, "{member}");
            assert_eq!(remedy(&file, "x"), None, "{member}");
            file["schemaVersion"] = json!("1.0");
            assert!(remedy(&file, "x").is_some(), "{member}");
        }
    }

    #[test]
    fn remedy_counts_repairs_and_remaining_problems() {
        let tool = json!({ "name": "t", "version": "1.0.0" });
        let file = |tools: Value| json!({ "schemaVersion": "2.0", "tools": tools });
        let unversioned = json!({ "name": "u" });
        for (tools, expected) in [
            (json!([unversioned]), "repair this file in 1 place, and 1 remains to review"),
            (json!([unversioned, tool]), "repair this file in 1 place, and 2 remain to review"),
            (json!([{ "name": "u", "source": "s" }]), " places"),
        ] {
            let told = remedy(&file(tools), "x").unwrap();
            assert!(told.message.ends_with(expected), "{told:?}");
        }
    }
}
