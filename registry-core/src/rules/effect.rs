//! `already-registered` and `not-registered`: what each change of a batch would do.
//!
//! Deliberately absent: whether what is registered makes sense; the other rules say that.

use std::{collections::HashMap, sync::Arc};

use super::Proposed;
use crate::{
    catalog::{Catalog, LifecycleState},
    commit::{Action, Change},
    diagnostic::{Code, Diagnostic},
    document::Document,
    limits,
    reference::Key,
};

/// For each proposed change, the change of the log, or `None` where nothing would change.
pub(super) fn effects(
    catalog: &Catalog,
    batch: &[Proposed],
    found: &mut Vec<Diagnostic>,
) -> Vec<Option<Change>> {
    let mut state = State { catalog, new: HashMap::new(), lifecycles: HashMap::new() };
    let mut effects = Vec::with_capacity(batch.len());
    for (i, proposed) in batch.iter().enumerate() {
        let effect = match proposed {
            Proposed::Register(document) => state.register(document),
            Proposed::SetLifecycle { key, state: to, message } => {
                state.set_lifecycle(key, *to, message.as_deref())
            }
        };
        effects.push(effect.unwrap_or_else(|problem| {
            found.push(problem.about(i, proposed.key()));
            None
        }));
    }
    effects
}

/// The catalog as it is after the changes so far.
struct State<'a> {
    catalog: &'a Catalog,
    new: HashMap<&'a Key, &'a Arc<Document>>,
    lifecycles: HashMap<&'a Key, (LifecycleState, Option<&'a str>)>,
}

/// What a change does, or why it cannot be done.
type Effect = Result<Option<Change>, Box<Diagnostic>>;

impl<'a> State<'a> {
    fn register(&mut self, document: &'a Arc<Document>) -> Effect {
        let (key, digest) = (document.key(), document.digest());
        let registered = self.catalog.find(key).map(|record| record.document.digest());
        if let Some(twin) = registered.or_else(|| self.new.get(key).map(|twin| twin.digest())) {
            if twin == digest {
                return Ok(None);
            }
            return Err(Box::new(self.already_registered(key)));
        }
        self.new.insert(key, document);
        Ok(Some(Change { key: key.clone(), action: Action::Register { digest } }))
    }

    fn set_lifecycle(
        &mut self,
        key: &'a Key,
        to: LifecycleState,
        message: Option<&'a str>,
    ) -> Effect {
        if message.is_some_and(|message| message.len() > limits::MESSAGE_BYTES) {
            let text = format!("the reason has more than {} bytes", limits::MESSAGE_BYTES);
            let found = Diagnostic::error(Code::DocumentInvalid, "/deprecationMessage", text);
            return Err(Box::new(found.with_help("shorten it, and link to the long story")));
        }
        let Some(current) = self.lifecycle(key) else {
            return Err(Box::new(not_registered(key)));
        };
        if current == (to, message) {
            return Ok(None);
        }
        self.lifecycles.insert(key, (to, message));
        let message = message.map(str::to_owned);
        let action = match to {
            LifecycleState::Active => Action::Restore,
            LifecycleState::Deprecated => Action::Deprecate { message },
            LifecycleState::Retired => Action::Retire { message },
        };
        Ok(Some(Change { key: key.clone(), action }))
    }

    fn lifecycle(&self, key: &Key) -> Option<(LifecycleState, Option<&str>)> {
        let changed = self.lifecycles.get(key).copied();
        let fresh = || self.new.contains_key(key).then_some((LifecycleState::Active, None));
        let registered = || {
            let lifecycle = &self.catalog.find(key)?.lifecycle;
            Some((lifecycle.state, lifecycle.message.as_deref()))
        };
        changed.or_else(fresh).or_else(registered)
    }

    fn already_registered(&self, key: &Key) -> Diagnostic {
        let message = match self.catalog.find(key) {
            Some(record) => format!(
                "{key} was registered with other content in revision {}; what is registered never changes",
                record.registered,
            ),
            None => format!("{key} appears twice in this batch, with different content"),
        };
        Diagnostic::error(Code::AlreadyRegistered, "/version", message)
            .with_help("give the new content a new version")
    }
}

fn not_registered(key: &Key) -> Diagnostic {
    Diagnostic::error(Code::NotRegistered, "", format!("{key} is not registered")).with_help(
        "check kind, name and version; in one batch, register it before its lifecycle changes",
    )
}
