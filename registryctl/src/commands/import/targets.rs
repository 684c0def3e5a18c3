//! `--targets`: writes the gateway's targets of imported servers to a YAML file.
//!
//! The file may be the gateway's configuration: only the items of the imported servers change.

use std::{fs, io, path::Path};

use registry_import::mcp_servers::{Expanded, McpServer, Transport};
use serde_json::Value;

use super::super::export::save_private;
use crate::{
    failure::Failure,
    yaml_flow::{self, quoted},
};

/// The replacement of a masked value.
pub(super) const MASK: &str = "***";

/// Whether the literal values of headers and variables are written. They may be secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Literals {
    Written,
    Masked,
}

/// The target of a server without expanded fields, for all its versions.
pub(super) fn for_server(server: &McpServer, literals: Literals) -> String {
    let mut fields = vec![format!("version: {}", quoted("*"))];
    match &server.transport {
        Transport::Http { url, headers } => {
            fields.push(format!("http: {}", quoted(url)));
            if !headers.is_empty() {
                fields.push(format!("headers: {}", references(headers.iter(), literals)));
            }
        }
        Transport::Stdio { command, args, env, cwd } => {
            let args: Vec<_> = args.iter().map(|argument| quoted(argument)).collect();
            let mut child = vec![format!("command: {}", quoted(command))];
            child.push(format!("args: [{}]", args.join(", ")));
            // The gateway passes only PATH to a program.
            let home = Expanded { value: String::new(), written: "${HOME}".to_owned() };
            let own = ("HOME".to_owned(), home);
            let own = (!env.contains_key("HOME")).then_some(&own);
            let own = own.map(|(name, value)| (name, value));
            child.push(format!("env: {}", references(own.into_iter().chain(env), literals)));
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
    format!("{{ server: {}, {} }}", yaml_flow::name(server.name.as_str()), fields.join(", "))
}

/// A mapping of names to values. Variables stay references, so that their values are not written.
fn references<'a>(
    pairs: impl Iterator<Item = (&'a String, &'a Expanded)>,
    literals: Literals,
) -> String {
    let reference = |text: &Expanded| match text.variable() {
        Some(("", name)) => format!("{{ env: {} }}", yaml_flow::name(name)),
        Some((prefix, name)) => {
            format!("{{ env: {}, prefix: {} }}", yaml_flow::name(name), quoted(prefix))
        }
        None if literals == Literals::Masked => quoted(MASK),
        None => quoted(&text.value),
    };
    let pairs: Vec<_> =
        pairs.map(|(name, text)| format!("{}: {}", quoted(name), reference(text))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// Writes targets to a file, and replaces those of the same servers.
pub(super) fn write(path: &Path, targets: &[(String, String)]) -> Result<(), Failure> {
    let failed = |action, reason: String| Failure::File { action, path: path.to_owned(), reason };
    let before = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(failed("read", e.to_string())),
    };
    let text = with_targets(&before, targets).map_err(|reason| failed("change", reason))?;
    save_private(path, text.as_bytes())
}

/// The text of a YAML file with these targets. Other lines are unchanged.
fn with_targets(text: &str, targets: &[(String, String)]) -> Result<String, String> {
    let configured = configured(text).map_err(|e| format!("{e}; correct the file"))?;
    let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if let Some(last) = lines.last_mut().filter(|last| !last.ends_with('\n')) {
        last.push_str(line_end);
    }
    let start = match lines.iter().position(|line| line.starts_with("targets:")) {
        Some(at) if is_key_alone(&lines[at]) => at + 1,
        Some(at) => {
            return Err(format!(
                "line {}: `targets` is not a block list; write `targets:` alone on the line",
                at + 1
            ));
        }
        None => {
            lines.push(format!("targets:{line_end}"));
            lines.len()
        }
    };
    let is_inside = |line: &String| line.starts_with([' ', '-', '#']) || line.trim().is_empty();
    let length = lines[start..].iter().take_while(|line| is_inside(line)).count();
    let filled = lines[start..start + length].iter().rposition(|line| !line.trim().is_empty());
    let mut end = start + filled.map_or(0, |last| last + 1);
    for (server, target) in targets {
        let own = |line: &String| server_of_line(line).as_ref() == Some(server);
        if let Some(at) = lines[start..end].iter().position(own) {
            let line = &mut lines[start + at];
            let indent = line.len() - line.trim_start().len();
            *line = format!("{}- {target}{line_end}", " ".repeat(indent));
            continue;
        }
        if configured.iter().any(|item| item["server"] == server.as_str()) {
            return Err(format!(
                "`targets` has an item of the server {server} on several lines; replace it with \
                 `- {target}`"
            ));
        }
        let sibling = lines[start..end].iter().find(|line| line.trim_start().starts_with("- "));
        let indent = sibling.map_or(2, |line| line.len() - line.trim_start().len());
        lines.insert(end, format!("{}- {target}{line_end}", " ".repeat(indent)));
        end += 1;
    }
    let text = lines.concat();
    verify(&text, targets)?;
    Ok(text)
}

/// Whether a line has only the key `targets` and an optional comment.
fn is_key_alone(line: &str) -> bool {
    let rest = line.trim_start_matches("targets:");
    rest.trim().is_empty() || (rest.starts_with([' ', '\t']) && rest.trim().starts_with('#'))
}

/// The server of an item that is a flow mapping on one line.
fn server_of_line(line: &str) -> Option<String> {
    let item = line.trim_start().strip_prefix('-')?.trim_start();
    let item: Value = serde_saphyr::from_str(item.starts_with('{').then_some(item)?).ok()?;
    item["server"].as_str().map(str::to_owned)
}

/// The items of `targets` in a file.
fn configured(text: &str) -> Result<Vec<Value>, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.starts_with('#')) {
        return Ok(Vec::new());
    }
    let reason = |e: serde_saphyr::Error| e.without_snippet().to_string();
    // Emitted comments are limited to 32 before the first item of a block.
    let options = serde_saphyr::options! { emit_comments: false };
    let root: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|e| format!("the file is not valid YAML: {}", reason(e)))?;
    match (&root, &root["targets"]) {
        (Value::Object(_) | Value::Null, Value::Null) => Ok(Vec::new()),
        (Value::Object(_), Value::Array(items)) => Ok(items.clone()),
        (Value::Object(_), _) => {
            Err("`targets` is not a list; write `targets:` alone on the line".to_owned())
        }
        _ => Err("the file is not a mapping".to_owned()),
    }
}

/// Verifies that the text contains the targets as YAML.
fn verify(text: &str, targets: &[(String, String)]) -> Result<(), String> {
    let items = configured(text).map_err(|e| {
        format!("{e}, with the targets; write `targets:` alone on the line, with block items")
    })?;
    for (server, target) in targets {
        let target: Option<Value> = serde_saphyr::from_str(target).ok();
        if !items.iter().any(|item| Some(item) == target.as_ref()) {
            return Err(format!(
                "the target of {server} cannot be added to `targets`; add it manually"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(servers: &[&str]) -> Vec<(String, String)> {
        let target = |name: &&str| ((*name).to_owned(), format!("{{ server: {name}, new: 1 }}"));
        servers.iter().map(target).collect()
    }

    #[test]
    fn targets_replace_their_lines_only() {
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
    fn targets_are_added_after_many_comments() {
        let file = format!("targets:\n{}  - {{ server: b }}\n", "  # why\n".repeat(100));
        let changed = with_targets(&file, &targets(&["a"])).unwrap();
        assert_eq!(changed, format!("{file}  - {{ server: a, new: 1 }}\n"));
    }

    #[test]
    fn targets_of_other_forms_are_not_changed() {
        let flow = with_targets("name: x\ntargets: []\n", &targets(&["a"])).unwrap_err();
        insta::assert_snapshot!(
            flow,
            @"line 2: `targets` is not a block list; write `targets:` alone on the line"
        );
        let block = "targets:\n  - server: a\n    version: \"*\"\n";
        let known = with_targets(block, &targets(&["a"])).unwrap_err();
        insta::assert_snapshot!(
            known,
            @"`targets` has an item of the server a on several lines; replace it with `- { server: \
              a, new: 1 }`"
        );
    }

    #[test]
    fn items_are_recognized_in_all_flow_forms() {
        for item in
            [r#"- { server: "a", v: 1 }"#, "- {server: a,v: 1}", "-   { v: 1, server: 'a' }"]
        {
            let file = format!("targets: # mine\n  {item}\n  - {{ server: b }}\n");
            let changed = with_targets(&file, &targets(&["a"])).unwrap();
            assert_eq!(changed, file.replace(item, "- { server: a, new: 1 }"));
        }
        let named = vec![("true".to_owned(), r#"{ server: "true" }"#.to_owned())];
        let once = with_targets("", &named).unwrap();
        assert_eq!(with_targets(&once, &named).unwrap(), once);
    }

    #[test]
    fn line_breaks_are_kept() {
        let changed = with_targets("x: 1\r\ntargets:\r\n- {server: a}", &targets(&["a", "b"]));
        let expected = "x: 1\r\ntargets:\r\n- { server: a, new: 1 }\r\n- { server: b, new: 1 }\r\n";
        assert_eq!(changed.unwrap(), expected);
    }

    #[test]
    fn invalid_results_are_rejected() {
        for (file, expected) in [
            ("targets: [", "not valid YAML"),
            ("- a\n", "not a mapping"),
            ("targets: {}\n", "not a list"),
            ("{ x: 1 }\n", "with the targets"),
            ("\"targets\":\n  - { server: b }\n", "with the targets"),
            ("targets:\n  [ { server: b } ]\n", "with the targets"),
            ("targets:#\n", "not"),
        ] {
            let error = with_targets(file, &targets(&["a"])).unwrap_err();
            assert!(error.contains(expected), "{file}: {error}");
        }
    }

    #[test]
    fn variables_stay_references_and_literals_are_masked() {
        let text = r#"{ "mcpServers": { "a": { "command": "x", "cwd": "/d", "timeout": 500, "autoStart": false,
            "env": { "T": "${TOKEN}", "L": "literal" } },
            "b": { "url": "https://h/mcp", "headers": { "Authorization": "Bearer ${TOKEN}" } } } }"#;
        let found = registry_import::mcp_servers::parse(text, &|_| Some("secret".to_owned()));
        let servers = found.unwrap().servers;
        let masked = for_server(&servers[0], Literals::Masked);
        assert!(masked.contains(r#""L": "***""#) && !masked.contains("literal"), "{masked}");
        let written: Vec<_> =
            servers.iter().map(|server| for_server(server, Literals::Written)).collect();
        assert_eq!(
            written,
            [
                r#"{ server: a, version: "*", stdio: { command: "x", args: [], env: { "HOME": { env: HOME }, "L": "literal", "T": { env: TOKEN } }, cwd: "/d" }, timeout: 500ms, autoStart: false }"#,
                r#"{ server: b, version: "*", http: "https://h/mcp", headers: { "Authorization": { env: TOKEN, prefix: "Bearer " } }, timeout: 10000ms }"#
            ]
        );
    }
}
