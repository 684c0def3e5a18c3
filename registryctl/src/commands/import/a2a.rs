//! `import a2a`: the card of an agent as a registry document.
//!
//! The extended card is not supported.

use std::time::Instant;

use registry_core::{Kind, Name};
use registry_import::{AgentImportOptions, CardOrigin, Imported, import_agent};
use tokio::time::timeout;

use super::mcp::Source;
use crate::{
    cli::ImportA2aArgs,
    clock,
    failure::Failure,
    live::{CardKeys, Endpoint, Target, get_card, without_query},
    progress::Progress,
};

pub(super) async fn import(args: &ImportA2aArgs) -> Result<(Imported, Source), Failure> {
    let target = Target::new(Endpoint::url(&args.url)?, &args.live)?;
    let name = args.name.as_deref().map(|name| Name::parse(Kind::Agent, name));
    let name = name.transpose().map_err(Failure::usage)?;
    let trusted = CardKeys::open(&args.keys, &args.live).await?;
    let progress = Progress::spinner("reading the card");
    let started = Instant::now();
    let read = async {
        let card = get_card(&target, &args.url).await?;
        let keys = trusted.of_card(&target, &card).await?;
        Ok::<_, Failure>((card, keys))
    };
    let read = timeout(target.timeout(), read).await;
    let (card, keys) = read.unwrap_or_else(|_| Err(target.timed_out()))?;
    drop(progress);
    let (url, now) = (without_query(&args.url).to_owned(), clock::timestamp());
    let version = args.version.clone();
    let import = move || {
        let origin = keys.map_or(Ok(CardOrigin::NotVerified), |keys| card.verified(&keys, now));
        origin.map(|origin| {
            let options = AgentImportOptions { name, version, url, origin };
            import_agent(&card.value, &options)
        })
    };
    let imported = target.process(started, import).await?;
    let imported = imported.map_err(|error| target.invalid_signature(error))?;
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
