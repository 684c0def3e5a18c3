//! `resolve`: exact versions for constraints.

use registry_core::resolve::Requirement;
use registry_proto::v1::{self, resolution::Outcome};
use serde::Serialize;

use super::Session;
use crate::{
    cli::{Format, ResolveArgs},
    client::{Client, request},
    failure::Failure,
    graph::Resolved,
    screen::TextTable,
    style::Paint,
    view::short_digest,
};

/// The resolution of one requirement.
#[derive(Debug, Serialize)]
struct ResolutionView {
    requirement: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    resolved: Option<Resolved>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unresolved: Option<String>,
}

/// The JSON result.
#[derive(Serialize)]
struct ResolveView {
    revision: u64,
    resolutions: Vec<ResolutionView>,
}

pub(super) async fn run(session: &Session, args: &ResolveArgs) -> Result<(), Failure> {
    let client = session.connect().await?;
    let Resolutions { outcomes, revision, registry: _ } =
        resolve(&client, &args.requirements, args.as_of.message()).await?;
    let views = args.requirements.iter().zip(outcomes).map(|(requirement, outcome)| {
        let (resolved, unresolved) = match outcome {
            Ok(resolved) => (Some(resolved), None),
            Err(reason) => (None, Some(reason)),
        };
        ResolutionView { requirement: requirement.to_string(), resolved, unresolved }
    });
    let view = ResolveView { revision, resolutions: views.collect() };
    let screen = session.screen;
    if screen.format == Format::Json {
        screen.json(&view)?;
    } else {
        let mut table = TextTable::new(&["REQUIREMENT", "VERSION", "LIFECYCLE", "DIGEST"]);
        for ResolutionView { requirement, resolved, .. } in &view.resolutions {
            let Some(Resolved { key, digest, lifecycle }) = resolved else { continue };
            let cells = [&**requirement, &key.version, lifecycle.state, short_digest(digest)];
            match lifecycle.state {
                "active" => table.row(cells),
                _ => table.painted(Paint::Careful, cells),
            }
        }
        if view.resolutions.iter().any(|resolution| resolution.resolved.is_some()) {
            screen.table(&table)?;
        }
    }
    let missing: Vec<_> = view.resolutions.iter().filter_map(|r| r.unresolved.clone()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let at = args.as_of.at.map(|_| format!(" (at revision {revision})")).unwrap_or_default();
    Err(Failure::Rejected(format!("{}{at}", missing.join("; "))))
}

/// The resolutions of several requirements.
pub(super) struct Resolutions {
    /// For each requirement, in order, the version or the reason why no version matches.
    pub(super) outcomes: Vec<Result<Resolved, String>>,
    pub(super) revision: u64,
    pub(super) registry: String,
}

/// Resolves requirements independently of each other.
pub(super) async fn resolve(
    client: &Client,
    requirements: &[Requirement],
    at: Option<v1::PointInTime>,
) -> Result<Resolutions, Failure> {
    let requirements: Vec<_> = requirements.iter().map(v1::VersionRequirement::from).collect();
    let expected = requirements.len();
    let wanted = v1::ResolveVersionsRequest {
        requirements,
        return_partial_success: true,
        at,
        ..Default::default()
    };
    let answer = client.answer(client.graph().resolve_versions(request(wanted))).await?;
    let v1::ResolveVersionsResponse { resolutions, revision, registry_id } = answer;
    let outcome = |resolution: v1::Resolution| match resolution.outcome {
        Some(Outcome::Resolved(resolved)) => Ok(Ok(Resolved::from(resolved))),
        Some(Outcome::Unresolved(unresolved)) => Ok(Err(unresolved.message)),
        None => Err(Failure::invalid_response("a requirement has no resolution")),
    };
    let outcomes = resolutions.into_iter().map(outcome).collect::<Result<Vec<_>, _>>()?;
    if outcomes.len() != expected {
        return Err(Failure::invalid_response("the number of resolutions is wrong"));
    }
    Ok(Resolutions { outcomes, revision, registry: registry_id })
}
