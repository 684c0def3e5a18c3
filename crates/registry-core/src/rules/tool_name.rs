//! `tool-name-shared`: tools of several servers have the same name.
//!
//! Callers without an agent identity call a tool by name only. A second server with the same tool
//! name takes over their calls, or loses its own. Deprecated and retired versions do not count.

use super::proposal::{NewEntity, Proposal};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::{Entity, Tool},
    kind::Kind,
    lifecycle::LifecycleState,
    name::Name,
    reference::Key,
};

pub(super) fn check(proposal: &Proposal<'_>, new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let Some((tool, server)) = sourced(new.entity()) else { return };
    if !is_active(proposal, new.key()) {
        return;
    }
    let other = proposal
        .versions(Kind::Tool, &tool.name)
        .map(|version| Key::new(Kind::Tool, tool.name.clone(), version.clone()))
        .filter(|key| is_active(proposal, key))
        .filter_map(|key| Some((sourced(proposal.find(&key)?)?.1, key)))
        .filter(|(other, _)| *other != server)
        .max_by(|(_, a), (_, b)| a.version.cmp(&b.version));
    let Some((other, key)) = other else { return };
    let message = format!(
        "server/{server} and server/{other} both have a tool `{}` ({} and {key}); callers without \
         an agent's identity get the newest version that their gateway has a target for",
        tool.name,
        new.key()
    );
    let help = format!(
        "give one of them another name (`registryctl import mcp --prefix {}_` or `{}`), or deprecate \
         the version that is replaced",
        server.as_str().rsplit('/').next().unwrap_or_default(),
        rename_option(tool),
    );
    new.report(found, Diagnostic::warning(Code::ToolNameShared, "/name", message).with_help(help));
}

/// The option that renames a tool in an import. Names at servers may need quotes in a shell.
pub(super) fn rename_option(tool: &Tool) -> String {
    let name = tool.source().map_or(tool.name.as_str(), |source| &source.tool);
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "_.-/".contains(char);
    if name.chars().all(is_plain) {
        format!("--rename {name}=NAME")
    } else {
        format!("--rename '{}=NAME'", name.replace('\'', r"'\''"))
    }
}

/// A tool with a source, and the name of its server.
fn sourced(entity: &Entity) -> Option<(&Tool, &Name)> {
    let tool = entity.as_tool()?;
    Some((tool, &tool.source()?.server))
}

fn is_active(proposal: &Proposal<'_>, key: &Key) -> bool {
    proposal.lifecycle(key).0 == LifecycleState::Active
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{
        Proposed,
        testing::{found_of, server, set, source_tool, tool, versioned},
    };
    use crate::{
        Code,
        lifecycle::LifecycleState::{Active, Deprecated, Retired},
    };

    fn shared(registered: &[Proposed], batch: &[Proposed]) -> String {
        found_of(Code::ToolNameShared, registered, batch)
    }

    fn first() -> Vec<Proposed> {
        vec![server("acme/docs", &["search"]), source_tool("search", "acme/docs")]
    }

    fn second() -> Vec<Proposed> {
        vec![server("web", &["search@2.0.0"]), versioned(&source_tool("search", "web"), "2.0.0")]
    }

    #[test]
    fn second_server_with_same_tool_name_is_reported() {
        let warning = shared(&first(), &second());
        insta::assert_snapshot!(
            warning,
            @"warning[tool-name-shared] tool/search@2.0.0 at \"/name\": server/web and \
              server/acme/docs both have a tool `search` (tool/search@2.0.0 and \
              tool/search@1.0.0); callers without an agent's identity get the newest version that \
              their gateway has a target for (give one of them another name (`registryctl import \
              mcp --prefix web_` or `--rename search=NAME`), or deprecate the version that is \
              replaced)"
        );
        let both = [first(), second()].concat();
        assert_eq!(shared(&[], &both).lines().count(), 2, "one batch may have both");
    }

    #[test]
    fn rename_quotes_names_of_the_server() {
        let source =
            |tool: &str| json!({ "server": "web", "serverVersion": "1.0.0", "tool": tool });
        for (name, expected) in [
            ("get search", "`--rename 'get search=NAME'`"),
            ("it's", r"`--rename 'it'\''s=NAME'`"),
            ("dir/search", "`--rename dir/search=NAME`"),
        ] {
            let second = tool("search", json!({ "source": source(name) }));
            let batch = [server("web", &["search@2.0.0"]), versioned(&second, "2.0.0")];
            let warning = shared(&first(), &batch);
            assert!(warning.contains(expected), "{warning}");
        }
    }

    #[test]
    fn new_version_of_same_server_is_not_reported() {
        let new = [
            versioned(&server("acme/docs", &["search@1.1.0"]), "1.1.0"),
            versioned(
                &tool(
                    "search",
                    json!({ "source":
                    { "server": "acme/docs", "serverVersion": "1.1.0", "tool": "find" } }),
                ),
                "1.1.0",
            ),
            versioned(&tool("search", json!({ "spec": {} })), "9.0.0"),
        ];
        assert_eq!(shared(&first(), &new), "");
    }

    #[test]
    fn only_active_versions_share_a_name() {
        for state in [Deprecated, Retired] {
            let mut registered = first();
            registered.push(set("tool/search@1.0.0", state, None));
            assert_eq!(shared(&registered, &second()), "", "{state}");
            let mut batch = second();
            batch.push(set("tool/search@2.0.0", state, None));
            assert_eq!(shared(&first(), &batch), "", "{state}");
        }
        let mut registered = [first(), second()].concat();
        registered.push(set("tool/search@1.0.0", Deprecated, None));
        let restored = shared(&registered, &[set("tool/search@1.0.0", Active, None)]);
        assert!(restored.contains("tool/search@1.0.0 at \"/name\""), "{restored}");
    }
}
