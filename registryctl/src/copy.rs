//! The catalog as it was at a point in history, received in pages and proven.
//!
//! Deliberately absent: the present; that comes over the stream, see `follow`.

use registry_core::{At, Catalog, Record};
use registry_proto::{
    convert::{self, Position},
    v1,
};

use crate::{
    client::{Client, request},
    failure::Failure,
    follow::{prove, read_position},
    progress::Progress,
};

/// Receives the catalog of a point in history.
pub(crate) async fn fetch(client: &Client, at: At) -> Result<Catalog, Failure> {
    let progress = Progress::spinner("receiving");
    let mut wanted = v1::ExportCatalogRequest { at: Some(at.into()), page_token: String::new() };
    let page = client.answer(client.history().export_catalog(request(wanted.clone()))).await?;
    let v1::ExportCatalogResponse { position, entities, settings, digest, next_page_token } = page;
    let position = read_position(position)?;
    if let At::Revision(wanted) = at
        && wanted != position.revision
    {
        let got = position.revision;
        return Err(Failure::answer(format!("it holds revision {got} instead of {wanted}")));
    }
    let settings = convert::settings(settings).map_err(Failure::answer)?;
    let mut records = Vec::new();
    read(&mut records, entities)?;
    // A time may stand for a later revision by now.
    wanted.at = Some(At::Revision(position.revision).into());
    wanted.page_token = next_page_token;
    while !wanted.page_token.is_empty() {
        let page = client.answer(client.history().export_catalog(request(wanted.clone()))).await?;
        read(&mut records, page.entities)?;
        wanted.page_token = page.next_page_token;
    }
    drop(progress);
    let Position { registry, revision, chain } = position;
    let entities = records.len() as u64;
    let catalog = Catalog::restore(registry, revision, chain, records).with_settings(settings);
    prove(&catalog, entities, &digest)?;
    Ok(catalog)
}

fn read(records: &mut Vec<Record>, entities: Vec<v1::SnapshotEntity>) -> Result<(), Failure> {
    for entity in entities {
        records.push(Record::try_from(entity).map_err(Failure::answer)?);
    }
    Ok(())
}
