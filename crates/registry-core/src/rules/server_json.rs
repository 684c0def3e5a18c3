//! `server-json-invalid`: MCP clients would reject parts of a server's `metadata.serverJson`, so
//! the server is not listed in the MCP registry API.
//!
//! This is a warning, because metadata is open and the server remains usable.

use super::proposal::NewEntity;
use crate::{
    diagnostic::{Code, Diagnostic, Severity},
    entity::Entity,
    server_json::unlistable_parts,
};

pub(super) fn check(new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let Entity::Server(server) = new.entity() else { return };
    for misfit in unlistable_parts(server).into_iter().filter(Diagnostic::is_error) {
        let (code, severity) = (Code::ServerJsonInvalid, Severity::Warning);
        new.report(found, Diagnostic { code, severity, ..misfit });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{found, server, with};

    #[test]
    fn invalid_server_json_gets_warning_at_pointer() {
        let with = |rest| with(&server("s", &[]), json!({ "metadata": { "serverJson": rest } }));
        let good = json!({ "title": "T", "remotes": [{ "type": "sse", "url": "http://x/{y}" }] });
        assert_eq!(found(&[], &[with(good)]), "");
        let bad = json!({ "title": "T", "remotes": [{ "type": "sse", "url": "x" }] });
        insta::assert_snapshot!(
            found(&[], &[with(bad)]),
            @"warning[server-json-invalid] server/s@1.0.0 at \
              \"/metadata/serverJson/remotes/0/url\": `x` is not a valid URL (write an absolute \
              URL starting with https:// or http://)"
        );
        insta::assert_snapshot!(
            found(&[], &[with(json!(7))]),
            @"warning[server-json-invalid] server/s@1.0.0 at \"/metadata/serverJson\": expected an \
              object, got the number 7 (write an object)"
        );
    }
}
