//! Say who needs whom, why, and what a change would break.
//!
//! The walk runs outside of the async runtime, because it may reach many entities.

use std::sync::Arc;

use registry_core::{
    Catalog, Document, Key, Kind, Name, PointInTime, Record, Version,
    graph::{self, Direction, HypotheticalChange, Impact, Reach},
    limits,
};

use super::{Catalogs, ReadError, run_blocking};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What the question is about is not there.
    #[error("{0} is not registered")]
    NotRegistered(Key),
    /// An entity cannot be replaced by that one.
    #[error("{new} is no version of {kind}/{name}, which it would replace")]
    OtherName {
        /// The replacement.
        new: Key,
        /// The kind of what would be replaced.
        kind: Kind,
        /// Its name.
        name: Name,
    },
    /// The catalog cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// From where to walk, and how far.
#[derive(Debug)]
pub struct Walk {
    /// From which entities.
    pub keys: Vec<Key>,
    /// TokenFilter way.
    pub direction: Direction,
    /// Most steps away.
    pub deepest: Option<usize>,
    /// Most entities in the answer.
    pub most: usize,
    /// When; `None`: now.
    pub at: Option<PointInTime>,
}

/// What a walk reached.
#[derive(Debug)]
pub struct Walked {
    /// The first entities that were reached, with how many steps away they are.
    pub nodes: Vec<(Arc<Record>, usize)>,
    /// The dependencies between them, as positions: the first needs the second.
    pub edges: Vec<(usize, usize)>,
    /// How many entities were reached.
    pub total: usize,
    /// Whether nodes or edges were left out.
    pub truncated: bool,
    /// What was read.
    pub catalog: Arc<Catalog>,
}

/// Walks the graph.
pub async fn walk(catalogs: &Catalogs, walk: Walk) -> Result<Walked, Error> {
    let catalog = catalogs.at(walk.at).await?;
    for key in &walk.keys {
        registered(&catalog, key)?;
    }
    Ok(run_blocking(move || walk.on(catalog)).await?)
}

impl Walk {
    fn on(&self, catalog: Arc<Catalog>) -> Walked {
        let Self { keys, direction, deepest, most, at: _ } = self;
        let reach = Reach::from_roots(&catalog, keys, *direction, *deepest);
        let steps = reach.steps(&catalog, *most);
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
        let node = |node: &graph::Reached| Some((catalog.find(&node.key)?.clone(), node.depth));
        let nodes = reach.nodes().iter().take(*most).filter_map(node).collect();
        Walked { nodes, edges, total, truncated, catalog }
    }
}

/// Why one entity needs another.
#[derive(Debug)]
pub struct Reasons {
    /// The shortest paths, shortest first.
    pub paths: Vec<Vec<Arc<Record>>>,
    /// How many paths there are.
    pub total: u64,
    /// What was read.
    pub catalog: Arc<Catalog>,
}

/// A question why one entity needs another.
#[derive(Debug)]
pub struct Why {
    /// The dependent entity.
    pub from: Key,
    /// The dependency.
    pub to: Key,
    /// The maximum number of paths in the answer.
    pub most: usize,
    /// The point in history; `None` is the present.
    pub at: Option<PointInTime>,
}

/// Finds the shortest paths by which one entity needs another.
pub async fn why(catalogs: &Catalogs, why: Why) -> Result<Reasons, Error> {
    let Why { from, to, most, at } = why;
    let catalog = catalogs.at(at).await?;
    registered(&catalog, &from)?;
    registered(&catalog, &to)?;
    let explain = move || {
        let graph::Paths { shown, total } = graph::paths(&catalog, &from, &to, most);
        let records =
            |path: &Vec<Key>| path.iter().filter_map(|key| catalog.find(key).cloned()).collect();
        let paths = shown.iter().map(records).collect();
        Reasons { paths, total, catalog }
    };
    Ok(run_blocking(explain).await?)
}

/// What is planned for an entity.
#[derive(Debug)]
pub enum Plan {
    /// Retire it.
    Retire,
    /// Deprecate it.
    Deprecate,
    /// Replace it by this document.
    Document(Box<Document>),
    /// Replace it by this registered version.
    Version(Version),
}

/// Says what a change would do, and what was read for it.
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
        Plan::Document(document) => {
            HypotheticalChange::Replace(replacing(&key, Arc::from(document))?)
        }
        Plan::Version(version) => {
            let new = Key { version, ..key.clone() };
            HypotheticalChange::Replace(registered(&catalog, &new)?.document.clone())
        }
    };
    let imagine = move || (graph::impact(&catalog, &key, &planned, most), catalog);
    Ok(run_blocking(imagine).await?)
}

fn replacing(old: &Key, document: Arc<Document>) -> Result<Arc<Document>, Error> {
    let new = document.key();
    if (new.kind, &new.name) == (old.kind, &old.name) {
        return Ok(document);
    }
    let (kind, name) = (old.kind, old.name.clone());
    Err(Error::OtherName { new: new.clone(), kind, name })
}

fn registered<'a>(catalog: &'a Catalog, key: &Key) -> Result<&'a Arc<Record>, Error> {
    catalog.find(key).ok_or_else(|| Error::NotRegistered(key.clone()))
}
