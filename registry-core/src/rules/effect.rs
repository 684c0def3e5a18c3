//! `already-registered` and `not-registered`: what each change of a batch would do.
//!
//! Deliberately absent: whether what is registered makes sense; the other rules say that.

use std::{collections::HashMap, sync::Arc};

use super::Proposed;
use crate::{
    catalog::{Catalog, LifecycleState},
    commit::{Action, Change, unfit_for_message},
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
        if let Some(problem) = message.and_then(unfit_message) {
            return Err(Box::new(problem));
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

fn unfit_message(message: &str) -> Option<Diagnostic> {
    let (text, help) = if message.len() > limits::MESSAGE_BYTES {
        let text = format!("the reason has more than {} bytes", limits::MESSAGE_BYTES);
        (text, "shorten it, and link to the long story")
    } else {
        let unfit = unfit_for_message(message)?;
        (format!("the reason has the control character {unfit:?}"), "leave it out")
    };
    let found = Diagnostic::error(Code::DocumentInvalid, "/deprecationMessage", text);
    Some(found.with_help(help))
}

fn not_registered(key: &Key) -> Diagnostic {
    Diagnostic::error(Code::NotRegistered, "", format!("{key} is not registered")).with_help(
        "check kind, name and version; in one batch, register it before its lifecycle changes",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{
        Proposed, plan,
        testing::{catalog, lines, server, set, tool, with},
    };
    use crate::{
        Catalog, RegistryId,
        catalog::LifecycleState::{Active, Deprecated, Retired},
        limits,
    };

    fn effects(registered: &[Proposed], batch: &[Proposed]) -> Vec<&'static str> {
        let effects = plan(&catalog(registered), batch).effects;
        effects.iter().map(|e| e.as_ref().map_or("nothing", |c| c.action.as_str())).collect()
    }

    fn found(registered: &[Proposed], batch: &[Proposed]) -> String {
        lines(&plan(&catalog(registered), batch).diagnostics)
    }

    #[test]
    fn equal_content_changes_nothing_and_other_content_is_refused() {
        let (one, other) =
            (server("s", &[]), with(&server("s", &[]), json!({ "description": "x" })));
        assert_eq!(effects(&[], &[one.clone(), one.clone()]), ["register", "nothing"]);
        assert_eq!(effects(std::slice::from_ref(&one), std::slice::from_ref(&one)), ["nothing"]);
        assert_eq!(
            found(std::slice::from_ref(&one), std::slice::from_ref(&other)),
            "error[already-registered] server/s@1.0.0 at \"/version\": server/s@1.0.0 was \
             registered with other content in revision 1; what is registered never changes \
             (give the new content a new version)"
        );
        assert!(found(&[], &[one, other]).contains("appears twice in this batch"));
    }

    #[test]
    fn a_reason_is_text_that_every_store_takes() {
        let batch = |reason| [server("s", &[]), set("server/s@1.0.0", Deprecated, Some(reason))];
        assert_eq!(effects(&[], &batch("two\n\tlines")), ["register", "deprecate"]);
        assert_eq!(
            found(&[], &batch("a\0b")),
            "error[document-invalid] server/s@1.0.0 at \"/deprecationMessage\": the reason has the \
             control character '\\0' (leave it out)"
        );
    }

    #[test]
    fn lifecycle_changes_follow_each_other_within_a_batch() {
        let registered = [server("s", &[])];
        let to = |state, message| set("server/s@1.0.0", state, message);
        let batch = [
            to(Active, None),
            to(Deprecated, Some("a")),
            to(Deprecated, Some("a")),
            to(Deprecated, Some("b")),
            to(Active, None),
            to(Retired, None),
        ];
        let expected = ["nothing", "deprecate", "nothing", "deprecate", "restore", "retire"];
        assert_eq!(effects(&registered, &batch), expected);
        let fresh = [server("t", &[]), set("server/t@1.0.0", Deprecated, None)];
        assert_eq!(effects(&[], &fresh), ["register", "deprecate"]);
    }

    #[test]
    fn what_is_changed_is_registered_before() {
        let early = [set("server/s@1.0.0", Retired, None), server("s", &[])];
        assert_eq!(
            found(&[], &early),
            "error[not-registered] server/s@1.0.0 at \"\": server/s@1.0.0 is not registered \
             (check kind, name and version; in one batch, register it before its lifecycle changes)"
        );
        let long = set("server/s@1.0.0", Retired, Some(&"x".repeat(limits::MESSAGE_BYTES + 1)));
        assert!(found(&[server("s", &[])], &[long]).contains("more than 4096 bytes"));
    }

    #[test]
    fn a_batch_is_bounded_but_a_file_is_not() {
        let batch = vec![tool("t", json!({ "spec": {} })); limits::BATCH_CHANGES + 1];
        let empty = Catalog::empty(RegistryId::new("test"));
        let refused = plan(&empty, &batch);
        assert_eq!((refused.effects.len(), refused.is_acceptable()), (0, false));
        assert!(lines(&refused.diagnostics).contains("5001 changes, 5000 are allowed"));
        assert_eq!(super::super::validate(&empty, &batch).effects.len(), batch.len());
    }
}
