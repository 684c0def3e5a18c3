//! `source-unknown` and `source-not-provided`: a tool's source is a tool of a registered server.
//!
//! `provides` lists upstream tool names, so that an alias refers to the real tool.

use super::{
    NOT_REGISTERED,
    proposal::{NewEntity, Proposal},
};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::{Entity, Server, Tool, ToolSource},
};

pub(super) fn check(proposal: &Proposal<'_>, new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let Entity::Tool(tool) = new.entity() else { return };
    let Some(source) = tool.source() else { return };
    let key = source.server_key();
    if let Some(Entity::Server(server)) = proposal.find(&key) {
        if !provides(server, tool, source) {
            new.report(found, not_provided(source, server));
        }
    } else if !proposal.is_known(&key) {
        let message = format!("the tool's source {key} {NOT_REGISTERED}");
        let unknown = Diagnostic::error(Code::SourceUnknown, "/source", message);
        new.report(found, unknown.with_help(proposal.help_for_unknown(&key)));
    }
}

/// Whether the server provides the upstream tool. If the upstream name is not a valid registry
/// name, the tool's own name counts.
fn provides(server: &Server, tool: &Tool, source: &ToolSource) -> bool {
    server.provides.iter().any(|provision| {
        provision.tool.as_str() == source.tool
            || provision.tool == tool.name && provision.version == tool.version
    })
}

fn not_provided(source: &ToolSource, server: &Server) -> Diagnostic {
    let message = format!("{} does not provide `{}`", source.server_key(), source.tool);
    let names: Vec<_> = server.provides.iter().take(20).map(|p| p.tool.as_str()).collect();
    let help = match names.as_slice() {
        [] => "the server provides no tools; register a version that does".to_owned(),
        names => format!("the server provides {}", names.join(", ")),
    };
    Diagnostic::error(Code::SourceNotProvided, "/source/tool", message).with_help(help)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{found, server, source_tool, tool};

    #[test]
    fn source_server_must_be_registered() {
        insta::assert_snapshot!(
            found(&[], &[source_tool("read", "files")]),
            @"error[source-unknown] tool/read@1.0.0 at \"/source\": the tool's source \
              server/files@1.0.0 is not registered (register server/files@1.0.0 first, or in the \
              same batch)"
        );
    }

    #[test]
    fn misspelled_source_server_has_a_suggestion() {
        insta::assert_snapshot!(
            found(&[server("weather-server", &[])], &[source_tool("read", "weather-sever")]),
            @"error[source-unknown] tool/read@1.0.0 at \"/source\": the tool's source \
              server/weather-sever@1.0.0 is not registered (did you mean server/weather-server \
              (1.0.0)? otherwise register server/weather-sever@1.0.0 first, or in the same batch)"
        );
    }

    #[test]
    fn source_server_must_provide_tool() {
        let source = json!({ "server": "files", "serverVersion": "1.0.0", "tool": "rm" });
        let alias = tool("remove", json!({ "source": source }));
        let batch = [server("files", &["read"]), source_tool("read", "files"), alias];
        insta::assert_snapshot!(
            found(&[], &batch),
            @"error[source-not-provided] tool/remove@1.0.0 at \"/source/tool\": server/files@1.0.0 \
              does not provide `rm` (the server provides read)"
        );
    }

    #[test]
    fn tool_with_invalid_upstream_name_matches_registered_name() {
        let source = json!({ "server": "files", "serverVersion": "1.0.0", "tool": "dir/read all" });
        let renamed = tool("dir_read_all", json!({ "source": source }));
        assert_eq!(found(&[], &[server("files", &["dir_read_all"]), renamed]), "");
    }
}
