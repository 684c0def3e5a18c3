//! `SbomService`: bills of materials and the users of a component.

use std::{mem::take, pin::Pin};

use futures_util::{Stream, stream};
use registry_core::{Key, Kind, Record};
use registry_proto::{convert, v1, v1::sbom_service_server::SbomService};
use registry_sbom::{Consumer, Format};
use tonic::{Request, Response, Status};

use super::{
    Service,
    invalid::{InvalidRequest, Selected, field, named_selector},
};
use crate::app::{
    component_users::{self, ComponentQuery, ComponentUsers},
    sbom::{self, Parts},
};

/// A format that is missing or unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidSbomFormat {
    /// `SBOM_FORMAT_UNSPECIFIED`, or the field was left out.
    #[error("the format is missing; set it to CycloneDX 1.6 or 1.7, or SPDX 2.3 or 3.0")]
    Unspecified,
    /// An unknown number.
    #[error("{0} is not a known format")]
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
        let v1::ExportSbomRequest { root, format, at, min_revision } = request.into_inner();
        self.reach(min_revision).await?;
        let root = root.map(Key::try_from).transpose().map_err(|e| field("root", &e))?;
        if root.as_ref().is_some_and(|root| root.kind == Kind::Policy) {
            return Err(field("root", &"a policy is not a component").into());
        }
        let format = sbom_format(format).map_err(InvalidRequest::from)?;
        let at = convert::point_in_time(at).map_err(InvalidRequest::from)?;
        let (app, wanted) = (&self.app, sbom::Wanted { root, format, at });
        let parts = sbom::export(&app.catalogs, &app.store, &app.sboms, wanted).await?;
        Ok(Response::new(Box::pin(stream::unfold(Some(parts), next))))
    }

    async fn find_component_users(
        &self,
        request: Request<v1::FindComponentUsersRequest>,
    ) -> Result<Response<v1::FindComponentUsersResponse>, Status> {
        let mut request = request.into_inner();
        self.reach(take(&mut request.min_revision)).await?;
        let page = page_request!("FindComponentUsers", request);
        let v1::FindComponentUsersRequest { component, user_kind, at, .. } = request;
        let component = component.ok_or(InvalidRequest::Missing("component"))?;
        let Selected { kind, name, version } = named_selector("component", component)?;
        let query = ComponentQuery {
            kind,
            name,
            version,
            user_kind: convert::filter_kind(user_kind).map_err(|e| field("user_kind", &e))?,
            at: convert::point_in_time(at).map_err(InvalidRequest::from)?,
        };
        let ComponentUsers { users, next_page_token, revision } =
            component_users::find(&self.app.catalogs, &self.app.component_users, query, &page)
                .await?;
        let users = users.iter().map(|(user, record)| encode(user, record)).collect();
        let revision = revision.0;
        Ok(Response::new(v1::FindComponentUsersResponse { users, next_page_token, revision }))
    }
}

/// The next chunk of a bill. An error ends the stream.
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

fn encode(holder: &Consumer, record: &Record) -> v1::ComponentUser {
    v1::ComponentUser {
        path: holder.path.iter().map(v1::EntityKey::from).collect(),
        lifecycle_state: v1::LifecycleState::from(record.lifecycle.state).into(),
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
