//! `import a2a`: the card of an agent as a registry document.
//!
//! The extended card is not supported.

use std::time::Instant;

use registry_core::{Kind, Name};
use registry_import::{AgentImportOptions, Imported, import_agent};

use super::mcp::Source;
use crate::{
    cli::ImportA2aArgs,
    failure::Failure,
    live::{CardKeys, Endpoint, Target, without_query},
    progress::Progress,
};

pub(super) async fn import(args: &ImportA2aArgs) -> Result<(Imported, Source), Failure> {
    let target = Target::new(Endpoint::url(&args.url)?, &args.live)?;
    let name = args.name.as_deref().map(|name| Name::parse(Kind::Agent, name));
    let name = name.transpose().map_err(Failure::usage)?;
    let trusted = CardKeys::open(&args.keys, &args.live).await?;
    let progress = Progress::spinner("reading the card");
    let started = Instant::now();
    let (card, origin) = trusted.verified_card(&target, &args.url, started).await?;
    drop(progress);
    let (version, url) = (args.version.clone(), without_query(&args.url).to_owned());
    let options = AgentImportOptions { name, version, url, origin };
    let imported = target.process(started, move || import_agent(&card.value, &options)).await?;
    let agent = imported.draft.agents.first();
    let address = agent.and_then(|agent| agent.get("url")?.as_str());
    // An unusable address is a finding of the import.
    let endpoint = address.and_then(|url| Endpoint::url(url).ok());
    let agent = agent.filter(|_| endpoint.is_some());
    let target =
        endpoint.map(|endpoint| Target::new(endpoint, &args.live)).transpose()?.unwrap_or(target);
    let source = Source::new(None, Kind::Agent, agent, &target);
    Ok((imported, source))
}
