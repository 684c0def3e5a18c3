//! `SbomService`: bills of materials and the entities that contain a component.

use std::pin::Pin;

use futures_util::{Stream, stream};
use registry_core::{Key, Name, Record, Version};
use registry_proto::{convert, v1, v1::sbom_service_server::SbomService};
use registry_sbom::{Consumer, Format};
use tonic::{Request, Response, Status};

use super::{
    Service,
    invalid::{InvalidRequest, field},
};
use crate::app::{
    page,
    sbom::{self, Parts},
    who_has::{self, Held, WhoHas},
};

/// A format that is missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidSbomFormat {
    /// `SBOM_FORMAT_UNSPECIFIED`, or the field was left out.
    #[error("the format is missing; set it to CycloneDX 1.6 or 1.7, or SPDX 2.3 or 3.0")]
    Unspecified,
    /// An unknown number.
    #[error("{0} is not the number of a format that this version knows")]
    Unknown(i32),
}

type Responses = Pin<Box<dyn Stream<Item = Result<v1::ExportSbomResponse, Status>> + Send>>;

#[tonic::async_trait]
impl SbomService for Service {
    type ExportSbomStream = Responses;

    async fn export_sbom(
        &self,
        request: Request<v1::ExportSbomRequest>,
    ) -> Result<Response<Responses>, Status> {
        let v1::ExportSbomRequest { root, format, at } = request.into_inner();
        let root = root.map(Key::try_from).transpose().map_err(InvalidRequest::from)?;
        let format = sbom_format(format).map_err(InvalidRequest::from)?;
        let at = convert::at(at).map_err(InvalidRequest::from)?;
        let (app, wanted) = (&self.app, sbom::Wanted { root, format, at });
        let parts = sbom::export(&app.catalogs, &app.store, &app.sboms, wanted).await?;
        Ok(Response::new(Box::pin(stream::unfold(Some(parts), next))))
    }

    async fn who_has(
        &self,
        request: Request<v1::WhoHasRequest>,
    ) -> Result<Response<v1::WhoHasResponse>, Status> {
        let v1::WhoHasRequest { kind, name, version, holder_kind, page_size, page_token, at } =
            request.into_inner();
        let kind = convert::kind(kind).map_err(InvalidRequest::from)?;
        let version = Some(version).filter(|version| !version.is_empty());
        let query = WhoHas {
            kind,
            name: Name::parse(kind, &name).map_err(|e| field("name", &e))?,
            version: version
                .map(|version| Version::parse(&version))
                .transpose()
                .map_err(|e| field("version", &e))?,
            holder_kind: convert::filter_kind(holder_kind).map_err(InvalidRequest::from)?,
            at: convert::at(at).map_err(InvalidRequest::from)?,
        };
        let size = page::size(page_size)?;
        let Held { holders, next_page_token, revision } =
            who_has::who_has(&self.app.catalogs, &self.app.holders, query, size, &page_token)
                .await?;
        let holders = holders.iter().map(|(holder, record)| encode(holder, record)).collect();
        Ok(Response::new(v1::WhoHasResponse { holders, next_page_token, revision: revision.0 }))
    }
}

/// The next message of a bill; after an error there is no other.
async fn next(
    parts: Option<Parts>,
) -> Option<(Result<v1::ExportSbomResponse, Status>, Option<Parts>)> {
    let mut parts = parts?;
    let revision = parts.revision.0;
    Some(match parts.next().await? {
        Ok(chunk) => (Ok(v1::ExportSbomResponse { revision, chunk }), Some(parts)),
        Err(error) => (Err(error.into()), None),
    })
}

fn encode(holder: &Consumer, record: &Record) -> v1::Holder {
    v1::Holder {
        path: holder.path.iter().map(v1::EntityKey::from).collect(),
        lifecycle: v1::LifecycleState::from(record.lifecycle.state).into(),
    }
}

/// The format with this number.
fn sbom_format(number: i32) -> Result<Format, InvalidSbomFormat> {
    match v1::SbomFormat::try_from(number).map_err(|_| InvalidSbomFormat::Unknown(number))? {
        v1::SbomFormat::Unspecified => Err(InvalidSbomFormat::Unspecified),
        v1::SbomFormat::Cyclonedx16 => Ok(Format::CycloneDx16),
        v1::SbomFormat::Cyclonedx17 => Ok(Format::CycloneDx17),
        v1::SbomFormat::Spdx23 => Ok(Format::Spdx23),
        v1::SbomFormat::Spdx30 => Ok(Format::Spdx30),
    }
}
