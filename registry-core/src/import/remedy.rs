//! The remedy for a registry file that is refused, and that the import repairs.

use serde_json::Value;

use super::{By, loose::registry_file};
use crate::{
    catalog::Catalog,
    commit::RegistryId,
    diagnostic::{Code, Diagnostic},
    registry_file::RegistryFile,
    rules::plan,
};

/// A warning beside the errors of a file, which names the import as the remedy, if the import makes an acceptable file of this one. `name`
/// is the file's own, for the command.
pub fn remedy(file: &Value, name: &str) -> Option<Diagnostic> {
    let imported = registry_file(file);
    let made = imported.repairs.iter().filter(|repair| repair.by == By::Import).count();
    if made == 0 || imported.draft.is_empty() {
        return None;
    }
    let repaired = RegistryFile::from_value(&imported.draft.to_value()).ok()?;
    let nothing = Catalog::empty(RegistryId::new("import"));
    if !plan(&nothing, repaired.proposals()).is_acceptable() {
        return None;
    }
    let made = made + imported.unlisted.import;
    let message = format!(
        "the file is an incomplete or older registry file; the import repairs it in {made} places"
    );
    let help = format!(
        "run `registryctl import registry {name} --apply`, or with `--out NEW.json` to review the repaired file"
    );
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
        let help = told.help.unwrap();
        assert!(help.contains("registryctl import registry old.json --apply"), "{help}");
        let good = registry_file(&old).draft.to_value();
        let broken =
            json!({ "schemaVersion": "2.0", "tools": [{ "name": "t", "spec": { "saga": 7 } }] });
        for other in [good, broken, json!({}), json!(7)] {
            assert_eq!(remedy(&other, "x"), None, "{other}");
        }
    }
}
