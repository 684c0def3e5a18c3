//! Reads dependencies and analyzes the impact of changes.
//!
//! Walks run outside of the async runtime, because they can reach many entities.

use std::sync::Arc;

use registry_core::{
    Catalog, Key, Kind, Name, PointInTime, Record, Version,
    graph::{self, Direction, HypotheticalChange, Impact, Reach, Replacement},
    limits,
};

use super::{Catalogs, ReadError, run_blocking};

/// A failed query.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A requested entity is not registered.
    #[error("{0} is not registered")]
    NotRegistered(Key),
    /// The replacement has another name.
    #[error("{new} cannot replace {kind}/{name}: its name differs")]
    OtherName {
        /// The replacement.
        new: Key,
        /// The kind of the replaced entity.
        kind: Kind,
        /// The name of the replaced entity.
        name: Name,
    },
    /// The catalog cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Selects a part of the graph.
#[derive(Debug)]
pub struct Walk {
    /// The entities where the walk begins.
    pub keys: Vec<Key>,
    /// Towards dependencies or dependents.
    pub direction: Direction,
    /// The longest path; `None`: no limit.
    pub deepest: Option<usize>,
    /// The maximum number of entities in the response.
    pub most: usize,
    /// The point in history; `None` is the present.
    pub at: Option<PointInTime>,
}

/// A part of the graph.
#[derive(Debug)]
pub struct Walked {
    /// The nearest entities with their distances.
    pub nodes: Vec<(Arc<Record>, usize)>,
    /// The dependencies between them as indexes of dependent and dependency.
    pub edges: Vec<(usize, usize)>,
    /// The number of reached entities, including omitted ones.
    pub total: usize,
    /// Whether nodes or edges were omitted.
    pub truncated: bool,
    /// The catalog that was read.
    pub catalog: Arc<Catalog>,
}

/// Walks the graph.
pub async fn walk(catalogs: &Catalogs, walk: Walk) -> Result<Walked, Error> {
    let catalog = catalogs.at(walk.at).await?;
    for key in &walk.keys {
        registered(&catalog, key)?;
    }
    Ok(run_blocking(move || walk.run(catalog)).await?)
}

impl Walk {
    fn run(&self, catalog: Arc<Catalog>) -> Walked {
        let Self { keys, direction, deepest, most, at: _ } = self;
        let reach = Reach::from_roots(&catalog, keys, *direction, *deepest);
        let steps = reach.steps(*most);
        let mut edges = Vec::new();
        for (at, nexts) in steps.iter().enumerate() {
            edges.extend(nexts.iter().map(|&next| match direction {
                Direction::Dependencies => (at, next),
                Direction::Dependents => (next, at),
            }));
        }
        let total = reach.nodes().len();
        let truncated = total > *most || edges.len() > limits::GRAPH_EDGES;
        edges.truncate(limits::GRAPH_EDGES);
        let nodes = reach.nodes().iter().take(*most);
        let nodes = nodes.map(|node| (node.record.clone(), node.depth)).collect();
        Walked { nodes, edges, total, truncated, catalog }
    }
}

/// The paths between two entities.
#[derive(Debug)]
pub struct FoundPaths {
    /// The shortest paths, shortest first.
    pub paths: Vec<Vec<Arc<Record>>>,
    /// The number of paths, including omitted ones.
    pub total: u64,
    /// The catalog that was read.
    pub catalog: Arc<Catalog>,
}

/// Selects the paths between two entities.
#[derive(Debug)]
pub struct PathQuery {
    /// The dependent entity.
    pub from: Key,
    /// The dependency.
    pub to: Key,
    /// The maximum number of paths in the answer.
    pub most: usize,
    /// The point in history; `None` is the present.
    pub at: Option<PointInTime>,
}

/// Finds the shortest paths from an entity to a dependency.
pub async fn find_paths(catalogs: &Catalogs, query: PathQuery) -> Result<FoundPaths, Error> {
    let PathQuery { from, to, most, at } = query;
    let catalog = catalogs.at(at).await?;
    registered(&catalog, &from)?;
    registered(&catalog, &to)?;
    let explain = move || {
        let graph::Paths { shown, total } = graph::paths(&catalog, &from, &to, most);
        let records =
            |path: &Vec<Key>| path.iter().filter_map(|key| catalog.find(key).cloned()).collect();
        let paths = shown.iter().map(records).collect();
        FoundPaths { paths, total, catalog }
    };
    Ok(run_blocking(explain).await?)
}

/// A hypothetical change of an entity.
#[derive(Debug)]
pub enum Plan {
    /// Retire it.
    Retire,
    /// Deprecate it.
    Deprecate,
    /// Replace it by this document, registered or not.
    Replace(Replacement),
    /// Replace it by this registered version.
    Version(Version),
}

/// Analyzes a change, and returns the catalog that was read.
pub async fn impact(
    catalogs: &Catalogs,
    key: Key,
    plan: Plan,
    most: usize,
    at: Option<PointInTime>,
) -> Result<(Impact, Arc<Catalog>), Error> {
    let catalog = catalogs.at(at).await?;
    registered(&catalog, &key)?;
    let planned = match plan {
        Plan::Retire => HypotheticalChange::Retire,
        Plan::Deprecate => HypotheticalChange::Deprecate,
        Plan::Replace(replacement) => {
            check_name(&key, replacement.document.key())?;
            HypotheticalChange::Replace(replacement)
        }
        Plan::Version(version) => {
            let new = Key { version, ..key.clone() };
            let document = registered(&catalog, &new)?.document.clone();
            HypotheticalChange::Replace(Replacement { document, accompanying: Vec::new() })
        }
    };
    let imagine = move || {
        let mut impact = graph::impact(&catalog, &key, &planned, most);
        if let HypotheticalChange::Replace(Replacement { document, accompanying }) = &planned {
            impact.findings.extend(policy::check_document(&catalog, document, accompanying));
        }
        (impact, catalog)
    };
    Ok(run_blocking(imagine).await?)
}

fn check_name(old: &Key, new: &Key) -> Result<(), Error> {
    if (new.kind, &new.name) == (old.kind, &old.name) {
        return Ok(());
    }
    let (kind, name) = (old.kind, old.name.clone());
    Err(Error::OtherName { new: new.clone(), kind, name })
}

fn registered<'a>(catalog: &'a Catalog, key: &Key) -> Result<&'a Arc<Record>, Error> {
    catalog.find(key).ok_or_else(|| Error::NotRegistered(key.clone()))
}
