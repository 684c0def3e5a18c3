//! The state of a follower, and the verification of messages.

use std::sync::Arc;

use history_check::event::Message as HistoryMessage;
use registry_core::{
    Catalog, Record, Revision, Scope, Selector, Settings, chain::Position,
    setting::SelectorSettings,
};
use registry_proto::{
    convert::{self, chain_hash, sealed_commit, verify_scope_delta},
    v1::{
        Delta, Heartbeat, ScopeDelta, SnapshotBegin, SnapshotChunk, SnapshotEnd, SyncResponse,
        sync_response::Message,
    },
};

use crate::entity::{changed_settings, entities, entity, removed_settings, roots, settings};

/// A verified state.
#[derive(Debug, Default)]
pub(crate) struct FollowerState {
    pub(crate) catalog: Option<Catalog>,
    snapshot: Option<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    position: Position,
    scope: Scope,
    oldest: Option<u64>,
    records: Vec<Record>,
    settings: Vec<(Selector, SelectorSettings)>,
}

type Refusal = String;

impl FollowerState {
    /// Starts from a state.
    pub(crate) fn new(catalog: Option<Catalog>) -> Self {
        Self { catalog, snapshot: None }
    }

    /// Verifies and applies a message. Returns it for the history once it is complete.
    pub(crate) fn take(
        &mut self,
        response: SyncResponse,
    ) -> Result<Option<HistoryMessage>, Refusal> {
        let message = response.message.ok_or("a message without content")?;
        match (message, self.snapshot.take()) {
            (Message::SnapshotBegin(begin), None) => self.begin(begin).map(|()| None),
            (Message::SnapshotChunk(chunk), Some(snapshot)) => {
                self.snapshot = Some(snapshot.extended(chunk)?);
                Ok(None)
            }
            (Message::SnapshotEnd(end), Some(snapshot)) => self.end(snapshot, &end).map(Some),
            (Message::Delta(delta), None) => self.delta(delta).map(Some),
            (Message::ScopeDelta(delta), None) => self.scope_delta(delta).map(Some),
            (Message::Heartbeat(heartbeat), None) => self.heartbeat(&heartbeat).map(Some),
            (_, Some(_)) => Err("another message in the middle of a snapshot".to_owned()),
            (_, None) => Err("a part of a snapshot that did not begin".to_owned()),
        }
    }

    fn held(&self) -> Result<&Catalog, Refusal> {
        self.catalog.as_ref().ok_or_else(|| "there is no state to apply it to".to_owned())
    }

    fn begin(&mut self, begin: SnapshotBegin) -> Result<(), Refusal> {
        let position = begin.position.ok_or("a snapshot without its position")?;
        let position = Position::try_from(position).map_err(|e| e.to_string())?;
        let scope = begin.scope.map_or(Ok(Scope::Everything), convert::scope);
        let scope = scope.map_err(|e| e.to_string())?;
        let (records, settings) = (Vec::new(), Vec::new());
        self.not_back(&position)?;
        let oldest = (begin.oldest_revision > 0).then_some(begin.oldest_revision);
        self.snapshot = Some(Snapshot { position, scope, oldest, records, settings });
        Ok(())
    }

    /// Whether a position may follow the current state.
    fn not_back(&self, position: &Position) -> Result<(), Refusal> {
        let Some(held) = &self.catalog else { return Ok(()) };
        if position.registry != *held.registry() || position.revision < held.revision() {
            return Err(format!("{position:?} does not follow on {}", held.revision()));
        }
        Ok(())
    }

    fn end(&mut self, snapshot: Snapshot, end: &SnapshotEnd) -> Result<HistoryMessage, Refusal> {
        let Snapshot { position, scope, oldest, records, settings: sets } = snapshot;
        let catalog =
            Catalog::restore(position.registry, position.revision, position.chain, records)
                .with_settings(Settings::restore(sets))
                .with_scope(Arc::new(scope));
        if catalog.digest().to_string() != end.digest {
            return Err("the snapshot does not match its digest".to_owned());
        }
        let told = HistoryMessage::Snapshot {
            revision: catalog.revision().0,
            chain: catalog.chain().to_string(),
            scope: roots(catalog.scope()),
            oldest,
            entities: entities(&catalog),
            settings: settings(&catalog),
        };
        self.catalog = Some(catalog);
        Ok(told)
    }

    fn delta(&mut self, delta: Delta) -> Result<HistoryMessage, Refusal> {
        let held = self.held()?;
        let sealed = sealed_commit(&held.chain(), delta).map_err(|e| e.to_string())?;
        let mut next = held.clone();
        next.apply(&sealed).map_err(|e| e.to_string())?;
        self.catalog = Some(next);
        Ok(HistoryMessage::Delta {
            revision: sealed.revision().0,
            chain: sealed.chain().to_string(),
            canonical: String::from_utf8_lossy(sealed.bytes()).into_owned(),
            documents: sealed.documents().iter().map(|d| d.digest().to_string()).collect(),
        })
    }

    fn scope_delta(&mut self, step: ScopeDelta) -> Result<HistoryMessage, Refusal> {
        let held = self.held()?;
        if **held.scope() == Scope::Everything {
            return Err("a step of a scope for a complete state".to_owned());
        }
        let step = verify_scope_delta(step).map_err(|e| e.to_string())?;
        self.not_back(&step.position)?;
        let (revision, chain) = (step.position.revision, step.position.chain);
        let told = HistoryMessage::Step {
            revision: revision.0,
            chain: chain.to_string(),
            scope: roots(&step.scope),
            put: step.step.put.iter().map(|record| entity(record)).collect(),
            removed: step.step.removed.iter().map(ToString::to_string).collect(),
            settings: changed_settings(&step.step.settings),
            removed_settings: removed_settings(&step.step.settings),
        };
        let next = held.with_delta((revision, chain), Arc::new(step.scope), step.step);
        let next = next.ok_or("a step removes an entity that is not in the state")?;
        if next.content_digest() != step.content {
            return Err("the content after a step does not match its digest".to_owned());
        }
        self.catalog = Some(next);
        Ok(told)
    }

    fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<HistoryMessage, Refusal> {
        let held = self.held()?;
        let revision = Revision(heartbeat.revision);
        let chain = chain_hash(&heartbeat.chain).map_err(|e| e.to_string())?;
        let is_whole = **held.scope() == Scope::Everything;
        let is_here = revision == held.revision() && chain == held.chain();
        let is_later = !is_whole && revision > held.revision();
        if !is_here && !is_later {
            return Err(format!("progress to revision {revision} at revision {}", held.revision()));
        }
        let content = &heartbeat.content_digest;
        if !content.is_empty() && *content != held.content_digest().to_string() {
            return Err(format!("progress to revision {revision} with other content"));
        }
        self.catalog = Some(held.at(revision, chain));
        Ok(HistoryMessage::Progress { revision: revision.0, chain: chain.to_string() })
    }
}

impl Snapshot {
    fn extended(mut self, chunk: SnapshotChunk) -> Result<Self, Refusal> {
        for entity in chunk.entities {
            self.records.push(Record::try_from(entity).map_err(|e| e.to_string())?);
        }
        self.settings.extend(convert::settings(chunk.settings).map_err(|e| e.to_string())?);
        Ok(self)
    }
}
