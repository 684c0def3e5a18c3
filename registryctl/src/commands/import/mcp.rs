//! `import mcp`: a live server's own words as documents.
//!
//! Deliberately absent: the conversation (`live`) and the making of documents (the core).

use std::time::Instant;

use registry_core::{
    Kind, Name,
    import::{Imported, Wishes, public_remote, server},
};

use crate::{
    cli::ImportMcpArgs,
    failure::Failure,
    live::{self, Place, Target},
    progress::Progress,
};

pub(super) async fn import(args: &ImportMcpArgs) -> Result<Imported, Failure> {
    let place = match (&args.url, &args.stdio) {
        (Some(url), _) => Place::url(url)?,
        (None, Some(command)) => Place::command(command)?,
        (None, None) => return Err(Failure::Usage("say a URL or --stdio COMMAND".to_owned())),
    };
    let name = args.name.as_deref().map(|name| Name::parse(Kind::Server, name));
    let name = name.transpose().map_err(Failure::usage)?;
    let target = Target::new(place, &args.live)?;
    let progress = Progress::spinner("asking");
    let started = Instant::now();
    let said = live::ask(&target).await;
    drop(progress);
    let (said, version) = (said?, args.version.clone());
    let remote = args.url.as_deref().and_then(|url| public_remote(url, &target.header_names()));
    let wishes = Wishes { name, version, remote };
    target.work(started, move || server(&said, &wishes)).await
}
