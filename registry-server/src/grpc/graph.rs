//! `GraphService`: who needs whom, what a change would break, what a constraint means.

use std::sync::Arc;

use registry_core::{
    Catalog, Key, PointInTime, Record, Version,
    graph::{Direction, Impact},
    limits,
};
use registry_proto::{
    convert, v1,
    v1::{graph_service_server::GraphService, impact_request},
};
use tonic::{Request, Response, Status};

use super::{
    Service, findings,
    invalid::{self, InvalidRequest, field},
    status,
};
use crate::app::{
    graph::{self, Plan, Reasons, Walk, Walked},
    resolve::{self, Mode},
};

/// Entities in an answer where the request names no limit.
const NODES: usize = 1_000;
/// Paths in an answer where the request names no limit.
const PATHS: usize = 10;

#[tonic::async_trait]
impl GraphService for Service {
    async fn get_dependencies(
        &self,
        request: Request<v1::GetDependenciesRequest>,
    ) -> Result<Response<v1::GetDependenciesResponse>, Status> {
        let v1::GetDependenciesRequest { keys, depth, limit, at } = request.into_inner();
        let walk = read_walk(keys, (depth, limit), Direction::Dependencies, at)?;
        let walked = graph::walk(&self.app.catalogs, walk).await?;
        let (graph, revision) = (Some(encode(&walked)), walked.catalog.revision().0);
        Ok(Response::new(v1::GetDependenciesResponse { graph, revision }))
    }

    async fn get_dependents(
        &self,
        request: Request<v1::GetDependentsRequest>,
    ) -> Result<Response<v1::GetDependentsResponse>, Status> {
        let v1::GetDependentsRequest { keys, depth, limit, at } = request.into_inner();
        let walk = read_walk(keys, (depth, limit), Direction::Dependents, at)?;
        let walked = graph::walk(&self.app.catalogs, walk).await?;
        let (graph, revision) = (Some(encode(&walked)), walked.catalog.revision().0);
        Ok(Response::new(v1::GetDependentsResponse { graph, revision }))
    }

    async fn why(
        &self,
        request: Request<v1::WhyRequest>,
    ) -> Result<Response<v1::WhyResponse>, Status> {
        let v1::WhyRequest { from, to, limit, at } = request.into_inner();
        let (from, to) = (read_key("from", from)?, read_key("to", to)?);
        let most = read_limit(limit, PATHS, limits::GRAPH_PATHS)?;
        let why = graph::Why { from, to, most, at: read_at(at)? };
        let Reasons { paths, total, catalog } = graph::why(&self.app.catalogs, why).await?;
        let path = |records: &Vec<Arc<Record>>| v1::GraphPath {
            nodes: records.iter().map(|record| convert::node(&catalog, record)).collect(),
        };
        Ok(Response::new(v1::WhyResponse {
            paths: paths.iter().map(path).collect(),
            total,
            truncated: total > paths.len() as u64,
            revision: catalog.revision().0,
        }))
    }

    async fn impact(
        &self,
        request: Request<v1::ImpactRequest>,
    ) -> Result<Response<v1::ImpactResponse>, Status> {
        let v1::ImpactRequest { key, plan, limit, at } = request.into_inner();
        let key = read_key("key", key)?;
        let most = read_limit(limit, NODES, limits::GRAPH_NODES)?;
        let plan = read_plan(plan.ok_or(InvalidRequest::Missing("plan"))?)?;
        let (impact, catalog) =
            graph::impact(&self.app.catalogs, key, plan, most, read_at(at)?).await?;
        Ok(Response::new(encode_impact(&impact, &catalog)))
    }

    async fn resolve(
        &self,
        request: Request<v1::ResolveRequest>,
    ) -> Result<Response<v1::ResolveResponse>, Status> {
        let v1::ResolveRequest { requirements, partial, at } = request.into_inner();
        let requirements = some("requirements", requirements, limits::REQUIREMENTS)?;
        let read = |(i, requirement)| {
            convert::requirement(requirement)
                .map_err(|e| field("requirements", &format!("the one at {i}: {e}")))
        };
        let requirements =
            requirements.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let mode = if partial { Mode::Each } else { Mode::All };
        let (resolutions, revision) =
            resolve::all(&self.app.catalogs, requirements, mode, read_at(at)?).await?;
        let resolutions = resolutions.iter().map(|resolution| match resolution {
            Ok(record) => convert::resolved(record),
            Err(unresolved) => convert::unresolved(unresolved),
        });
        Ok(Response::new(v1::ResolveResponse {
            resolutions: resolutions.collect(),
            revision: revision.0,
            registry_id: self.app.registry().to_string(),
        }))
    }
}

fn read_key(name: &'static str, key: Option<v1::EntityKey>) -> Result<Key, InvalidRequest> {
    let key = key.ok_or(InvalidRequest::Missing(name))?;
    Key::try_from(key).map_err(|e| field(name, &e))
}

/// Takes a list that has something in it, and is short enough.
fn some<T>(name: &'static str, list: Vec<T>, most: usize) -> Result<Vec<T>, InvalidRequest> {
    if list.is_empty() {
        return Err(InvalidRequest::Missing(name));
    }
    invalid::list(name, list, most)
}

fn read_at(at: Option<v1::At>) -> Result<Option<PointInTime>, InvalidRequest> {
    Ok(convert::at(at)?)
}

fn read_limit(wanted: u32, default: usize, most: usize) -> Result<usize, InvalidRequest> {
    match usize::try_from(wanted) {
        Ok(0) => Ok(default),
        Ok(wanted) if wanted <= most => Ok(wanted),
        wanted => {
            let count = wanted.unwrap_or(usize::MAX);
            Err(InvalidRequest::TooMany { field: "limit", count, limit: most })
        }
    }
}

fn read_walk(
    keys: Vec<v1::EntityKey>,
    (depth, limit): (Option<u32>, u32),
    direction: Direction,
    at: Option<v1::At>,
) -> Result<Walk, InvalidRequest> {
    let keys = some("keys", keys, limits::GRAPH_ROOTS)?;
    let keys = keys.into_iter().map(|key| read_key("keys", Some(key)));
    Ok(Walk {
        keys: keys.collect::<Result<_, _>>()?,
        direction,
        deepest: depth.and_then(|depth| usize::try_from(depth).ok()),
        most: read_limit(limit, NODES, limits::GRAPH_NODES)?,
        at: read_at(at)?,
    })
}

fn encode(walked: &Walked) -> v1::Graph {
    let Walked { nodes, edges, total, truncated, catalog } = walked;
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let end = |at: usize| (number(at), nodes[at].0.document.key().kind);
    v1::Graph {
        nodes: nodes.iter().map(|(record, _)| convert::node(catalog, record)).collect(),
        depths: nodes.iter().map(|(_, depth)| number(*depth)).collect(),
        edges: edges.iter().map(|(from, to)| convert::edge(end(*from), end(*to))).collect(),
        total: *total as u64,
        truncated: *truncated,
    }
}

fn read_plan(plan: impact_request::Plan) -> Result<Plan, Status> {
    match plan {
        impact_request::Plan::Lifecycle(state) => match v1::LifecycleState::try_from(state) {
            Ok(v1::LifecycleState::Retired) => Ok(Plan::Retire),
            Ok(v1::LifecycleState::Deprecated) => Ok(Plan::Deprecate),
            _ => Err(field("lifecycle", &"plan to deprecate or to retire").into()),
        },
        impact_request::Plan::Document(entity) => match convert::document(entity) {
            Ok(document) => Ok(Plan::Document(Box::new(document))),
            Err(found) => Err(status::refused(&found)),
        },
        impact_request::Plan::Version(version) => {
            let version = Version::parse(&version).map_err(|e| field("version", &e))?;
            Ok(Plan::Version(version))
        }
    }
}

fn encode_impact(impact: &Impact, catalog: &Catalog) -> v1::ImpactResponse {
    let Impact { findings, comparison, affected, total, breaking, undecided, unchecked } = impact;
    let about_plan = findings::for_answer(convert::diagnostics(findings));
    let mut truncated = affected.len() < *total;
    let mut room = findings::ANSWER_BYTES;
    let mut encoded: Vec<_> =
        affected.iter().map(|affected| convert::affected(catalog, affected)).collect();
    for entity in &mut encoded {
        let all = entity.findings.len();
        findings::cut(&mut entity.findings, room);
        truncated |= entity.findings.len() < all;
        room -= entity.findings.iter().map(prost::Message::encoded_len).sum::<usize>();
    }
    v1::ImpactResponse {
        findings: about_plan,
        affected: encoded,
        total: *total as u64,
        breaking: *breaking as u64,
        undecided: *undecided as u64,
        unchecked: *unchecked as u64,
        truncated,
        revision: catalog.revision().0,
        comparison: comparison.as_ref().map(convert::compared),
    }
}
