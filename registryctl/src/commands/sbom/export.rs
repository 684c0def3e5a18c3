//! `sbom export`: receives an SBOM in parts and writes it when it is complete.

use registry_core::{Key, PointInTime};
use registry_proto::v1;
use registry_sbom::Format;

use super::{Session, save};
use crate::{
    cli::SbomExportArgs,
    client::{Client, request},
    failure::Failure,
};

pub(super) async fn run(session: &Session, args: SbomExportArgs) -> Result<(), Failure> {
    let SbomExportArgs { root, all: _, format, out, as_of } = args;
    let client = session.connect().await?;
    let bytes = fetch(&client, root.as_ref(), format, as_of.at).await?;
    save(session, out.as_deref(), &bytes)
}

/// Receives an SBOM.
pub(super) async fn fetch(
    client: &Client,
    root: Option<&Key>,
    format: Format,
    at: Option<PointInTime>,
) -> Result<Vec<u8>, Failure> {
    let wanted = v1::ExportSbomRequest {
        root: root.map(Into::into),
        format: message(format).into(),
        at: at.map(Into::into),
        min_revision: 0,
    };
    let mut parts = client.answer(client.sbom().export_sbom(request(wanted))).await?;
    let mut bytes = Vec::new();
    while let Some(part) = parts.message().await.map_err(|status| client.failure(&status))? {
        bytes.extend_from_slice(&part.chunk);
    }
    Ok(bytes)
}

fn message(format: Format) -> v1::SbomFormat {
    match format {
        Format::CycloneDx16 => v1::SbomFormat::Cyclonedx16,
        Format::CycloneDx17 => v1::SbomFormat::Cyclonedx17,
        Format::Spdx23 => v1::SbomFormat::Spdx23,
        Format::Spdx30 => v1::SbomFormat::Spdx30,
    }
}
