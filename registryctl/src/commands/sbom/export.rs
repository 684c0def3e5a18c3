//! `sbom export`: one bill, received in parts.
//!
//! Deliberately absent: writing a part of a bill; it is written when all of it is there.

use registry_core::{At, Key, sbom::Format};
use registry_proto::v1;

use super::{Session, save};
use crate::{
    cli::SbomExportArgs,
    client::{Client, request},
    failure::Failure,
};

pub(super) async fn run(session: &Session, args: SbomExportArgs) -> Result<(), Failure> {
    let SbomExportArgs { root, all: _, format, out, at } = args;
    let client = session.connect().await?;
    let bytes = fetch(&client, root.as_ref(), format, at.at).await?;
    save(session, out.as_deref(), &bytes)
}

/// Receives a bill.
pub(super) async fn fetch(
    client: &Client,
    root: Option<&Key>,
    format: Format,
    at: Option<At>,
) -> Result<Vec<u8>, Failure> {
    let wanted = v1::ExportSbomRequest {
        root: root.map(Into::into),
        format: v1::SbomFormat::from(format).into(),
        at: at.map(Into::into),
    };
    let mut parts = client.answer(client.sbom().export_sbom(request(wanted))).await?;
    let mut bytes = Vec::new();
    while let Some(part) = parts.message().await.map_err(|status| client.failure(&status))? {
        bytes.extend_from_slice(&part.chunk);
    }
    Ok(bytes)
}
