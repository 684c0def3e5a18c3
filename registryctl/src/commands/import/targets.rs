//! `--targets`: the gateway's targets of imported servers in a YAML file.
//!
//! The file may be the gateway's configuration itself: only the items of the imported servers change.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use registry_import::mcp_servers::{Expanded, McpServer, Transport};
use serde_json::Value;

use super::super::{Session, export::save};
use crate::failure::Failure;

/// The first words of an item.
fn head(server: &str) -> String {
    format!("- {{ server: {server}, ")
}

/// The target of a server of an MCP client's file, for all its versions.
pub(super) fn of_server(server: &McpServer) -> String {
    let mut fields = vec![format!("version: {}", quoted("*"))];
    match &server.transport {
        Transport::Http { url, headers } => {
            fields.push(format!("http: {}", quoted(url)));
            if !headers.is_empty() {
                fields.push(format!("headers: {}", secrets(headers.iter())));
            }
        }
        Transport::Stdio { command, args, env, cwd } => {
            let args: Vec<_> = args.iter().map(|argument| quoted(argument)).collect();
            let mut child = vec![format!("command: {}", quoted(command))];
            child.push(format!("args: [{}]", args.join(", ")));
            // A program of the gateway gets PATH alone.
            let home = Expanded { value: String::new(), written: "${HOME}".to_owned() };
            let own = ("HOME".to_owned(), home);
            let own = (!env.contains_key("HOME")).then_some(&own);
            let own = own.map(|(name, value)| (name, value));
            child.push(format!("env: {}", secrets(own.into_iter().chain(env))));
            if let Some(cwd) = cwd {
                child.push(format!("cwd: {}", quoted(&cwd.display().to_string())));
            }
            fields.push(format!("stdio: {{ {} }}", child.join(", ")));
        }
    }
    fields.push(format!("timeout: {}ms", server.timeout.as_millis()));
    if !server.auto_start {
        fields.push("autoStart: false".to_owned());
    }
    format!("{{ server: {}, {} }}", server.name, fields.join(", "))
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Variables stay references, so that the file has no secret that the client's file has not.
fn secrets<'a>(pairs: impl Iterator<Item = (&'a String, &'a Expanded)>) -> String {
    let secret = |text: &Expanded| match text.variable() {
        Some(("", name)) => format!("{{ env: {name} }}"),
        Some((prefix, name)) => format!("{{ env: {name}, prefix: {} }}", quoted(prefix)),
        None => quoted(&text.value),
    };
    let pairs: Vec<_> =
        pairs.map(|(name, text)| format!("{}: {}", quoted(name), secret(text))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// Writes targets into a file, in place of those of the same servers. Only the owner may read a new
/// file.
pub(super) fn write(
    session: &Session,
    path: &Path,
    targets: &[(String, String)],
) -> Result<PathBuf, Failure> {
    let failed = |action, reason: String| Failure::File { action, path: path.to_owned(), reason };
    let before = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            create_private(path).map_err(|e| failed("create", e.to_string()))?;
            String::new()
        }
        Err(e) => return Err(failed("read", e.to_string())),
    };
    let text = with_targets(&before, targets).map_err(|reason| failed("change", reason))?;
    save(session, Some(path), text.as_bytes())?;
    Ok(path.to_owned())
}

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(|_| ())
}

#[cfg(not(unix))]
fn create_private(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// The text of a YAML file with these targets. Other lines stay as they are.
fn with_targets(text: &str, targets: &[(String, String)]) -> Result<String, String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let start = match lines.iter().position(|line| line.starts_with("targets:")) {
        Some(at) if lines[at].trim_end() == "targets:" => at + 1,
        Some(at) => {
            return Err(format!(
                "line {}: `targets` is not a block list; write `targets:` alone on the line",
                at + 1
            ));
        }
        None => {
            lines.push("targets:".to_owned());
            lines.len()
        }
    };
    let is_inside = |line: &String| line.starts_with([' ', '-', '#']) || line.trim().is_empty();
    let length = lines[start..].iter().take_while(|line| is_inside(line)).count();
    let filled = lines[start..start + length].iter().rposition(|line| !line.trim().is_empty());
    let mut end = start + filled.map_or(0, |last| last + 1);
    for (server, target) in targets {
        let head = head(server);
        let own = |line: &String| line.trim_start().starts_with(&head);
        if let Some(at) = lines[start..end].iter().position(own) {
            let line = &mut lines[start + at];
            let indent = line.len() - line.trim_start().len();
            *line = format!("{}- {target}", " ".repeat(indent));
            continue;
        }
        let other = format!("server: {server}");
        let is_other = |line: &&String| {
            let line = line.trim_start().trim_start_matches("- ").trim_end();
            line == other || line.starts_with(&format!("{other} "))
        };
        if let Some(line) = lines[start..end].iter().find(is_other) {
            return Err(format!(
                "`{}` is a target of this server already; replace it by `- {target}`",
                line.trim()
            ));
        }
        let sibling = lines[start..end].iter().find(|line| line.trim_start().starts_with("- "));
        let indent = sibling.map_or(2, |line| line.len() - line.trim_start().len());
        lines.insert(end, format!("{}- {target}", " ".repeat(indent)));
        end += 1;
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(servers: &[&str]) -> Vec<(String, String)> {
        let target = |name: &&str| ((*name).to_owned(), format!("{{ server: {name}, new: 1 }}"));
        servers.iter().map(target).collect()
    }

    #[test]
    fn targets_replace_their_own_lines_and_no_others() {
        let new = with_targets("", &targets(&["a", "b"])).unwrap();
        assert_eq!(new, "targets:\n  - { server: a, new: 1 }\n  - { server: b, new: 1 }\n");
        let file = "# top\ntargets:\n# of the team\n- { server: ab, old: 1 }\n- { server: a, old: 1 }\n\nname: x\n";
        let changed = with_targets(file, &targets(&["a"])).unwrap();
        assert_eq!(changed, file.replace("server: a, old", "server: a, new"));
        let file = "targets:\n  - { server: ab, old: 1 }\n  - { server: a, old: 1 }\n\nname: x\n";
        let changed = with_targets(file, &targets(&["a", "c"])).unwrap();
        let expected = "targets:\n  - { server: ab, old: 1 }\n  - { server: a, new: 1 }\n  - { server: c, new: 1 }\n\nname: x\n";
        assert_eq!(changed, expected);
        assert_eq!(with_targets(&changed, &targets(&["a", "c"])).unwrap(), expected);
    }

    #[test]
    fn targets_of_other_forms_are_not_changed() {
        let flow = with_targets("name: x\ntargets: []\n", &targets(&["a"])).unwrap_err();
        assert!(flow.starts_with("line 2: `targets` is not a block list"), "{flow}");
        let block = "targets:\n  - server: a\n    version: \"*\"\n";
        let known = with_targets(block, &targets(&["a"])).unwrap_err();
        assert!(known.contains("replace it by `- { server: a, new: 1 }`"), "{known}");
    }

    #[test]
    fn variables_stay_references() {
        let text = r#"{ "mcpServers": { "a": { "command": "x", "cwd": "/d", "timeout": 500, "autoStart": false,
            "env": { "T": "${TOKEN}", "L": "literal" } },
            "b": { "url": "https://h/mcp", "headers": { "Authorization": "Bearer ${TOKEN}" } } } }"#;
        let found = registry_import::mcp_servers::parse(text, &|_| Some("secret".to_owned()));
        let written: Vec<_> = found.unwrap().servers.iter().map(of_server).collect();
        assert_eq!(
            written,
            [
                r#"{ server: a, version: "*", stdio: { command: "x", args: [], env: { "HOME": { env: HOME }, "L": "literal", "T": { env: TOKEN } }, cwd: "/d" }, timeout: 500ms, autoStart: false }"#,
                r#"{ server: b, version: "*", http: "https://h/mcp", headers: { "Authorization": { env: TOKEN, prefix: "Bearer " } }, timeout: 10000ms }"#
            ]
        );
    }
}
