//! `--targets`: the gateway's targets of imported servers in a YAML file.
//!
//! The file may be the gateway's configuration itself: only the items of the imported servers change.

use std::{fs, io, path::Path};

use registry_import::mcp_servers::{Expanded, McpServer, Transport};
use serde_json::Value;

use super::super::export::save_private;
use crate::{
    failure::Failure,
    flow::{self, quoted},
};

/// The target of a server without expanded fields, for all its versions.
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
    format!("{{ server: {}, {} }}", flow::name(server.name.as_str()), fields.join(", "))
}

/// Variables stay references, so that the file has no secret that the client's file has not.
fn secrets<'a>(pairs: impl Iterator<Item = (&'a String, &'a Expanded)>) -> String {
    let secret = |text: &Expanded| match text.variable() {
        Some(("", name)) => format!("{{ env: {} }}", flow::name(name)),
        Some((prefix, name)) => {
            format!("{{ env: {}, prefix: {} }}", flow::name(name), quoted(prefix))
        }
        None => quoted(&text.value),
    };
    let pairs: Vec<_> =
        pairs.map(|(name, text)| format!("{}: {}", quoted(name), secret(text))).collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// Writes targets into a file, in place of those of the same servers.
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

/// The text of a YAML file with these targets. Other lines stay as they are.
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
                "`targets` has an item of the server {server} over several lines; replace it by \
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

/// Whether a line has the key `targets`, no value, and perhaps a comment.
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
    let root: Value = serde_saphyr::from_str(text)
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

/// Rejects a text in which YAML does not read the targets.
fn verify(text: &str, targets: &[(String, String)]) -> Result<(), String> {
    let items = configured(text).map_err(|e| {
        format!("{e}, with the targets; write `targets:` alone on the line, with block items")
    })?;
    for (server, target) in targets {
        let target: Option<Value> = serde_saphyr::from_str(target).ok();
        if !items.iter().any(|item| Some(item) == target.as_ref()) {
            return Err(format!(
                "YAML does not read the target of {server} as an item of `targets`; add it by hand"
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
    fn line_ends_are_kept() {
        let changed = with_targets("x: 1\r\ntargets:\r\n- {server: a}", &targets(&["a", "b"]));
        let expected = "x: 1\r\ntargets:\r\n- { server: a, new: 1 }\r\n- { server: b, new: 1 }\r\n";
        assert_eq!(changed.unwrap(), expected);
    }

    #[test]
    fn invalid_results_are_refused() {
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
