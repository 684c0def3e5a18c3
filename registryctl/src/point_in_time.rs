//! The catalog as of a point in history, received in pages and verified.

use registry_core::{Catalog, PointInTime};
use registry_proto::{convert, v1};

use crate::{
    client::{Client, request},
    failure::Failure,
    follow::{read_position, read_records, restore},
    progress::Progress,
};

pub(crate) async fn fetch(client: &Client, at: PointInTime) -> Result<Catalog, Failure> {
    let progress = Progress::spinner("receiving");
    let mut wanted = v1::ExportCatalogRequest { at: Some(at.into()), ..Default::default() };
    let page = client.answer(client.history().export_catalog(request(wanted.clone()))).await?;
    let v1::ExportCatalogResponse { position, entities, settings, digest, next_page_token } = page;
    let position = read_position(position)?;
    if let PointInTime::Revision(wanted) = at
        && wanted != position.revision
    {
        let got = position.revision;
        return Err(Failure::invalid_response(format!(
            "the catalog has revision {got} instead of {wanted}"
        )));
    }
    let mut sets = convert::settings(settings).map_err(Failure::invalid_response)?;
    let mut records = read_records(entities)?;
    wanted.page_token = next_page_token;
    while !wanted.page_token.is_empty() {
        let page = client.answer(client.history().export_catalog(request(wanted.clone()))).await?;
        records.extend(read_records(page.entities)?);
        sets.extend(convert::settings(page.settings).map_err(Failure::invalid_response)?);
        wanted.page_token = page.next_page_token;
    }
    drop(progress);
    restore(position, sets, records, &digest)
}
