//! `import mcp-servers`: the servers of an MCP client's configuration as registry documents, and the
//! gateway's targets for them.

use std::{collections::BTreeMap, io, io::Write as _, path::Path, time::Instant};

use futures_util::future::join_all;
use registry_import::{
    Imported, Naming, Repair, ServerImportOptions, import_server,
    mcp_servers::{self, McpServer, McpServers, Merged, Transport},
    public_remote,
};

use super::targets::{self, Literals};
use crate::{
    cli::{ImportMcpServersArgs, ToolPrefix},
    failure::Failure,
    input::Source,
    live::{self, Target},
    progress::Progress,
    style::printable,
};

/// Imports the reachable servers. The second result lists the failures of the others.
pub(super) async fn import(
    args: &ImportMcpServersArgs,
) -> Result<(Imported, Result<(), Failure>), Failure> {
    let source = Source::read(&args.file)?;
    let found = mcp_servers::parse(source.text(), &|name| variable(name, &args.file));
    let McpServers { servers, problems, warnings } = found.map_err(|e| Failure::File {
        action: "import",
        path: args.file.clone(),
        reason: e.to_string(),
    })?;
    let warnings = warnings.iter().map(|warning| format!("warning: {warning}\n"));
    report(&warnings.collect::<String>());
    let mut failures: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let all = servers.len() + problems.len();
    // The expanded value may be a secret, so it is not written to a file.
    let (servers, inexpressible): (Vec<_>, Vec<_>) = servers
        .into_iter()
        .partition(|server| args.targets.is_none() || server.expanded_fields.is_empty());
    failures.extend(inexpressible.iter().map(inexpressible_reason));
    let progress = Progress::spinner("reading the servers");
    let results = join_all(servers.iter().map(|server| read(server, args))).await;
    drop(progress);
    let (mut merged, mut repairs, mut written) = (Merged::default(), Vec::new(), Vec::new());
    let mut conflicts = Vec::new();
    // Only the file may contain literal values: they may be secrets.
    let literals = if args.targets.is_some() { Literals::Written } else { Literals::Masked };
    for (server, result) in servers.iter().zip(results) {
        match result {
            Ok(imported) => {
                repairs.extend(imported.repairs.into_iter().map(|repair| Repair {
                    pointer: format!("{}:{}", server.name, repair.pointer),
                    ..repair
                }));
                conflicts.extend(merged.add(&server.name, imported.draft));
                if server.expanded_fields.is_empty() {
                    written.push((server.name.to_string(), targets::for_server(server, literals)));
                } else {
                    let message = inexpressible_reason(server);
                    report(&format!("warning: {message}\n"));
                }
            }
            Err(failure) => failures.push(format!("{}: {failure}", server.name)),
        }
    }
    if let Some(summary) = mcp_servers::summary(&conflicts) {
        report(&format!("warning: {summary}\n"));
    }
    match &args.targets {
        _ if written.is_empty() => {}
        Some(path) => {
            targets::write(path, &written)?;
            report(&format!("targets written: {}\n", path.display()));
        }
        None => {
            let items = written.iter().map(|(_, target)| format!("  - {target}\n"));
            let items: String = items.collect();
            report(&format!("targets for the gateway's configuration:\ntargets:\n{items}"));
            if items.contains(targets::MASK) {
                report("note: literal values are masked; --targets FILE writes them to a file\n");
            }
        }
    }
    let outcome = if failures.is_empty() {
        Ok(())
    } else {
        let failed = failures.len();
        // Text of a server cannot start a new line.
        let failures: Vec<_> = failures.iter().map(|failure| printable(failure)).collect();
        let failures = failures.join("\n  ");
        Err(Failure::Rejected(format!(
            "{failed} of {all} servers were not imported:\n  {failures}"
        )))
    };
    let imported = Imported { draft: merged.draft, repairs, ..Imported::default() };
    Ok((imported, outcome))
}

/// Reads one server.
async fn read(listed: &McpServer, args: &ImportMcpServersArgs) -> Result<Imported, Failure> {
    let own = [("PATH", &args.program.path), ("HOME", &args.program.home)];
    let own = own.into_iter().filter(|(_, value)| !value.is_empty());
    let own: BTreeMap<_, _> = own.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    let target = Target::for_server(listed, own);
    let started = Instant::now();
    let (live, _) = live::list_features(&target).await?;
    let prefix = match args.tool_prefix {
        ToolPrefix::Always => format!("{}_", listed.name),
        ToolPrefix::Never => String::new(),
    };
    let remote = match &listed.transport {
        // The expanded URL may contain a secret.
        Transport::Http { .. } if listed.expanded_fields.iter().any(|name| name == "url") => None,
        Transport::Http { url, .. } => public_remote(url, &target.header_names()),
        Transport::Stdio { .. } => None,
    };
    let options = ServerImportOptions {
        name: Some(listed.name.clone()),
        remote,
        tools_only: args.tools_only,
        naming: Naming { prefix, ..Naming::default() },
        ..ServerImportOptions::default()
    };
    target.process(started, move || import_server(&live, &options)).await
}

/// The reason why a server has no target.
fn inexpressible_reason(server: &McpServer) -> String {
    let problem = |field: &String| {
        if field.starts_with("env/") || field.starts_with("headers/") {
            format!(
                "`{field}` of {} mixes a variable with text, which a target cannot express; write \
                 the value as one variable: `${{NAME}}`",
                server.name
            )
        } else {
            format!(
                "`{field}` of {} has a variable, which a target cannot express; write the value \
                 itself",
                server.name
            )
        }
    };
    server.expanded_fields.iter().map(problem).collect::<Vec<_>>().join("; ")
}

#[expect(clippy::disallowed_methods, reason = "the file refers to environment variables")]
fn variable(name: &str, file: &Path) -> Option<String> {
    if name != mcp_servers::WORKSPACE_FOLDER {
        return std::env::var(name).ok();
    }
    let folder = mcp_servers::workspace_folder(file).ok()?;
    folder.to_str().map(str::to_owned)
}

/// Writes to standard error. If it is closed, the documents are still complete.
pub(super) fn report(text: &str) {
    let lines: String = text.lines().map(|line| printable(line) + "\n").collect();
    let _ = io::stderr().write_all(lines.as_bytes());
}
