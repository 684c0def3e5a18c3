//! `document-invalid`: an extension of an agent is probably meant to declare dependencies (warning).
//!
//! Other extensions are open, so a misspelled URI would leave the agent without dependencies.

use super::proposal::NewEntity;
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::{Entity, ExtensionParams, agent::SBOM_EXTENSION},
    suggest::closest,
};

pub(super) fn check(new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let Entity::Agent(agent) = new.entity() else { return };
    for (i, extension) in agent.capabilities.extensions.iter().enumerate() {
        let ExtensionParams::Open(params) = &extension.params else { continue };
        let is_close = closest(&extension.uri, [SBOM_EXTENSION]).is_some();
        if is_close || params.contains_key("depends") {
            let message = format!("the extension `{}` declares no dependencies", extension.uri);
            let at = format!("/capabilities/extensions/{i}/uri");
            let warning = Diagnostic::warning(Code::DocumentInvalid, at, message);
            new.report(found, warning.with_help(format!("did you mean `{SBOM_EXTENSION}`?")));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::testing::{agent, found, with};

    #[test]
    fn misspelled_sbom_extension_gets_warning() {
        let declaring = |extension: Value| {
            let capabilities = json!({ "capabilities": { "extensions": [extension] } });
            found(&[], &[with(&agent("a", &json!([])), capabilities)])
        };
        let typo = declaring(json!({ "uri": "urn:agentgateway:sbm" }));
        insta::assert_snapshot!(
            typo,
            @"warning[document-invalid] agent/a@1.0.0 at \"/capabilities/extensions/0/uri\": the \
              extension `urn:agentgateway:sbm` declares no dependencies (did you mean \
              `urn:agentgateway:sbom`?)"
        );
        let other =
            declaring(json!({ "uri": "https://acme.example/x", "params": { "depends": [] } }));
        assert!(other.starts_with("warning[document-invalid]"), "{other}");
        assert_eq!(declaring(json!({ "uri": "https://acme.example/x", "params": { "a": 1 } })), "");
    }
}
