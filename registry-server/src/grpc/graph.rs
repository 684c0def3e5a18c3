//! `GraphService`: dependencies, the impact of changes, and version constraints.

use std::sync::Arc;

use registry_core::{
    Catalog, Document, Key, PointInTime, Record, Version,
    graph::{Direction, Impact, Replacement},
    limits,
};
use registry_proto::{
    convert, v1,
    v1::{analyze_impact_request, graph_service_server::GraphService},
};
use tonic::{Request, Response, Status};

use super::{
    Service, findings,
    invalid::{self, InvalidRequest, field},
    status,
};
use crate::app::{
    graph::{self, FoundPaths, PathQuery, Plan, Walk, Walked},
    resolve::{self, Mode},
};

/// The default of `max_nodes` and `max_affected`.
const NODES: usize = 1_000;
const ACCOMPANYING: &str = "accompanying_documents";
/// The default of `max_paths`.
const PATHS: usize = 10;

#[tonic::async_trait]
impl GraphService for Service {
    async fn get_dependencies(
        &self,
        request: Request<v1::GetDependenciesRequest>,
    ) -> Result<Response<v1::GetDependenciesResponse>, Status> {
        let v1::GetDependenciesRequest { keys, max_depth, max_nodes, at, min_revision } =
            request.into_inner();
        let walk = read_walk(keys, (max_depth, max_nodes), Direction::Dependencies, at)?;
        self.reach(min_revision).await?;
        let walked = graph::walk(&self.app.catalogs, walk).await?;
        let (graph, revision) = (Some(encode(&walked)), walked.catalog.revision().0);
        Ok(Response::new(v1::GetDependenciesResponse { graph, revision }))
    }

    async fn get_dependents(
        &self,
        request: Request<v1::GetDependentsRequest>,
    ) -> Result<Response<v1::GetDependentsResponse>, Status> {
        let v1::GetDependentsRequest { keys, max_depth, max_nodes, at, min_revision } =
            request.into_inner();
        let walk = read_walk(keys, (max_depth, max_nodes), Direction::Dependents, at)?;
        self.reach(min_revision).await?;
        let walked = graph::walk(&self.app.catalogs, walk).await?;
        let (graph, revision) = (Some(encode(&walked)), walked.catalog.revision().0);
        Ok(Response::new(v1::GetDependentsResponse { graph, revision }))
    }

    async fn explain_dependency(
        &self,
        request: Request<v1::ExplainDependencyRequest>,
    ) -> Result<Response<v1::ExplainDependencyResponse>, Status> {
        let v1::ExplainDependencyRequest { dependent, dependency, max_paths, at, min_revision } =
            request.into_inner();
        let from = read_key("dependent", dependent)?;
        let to = read_key("dependency", dependency)?;
        let most = read_maximum("max_paths", max_paths, (PATHS, limits::GRAPH_PATHS))?;
        let query = PathQuery { from, to, most, at: read_at(at)? };
        self.reach(min_revision).await?;
        let FoundPaths { paths, total, catalog } =
            graph::find_paths(&self.app.catalogs, query).await?;
        let path = |records: &Vec<Arc<Record>>| v1::GraphPath {
            nodes: records.iter().map(|record| convert::node(&catalog, record)).collect(),
        };
        Ok(Response::new(v1::ExplainDependencyResponse {
            paths: paths.iter().map(path).collect(),
            total_count: total.min(convert::MAX_PATH_COUNT),
            truncated: total > paths.len() as u64,
            revision: catalog.revision().0,
        }))
    }

    async fn analyze_impact(
        &self,
        request: Request<v1::AnalyzeImpactRequest>,
    ) -> Result<Response<v1::AnalyzeImpactResponse>, Status> {
        let v1::AnalyzeImpactRequest {
            key,
            plan,
            max_affected,
            at,
            min_revision,
            accompanying_documents,
        } = request.into_inner();
        let key = read_key("key", key)?;
        let most = read_maximum("max_affected", max_affected, (NODES, limits::GRAPH_NODES))?;
        let documents = invalid::list(ACCOMPANYING, accompanying_documents, limits::BATCH_CHANGES)?;
        let plan = read_plan(plan.ok_or(InvalidRequest::Missing("plan"))?, &documents)?;
        self.reach(min_revision).await?;
        let (impact, catalog) =
            graph::impact(&self.app.catalogs, key, plan, most, read_at(at)?).await?;
        Ok(Response::new(encode_impact(&impact, &catalog)))
    }

    async fn resolve_versions(
        &self,
        request: Request<v1::ResolveVersionsRequest>,
    ) -> Result<Response<v1::ResolveVersionsResponse>, Status> {
        let v1::ResolveVersionsRequest { requirements, return_partial_success, at, min_revision } =
            request.into_inner();
        let requirements = some("requirements", requirements, limits::REQUIREMENTS)?;
        let read = |(i, requirement)| {
            convert::requirement(requirement)
                .map_err(|e| field("requirements", &format!("[{i}]: {e}")))
        };
        let requirements =
            requirements.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let mode = if return_partial_success { Mode::Each } else { Mode::All };
        self.reach(min_revision).await?;
        let (resolutions, revision) =
            resolve::all(&self.app.catalogs, requirements, mode, read_at(at)?).await?;
        let resolutions = resolutions.iter().map(|resolution| match resolution {
            Ok(record) => convert::resolved(record),
            Err(unresolved) => convert::unresolved(unresolved),
        });
        Ok(Response::new(v1::ResolveVersionsResponse {
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

/// Takes a list that is neither empty nor too long.
fn some<T>(name: &'static str, list: Vec<T>, most: usize) -> Result<Vec<T>, InvalidRequest> {
    if list.is_empty() {
        return Err(InvalidRequest::Missing(name));
    }
    invalid::list(name, list, most)
}

fn read_at(at: Option<v1::PointInTime>) -> Result<Option<PointInTime>, InvalidRequest> {
    Ok(convert::point_in_time(at)?)
}

/// Reads a maximum. Larger values than the limit are coerced to it.
fn read_maximum(
    name: &'static str,
    wanted: i32,
    (default, limit): (usize, usize),
) -> Result<usize, InvalidRequest> {
    match usize::try_from(wanted) {
        Ok(0) => Ok(default),
        Ok(wanted) => Ok(wanted.min(limit)),
        Err(_) => Err(field(name, &format!("{wanted} is negative"))),
    }
}

fn read_walk(
    keys: Vec<v1::EntityKey>,
    (max_depth, max_nodes): (Option<u32>, i32),
    direction: Direction,
    at: Option<v1::PointInTime>,
) -> Result<Walk, InvalidRequest> {
    let keys = some("keys", keys, limits::GRAPH_ROOTS)?;
    let keys = keys.into_iter().map(|key| read_key("keys", Some(key)));
    Ok(Walk {
        keys: keys.collect::<Result<_, _>>()?,
        direction,
        deepest: max_depth.and_then(|depth| usize::try_from(depth).ok()),
        most: read_maximum("max_nodes", max_nodes, (NODES, limits::GRAPH_NODES))?,
        at: read_at(at)?,
    })
}

fn encode(walked: &Walked) -> v1::DependencyGraph {
    let Walked { nodes, edges, total, truncated, catalog } = walked;
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let end = |at: usize| (number(at), nodes[at].0.document.key().kind);
    let node = |(record, depth): &(Arc<Record>, usize)| v1::GraphNode {
        depth: number(*depth),
        ..convert::node(catalog, record)
    };
    v1::DependencyGraph {
        nodes: nodes.iter().map(node).collect(),
        edges: edges.iter().map(|(from, to)| convert::edge(end(*from), end(*to))).collect(),
        total_count: *total as u64,
        truncated: *truncated,
    }
}

fn read_plan(
    plan: analyze_impact_request::Plan,
    accompanying: &[v1::JsonDocument],
) -> Result<Plan, Status> {
    match plan {
        analyze_impact_request::Plan::LifecycleState(_)
        | analyze_impact_request::Plan::Version(_)
            if !accompanying.is_empty() =>
        {
            Err(field(ACCOMPANYING, &"set it only with `entity` or `document`").into())
        }
        analyze_impact_request::Plan::LifecycleState(state) => {
            match v1::LifecycleState::try_from(state) {
                Ok(v1::LifecycleState::Retired) => Ok(Plan::Retire),
                Ok(v1::LifecycleState::Deprecated) => Ok(Plan::Deprecate),
                _ => Err(field("lifecycle_state", &"set it to DEPRECATED or RETIRED").into()),
            }
        }
        analyze_impact_request::Plan::Entity(entity) => {
            let document = convert::document(entity);
            replacement(document.map_err(|found| status::rejected(&found))?, accompanying)
        }
        analyze_impact_request::Plan::Document(document) => {
            let document = convert::json_document(&document);
            replacement(document.map_err(|found| status::rejected(&found))?, accompanying)
        }
        analyze_impact_request::Plan::Version(version) => {
            let version = Version::parse(&version).map_err(|e| field("version", &e))?;
            Ok(Plan::Version(version))
        }
    }
}

fn replacement(document: Document, accompanying: &[v1::JsonDocument]) -> Result<Plan, Status> {
    let read = |document| convert::json_document(document).map(Arc::new);
    let accompanying = accompanying.iter().map(read).collect::<Result<Vec<_>, Vec<_>>>();
    let accompanying = accompanying.map_err(|found| status::rejected(&found))?;
    Ok(Plan::Replace(Replacement { document: Arc::new(document), accompanying }))
}

fn encode_impact(impact: &Impact, catalog: &Catalog) -> v1::AnalyzeImpactResponse {
    let Impact {
        findings,
        comparison,
        affected,
        total,
        breaking,
        undecided,
        unchecked,
        policies,
        selected,
        selected_total,
    } = impact;
    let about_plan = findings::for_answer(convert::diagnostics(findings));
    let mut truncated = affected.len() < *total || selected.len() < *selected_total;
    let mut room = findings::ANSWER_BYTES;
    let mut encoded: Vec<_> =
        affected.iter().map(|affected| convert::affected(catalog, affected)).collect();
    for entity in &mut encoded {
        let all = entity.findings.len();
        findings::cut(&mut entity.findings, room);
        truncated |= entity.findings.len() < all;
        room -= entity.findings.iter().map(prost::Message::encoded_len).sum::<usize>();
    }
    v1::AnalyzeImpactResponse {
        findings: about_plan,
        affected: encoded,
        total_count: *total as u64,
        breaking_count: *breaking as u64,
        undecided_count: *undecided as u64,
        unchecked_count: *unchecked as u64,
        truncated,
        revision: catalog.revision().0,
        comparison: comparison.as_ref().map(convert::compared),
        policies: policies.iter().filter_map(|record| convert::selecting_policy(record)).collect(),
        selected: selected.iter().map(|record| convert::node(catalog, record)).collect(),
        selected_count: *selected_total as u64,
    }
}
