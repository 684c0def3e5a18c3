//! `import mcp`: a live MCP server as registry documents, and the gateway's target for it.

use std::time::Instant;

use registry_core::{Kind, Name};
use registry_import::{Imported, Naming, ServerImportOptions, import_server, public_remote};
use serde::Serialize;
use serde_json::Value;

use super::mcp_servers::report;
use crate::{
    cli::ImportMcpArgs,
    failure::Failure,
    live::{self, Endpoint, FeatureCounts, GatewayTarget, Target},
    progress::Progress,
};

/// A live server or agent: the features of a server, and the target for a gateway.
#[derive(Debug, Serialize)]
pub(super) struct Source {
    /// `None`: an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) found: Option<FeatureCounts>,
    /// The item of `targets` in the gateway's configuration.
    pub(super) target: Option<String>,
    /// The server or agent of the target.
    #[serde(skip)]
    name: Option<String>,
}

impl Source {
    /// The target of an imported server or agent. Reports the variables that it needs.
    pub(super) fn new(
        found: Option<FeatureCounts>,
        kind: Kind,
        document: Option<&Value>,
        target: &Target,
    ) -> Self {
        let text = |field: &str| document?.get(field)?.as_str();
        let named = text("name").zip(text("version"));
        let target = named.map(|(name, version)| target.gateway_target(kind, name, version));
        if let Some(GatewayTarget { variables, .. }) = &target
            && !variables.is_empty()
        {
            report(&format!(
                "warning: the target refers to variables instead of secret values; set {} in the \
                 gateway's environment\n",
                variables.join(", ")
            ));
        }
        let (target, name) = (target.map(|target| target.text), named.map(|(name, _)| name));
        Self { found, target, name: name.map(str::to_owned) }
    }

    /// The server or agent of the target, and the target.
    pub(super) fn named_target(&self) -> Option<(&str, &str)> {
        self.name.as_deref().zip(self.target.as_deref())
    }

    /// The features of a server in words.
    pub(super) fn found(&self) -> Option<String> {
        let FeatureCounts { tools, prompts, resources, resource_templates, instructions } =
            self.found.as_ref()?;
        let counts = [
            (*tools, "tool"),
            (*prompts, "prompt"),
            (*resources, "resource"),
            (*resource_templates, "resource template"),
        ];
        let count = |(count, noun): (usize, &str)| match count {
            0 => None,
            1 => Some(format!("1 {noun}")),
            many => Some(format!("{many} {noun}s")),
        };
        let mut parts: Vec<_> = counts.into_iter().filter_map(count).collect();
        parts.extend(instructions.then(|| "instructions".to_owned()));
        Some(if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") })
    }
}

pub(super) async fn import(args: &ImportMcpArgs) -> Result<(Imported, Source), Failure> {
    let endpoint = match (&args.url, &args.stdio) {
        (Some(url), _) => Endpoint::url(url)?,
        (None, Some(command)) => Endpoint::command(command)?,
        (None, None) => return Err(Failure::Usage("name a URL or --stdio COMMAND".to_owned())),
    };
    let name = args.name.as_deref().map(|name| Name::parse(Kind::Server, name));
    let name = name.transpose().map_err(Failure::usage)?;
    let target = Target::new(endpoint, &args.live)?;
    let progress = Progress::spinner("reading the server");
    let started = Instant::now();
    let live = live::list_features(&target).await;
    drop(progress);
    let ((live, found), naming) = (live?, naming(args)?);
    let problems = naming.problems(&live);
    if !problems.is_empty() {
        return Err(Failure::Rejected(problems.join("\n")));
    }
    let remote = args.url.as_deref().and_then(|url| public_remote(url, &target.header_names()));
    let options = ServerImportOptions {
        name,
        remote,
        version: args.version.clone(),
        share_schemas: args.share_schemas,
        tools_only: args.tools_only,
        naming,
    };
    let imported = target.process(started, move || import_server(&live, &options)).await?;
    let server = imported.draft.servers.first();
    let source = Source::new(Some(found), Kind::Server, server, &target);
    Ok((imported, source))
}

fn naming(args: &ImportMcpArgs) -> Result<Naming, Failure> {
    let mut naming = Naming {
        prefix: args.prefix.as_ref().map(ToString::to_string).unwrap_or_default(),
        ..Naming::default()
    };
    for (from, to) in &args.renames {
        if naming.renames.insert(from.clone(), to.clone()).is_some() {
            return Err(Failure::Usage(format!("duplicate --rename of `{from}`; remove one")));
        }
    }
    Ok(naming)
}
