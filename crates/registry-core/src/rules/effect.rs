//! `already-registered` and `not-registered`: the effect of each change of a batch.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use schema_compat::pointer::pointer_join;
use serde_json::Value;

use super::{NOT_REGISTERED, Proposed, proposal::Proposal, tool_name::rename_option};
use crate::{
    catalog::Catalog,
    commit::{Action, Change, invalid_message_char},
    diagnostic::{Code, Diagnostic},
    document::Document,
    kind::Kind,
    lifecycle::{LifecycleState, Notice},
    limits,
    name::Name,
    reference::Key,
};

/// The log change of each proposed change; `None` if it changes nothing.
pub(super) fn effects<'a>(
    proposal: &Proposal<'a>,
    batch: &'a [Proposed],
    found: &mut Vec<Diagnostic>,
) -> Vec<Option<Change>> {
    let (new, lifecycles) = (HashMap::with_capacity(batch.len()), HashMap::new());
    let mut state = State { proposal, catalog: proposal.catalog(), new, lifecycles };
    let mut effects = Vec::with_capacity(batch.len());
    for (i, proposed) in batch.iter().enumerate() {
        let effect = match proposed {
            Proposed::Register(document) => state.register(document),
            Proposed::SetLifecycle { key, state: to, notice } => {
                state.set_lifecycle(key, *to, notice)
            }
        };
        effects.push(effect.unwrap_or_else(|problem| {
            found.push(problem.for_change(i, proposed.key()));
            None
        }));
    }
    effects
}

/// The catalog with the changes of the batch so far.
struct State<'p, 'a> {
    /// The whole batch.
    proposal: &'p Proposal<'a>,
    catalog: &'a Catalog,
    new: HashMap<&'a Key, &'a Arc<Document>>,
    lifecycles: HashMap<&'a Key, (LifecycleState, &'a Notice)>,
}

/// The log change, or the reason why the change is invalid.
type Effect = Result<Option<Change>, Box<Diagnostic>>;

impl<'a> State<'_, 'a> {
    fn register(&mut self, document: &'a Arc<Document>) -> Effect {
        let (key, digest) = (document.key(), document.digest());
        let registered = self.catalog.find(key).map(|record| record.document.digest());
        if let Some(twin) = registered.or_else(|| self.new.get(key).map(|twin| twin.digest())) {
            if twin == digest {
                return Ok(None);
            }
            return Err(Box::new(self.already_registered(document)));
        }
        self.new.insert(key, document);
        Ok(Some(Change { key: key.clone(), action: Action::register(digest) }))
    }

    fn set_lifecycle(&mut self, key: &'a Key, to: LifecycleState, notice: &'a Notice) -> Effect {
        if let Some(problem) = unfit_notice(to, notice) {
            return Err(Box::new(problem));
        }
        match self.is_already(key, to, notice) {
            None => return Err(Box::new(not_registered(key))),
            // The replacement was valid at the time of the notice.
            Some(true) => return Ok(None),
            Some(false) => {}
        }
        if let Some(problem) = self.unfit_replacement(key, notice) {
            return Err(Box::new(problem));
        }
        self.lifecycles.insert(key, (to, notice));
        let action = match to {
            LifecycleState::Active => Action::Restore,
            LifecycleState::Deprecated => Action::Deprecate(notice.clone()),
            LifecycleState::Retired => Action::Retire(notice.clone()),
        };
        Ok(Some(Change { key: key.clone(), action }))
    }

    /// Whether the entity already has this state with the same notice; `None` if it is not
    /// registered.
    fn is_already(&self, key: &Key, to: LifecycleState, notice: &Notice) -> Option<bool> {
        if let Some((state, said)) = self.lifecycles.get(key) {
            // A restored entity has no notice.
            return Some(*state == to && (to == LifecycleState::Active || *said == notice));
        }
        if self.new.contains_key(key) {
            return Some(to == LifecycleState::Active);
        }
        let lifecycle = &self.catalog.find(key)?.lifecycle;
        Some(if to == LifecycleState::Active {
            lifecycle.state == to
        } else {
            lifecycle.is(to, notice)
        })
    }

    /// Reports a replacement that is not usable after the whole batch. New entities count as
    /// active, because an import from another registry may contain a replacement that was retired
    /// later.
    fn unfit_replacement(&self, key: &Key, notice: &Notice) -> Option<Diagnostic> {
        let (proposal, replacement) = (self.proposal, notice.replacement.as_ref()?);
        let is_new = proposal.position(replacement).is_some();
        let (text, help) = if replacement == key {
            (format!("{key} cannot replace itself"), "name another entity or version".to_owned())
        } else if !proposal.is_known(replacement) {
            let help = proposal.help_for_unknown_replacement(replacement, key);
            (format!("the replacement {replacement} {NOT_REGISTERED}"), help)
        } else if !is_new && proposal.lifecycle(replacement).0 == LifecycleState::Retired {
            let text = format!("the replacement {replacement} is retired");
            (text, "name an active entity".to_owned())
        } else {
            return None;
        };
        let found = Diagnostic::error(Code::ReplacementUnknown, "/replacement", text);
        Some(found.with_help(help))
    }

    fn already_registered(&self, document: &Document) -> Diagnostic {
        let key = document.key();
        let twin = match self.catalog.find(key) {
            Some(record) => Some(&record.document),
            None => self.new.get(key).copied(),
        };
        if let Some(tool) = document.entity().as_tool()
            && let Some((twin, server)) = twin.and_then(|twin| other_server(twin, document))
        {
            let message =
                format!("{key} is registered as a tool of server/{twin}, not of server/{server}");
            let help = format!(
                "give the tool of server/{server} another name: `registryctl import mcp --prefix P` \
                 or `{}`",
                rename_option(tool)
            );
            return Diagnostic::error(Code::AlreadyRegistered, "/name", message).with_help(help);
        }
        let difference = twin.and_then(|twin| first_difference(twin, document));
        let (mut message, help) = match self.catalog.find(key) {
            Some(record) if differs_in_mark_only(&record.document, document) => {
                let message = format!(
                    "{key} was registered with another `metadata.managedBy` in revision {}, and the mark is a \
                     part of the version",
                    record.registered,
                );
                let help = "give the next version the mark; until then, `apply --on-conflict skip` lists and \
                            skips registered versions, and `--on-conflict bump` registers next versions";
                return Diagnostic::error(Code::AlreadyRegistered, "/version", message)
                    .with_help(help);
            }
            Some(record) => {
                let message = format!(
                    "{key} was registered with other content in revision {}, and registered content is immutable",
                    record.registered,
                );
                (message, remedy(key.kind, difference.as_deref()))
            }
            None => {
                (format!("{key} occurs twice in this batch with different content"), NEW_VERSION)
            }
        };
        if let Some(pointer) = &difference {
            message.push_str("; the first difference is at ");
            message.push_str(pointer);
        }
        Diagnostic::error(Code::AlreadyRegistered, "/version", message).with_help(help)
    }
}

/// The remedy for most differences.
const NEW_VERSION: &str = "register the new content under a new version";

/// The remedy for other content of a registered version, by the pointer of the first difference.
fn remedy(kind: Kind, difference: Option<&str>) -> &'static str {
    let Some(difference) = difference else { return NEW_VERSION };
    if kind == Kind::Server && difference.split('/').nth(1) == Some("provides") {
        "keep the registered version, and list its tools and the new one in `provides` of a new \
         server version"
    } else if kind == Kind::Tool && difference == "/source/serverVersion" {
        "keep the registered source, and register a new version of the tool for the new server \
         version"
    } else {
        NEW_VERSION
    }
}

/// Maximum size of compared documents, which bounds the time for a batch of many conflicts.
const COMPARED_BYTES: usize = 64 << 10;

/// The content of a document that is small enough to be compared.
fn compared(document: &Document) -> Option<Value> {
    let bytes = Some(document.bytes()).filter(|bytes| bytes.len() <= COMPARED_BYTES)?;
    serde_json::from_slice(bytes).ok()
}

/// The pointer of the first difference of two documents.
fn first_difference(old: &Document, new: &Document) -> Option<String> {
    difference(&compared(old)?, &compared(new)?, "")
}

/// Whether two different documents have the same content apart from the mark of their source.
fn differs_in_mark_only(old: &Document, new: &Document) -> bool {
    let unmarked = |document: &Document| {
        let mut value = compared(document)?;
        let members = value.as_object_mut()?;
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedBy");
            if metadata.is_empty() {
                members.remove("metadata");
            }
        }
        Some(value)
    };
    unmarked(old).is_some_and(|old| unmarked(new) == Some(old))
}

fn difference(old: &Value, new: &Value, at: &str) -> Option<String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<_> = old.keys().chain(new.keys()).collect();
            names.into_iter().find_map(|name| {
                let at = pointer_join(at, name);
                match (old.get(name), new.get(name)) {
                    (Some(old), Some(new)) => difference(old, new, &at),
                    _ => Some(at),
                }
            })
        }
        (Value::Array(old), Value::Array(new)) => {
            let pairs = old.iter().zip(new).enumerate();
            let mut found =
                pairs.filter_map(|(i, (old, new))| difference(old, new, &format!("{at}/{i}")));
            let shorter = old.len().min(new.len());
            found.next().or_else(|| (old.len() != new.len()).then(|| format!("{at}/{shorter}")))
        }
        _ => (old != new).then(|| at.to_owned()),
    }
}

/// The server names of two documents with the same tool version, if they differ.
fn other_server<'a>(twin: &'a Document, document: &'a Document) -> Option<(&'a Name, &'a Name)> {
    let server = |document: &'a Document| Some(&document.entity().as_tool()?.source()?.server);
    let (twin, server) = (server(twin)?, server(document)?);
    (twin != server).then_some((twin, server))
}

fn unfit_notice(to: LifecycleState, notice: &Notice) -> Option<Diagnostic> {
    let Notice { message, replacement, sunset_date, force_reason } = notice;
    let texts = [(message, "/deprecationMessage"), (force_reason, "/forceReason")];
    let unfit = texts.into_iter().find_map(|(text, at)| unfit_text(text.as_deref()?, at));
    let only = |what: &str, at, state| {
        let text = format!("{what} is not allowed for the state {to}");
        let help = format!("remove it, or set the state to {state}");
        Some(Diagnostic::error(Code::DocumentInvalid, at, text).with_help(help))
    };
    if unfit.is_some() {
        unfit
    } else if force_reason.as_deref().is_some_and(|reason| reason.trim().is_empty()) {
        let text = "the reason for force is empty";
        let help = "explain why it must be retired despite its dependents";
        Some(Diagnostic::error(Code::DocumentInvalid, "/forceReason", text).with_help(help))
    } else if to == LifecycleState::Active && replacement.is_some() {
        only("a replacement", "/replacement", "deprecated or retired")
    } else if to == LifecycleState::Active && sunset_date.is_some() {
        only("a sunset", "/sunsetDate", "deprecated or retired")
    } else if to != LifecycleState::Retired && force_reason.is_some() {
        only("a reason for force", "/forceReason", "retired")
    } else {
        None
    }
}

fn unfit_text(text: &str, at: &str) -> Option<Diagnostic> {
    let (message, help) = if text.len() > limits::MESSAGE_BYTES {
        let message = format!("the reason has more than {} bytes", limits::MESSAGE_BYTES);
        (message, "shorten it, and link to a longer text")
    } else {
        let unfit = invalid_message_char(text)?;
        (format!("the reason has the control character {unfit:?}"), "remove it")
    };
    Some(Diagnostic::error(Code::DocumentInvalid, at, message).with_help(help))
}

fn not_registered(key: &Key) -> Diagnostic {
    Diagnostic::error(Code::NotRegistered, "", format!("{key} is not registered")).with_help(
        "check kind, name and version; within a batch, register it before changing its lifecycle",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{
        Proposed, plan,
        testing::{
            catalog, found_of, lines, renamed, server, set, set_with, source_tool, tool, versioned,
            with,
        },
    };
    use crate::{
        Catalog, RegistryId,
        diagnostic::Code,
        lifecycle::{
            LifecycleState::{Active, Deprecated, Retired},
            Notice,
        },
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
    fn register_same_content_is_noop_other_is_rejected() {
        let (one, other) =
            (server("s", &[]), with(&server("s", &[]), json!({ "description": "x" })));
        assert_eq!(effects(&[], &[one.clone(), one.clone()]), ["register", "nothing"]);
        assert_eq!(effects(std::slice::from_ref(&one), std::slice::from_ref(&one)), ["nothing"]);
        insta::assert_snapshot!(
            found(std::slice::from_ref(&one), std::slice::from_ref(&other)),
            @"error[already-registered] server/s@1.0.0 at \"/version\": server/s@1.0.0 was \
              registered with other content in revision 1, and registered content is immutable; \
              the first difference is at /description (register the new content under a new \
              version)"
        );
        insta::assert_snapshot!(
            found(&[], &[one, other]),
            @"error[already-registered] server/s@1.0.0 at \"/version\": server/s@1.0.0 occurs \
              twice in this batch with different content; the first difference is at \
              /description (register the new content under a new version)"
        );
    }

    #[test]
    fn immutable_parts_have_their_own_remedy() {
        let registered = [server("s", &["a"]), source_tool("a", "s")];
        let found = |other| found_of(Code::AlreadyRegistered, &registered, &[other]);
        insta::assert_snapshot!(
            found(server("s", &["a", "b"])),
            @"error[already-registered] server/s@1.0.0 at \"/version\": server/s@1.0.0 was \
              registered with other content in revision 1, and registered content is immutable; \
              the first difference is at /provides/1 (keep the registered version, and list its \
              tools and the new one in `provides` of a new server version)"
        );
        let source = json!({ "server": "s", "serverVersion": "2.0.0", "tool": "a" });
        insta::assert_snapshot!(
            found(tool("a", json!({ "source": source }))),
            @"error[already-registered] tool/a@1.0.0 at \"/version\": tool/a@1.0.0 was \
              registered with other content in revision 1, and registered content is immutable; \
              the first difference is at /source/serverVersion (keep the registered source, and \
              register a new version of the tool for the new server version)"
        );
    }

    #[test]
    fn other_mark_of_registered_version_is_explained() {
        let one = server("s", &[]);
        let marked = with(&one, json!({ "metadata": { "managedBy": "git" } }));
        insta::assert_snapshot!(
            found(&[one], &[marked]),
            @"error[already-registered] server/s@1.0.0 at \"/version\": server/s@1.0.0 was \
              registered with another `metadata.managedBy` in revision 1, and the mark is a \
              part of the version (give the next version the mark; until then, `apply \
              --on-conflict skip` lists and skips registered versions, and `--on-conflict bump` \
              registers next versions)"
        );
    }

    #[test]
    fn first_difference_is_the_innermost_one() {
        for (old, new, expected) in [
            (json!({ "a": 1 }), json!({ "a": 1 }), None),
            (json!({ "a": 1, "b": 1 }), json!({ "a": 1 }), Some("/b")),
            (json!({ "a": { "b/c": 1 } }), json!({ "a": { "b/c": 2 } }), Some("/a/b~1c")),
            (json!({ "a": [1, 2] }), json!({ "a": [1, 3] }), Some("/a/1")),
            (json!({ "a": [1] }), json!({ "a": [1, 3] }), Some("/a/1")),
            (json!({ "a": [] }), json!({ "a": {} }), Some("/a")),
        ] {
            assert_eq!(super::difference(&old, &new, "").as_deref(), expected, "{old} {new}");
        }
    }

    #[test]
    fn same_tool_version_of_another_server_names_both() {
        let registered = [server("a", &["read"]), source_tool("read", "a"), server("b", &["read"])];
        insta::assert_snapshot!(
            found(&registered, &[source_tool("read", "b")]),
            @"error[already-registered] tool/read@1.0.0 at \"/name\": tool/read@1.0.0 is \
              registered as a tool of server/a, not of server/b (give the tool of server/b another \
              name: `registryctl import mcp --prefix P` or `--rename read=NAME`)"
        );
    }

    #[test]
    fn notice_rejects_control_characters() {
        let batch = |reason| [server("s", &[]), set("server/s@1.0.0", Deprecated, Some(reason))];
        assert_eq!(effects(&[], &batch("two\n\tlines")), ["register", "deprecate"]);
        insta::assert_snapshot!(
            found(&[], &batch("a\0b")),
            @"error[document-invalid] server/s@1.0.0 at \"/deprecationMessage\": the reason has \
              the control character '\\0' (remove it)"
        );
    }

    #[test]
    fn lifecycle_changes_apply_in_order() {
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
    fn lifecycle_change_requires_prior_registration() {
        let early = [set("server/s@1.0.0", Retired, None), server("s", &[])];
        insta::assert_snapshot!(
            found(&[], &early),
            @"error[not-registered] server/s@1.0.0 at \"\": server/s@1.0.0 is not registered \
              (check kind, name and version; within a batch, register it before changing its \
              lifecycle)"
        );
        let long = set("server/s@1.0.0", Retired, Some(&"x".repeat(limits::MESSAGE_BYTES + 1)));
        insta::assert_snapshot!(
            found(&[server("s", &[])], &[long]),
            @"error[document-invalid] server/s@1.0.0 at \"/deprecationMessage\": the reason has \
              more than 4096 bytes (shorten it, and link to a longer text)"
        );
    }

    fn replaced(key: &str, replacement: &str) -> Proposed {
        let replacement = Some(replacement.parse().unwrap());
        set_with(key, Deprecated, Notice { replacement, ..Notice::default() })
    }

    #[test]
    fn replacement_is_found_anywhere_in_batch() {
        let (old, new) = (server("s", &[]), versioned(&server("s", &[]), "2.0.0"));
        let deprecate = replaced("server/s@1.0.0", "server/s@2.0.0");
        assert_eq!(found(&[], &[old.clone(), deprecate.clone(), new.clone()]), "");
        assert_eq!(found(&[], &[new.clone(), old.clone(), deprecate.clone()]), "");
        // A registered replacement has its state after the batch.
        let registered = [old, new, set("server/s@2.0.0", Retired, None)];
        let restore = set("server/s@2.0.0", Active, None);
        assert_eq!(found(&registered, &[deprecate.clone(), restore]), "");
        insta::assert_snapshot!(
            found(&registered, &[deprecate]),
            @"error[replacement-unknown] server/s@1.0.0 at \"/replacement\": the replacement \
              server/s@2.0.0 is retired (name an active entity)"
        );
    }

    #[test]
    fn unchanged_notice_may_name_retired_replacement() {
        let deprecate = replaced("server/s@1.0.0", "server/t@1.0.0");
        let retire = set("server/t@1.0.0", Retired, None);
        let registered = [server("s", &[]), server("t", &[]), deprecate, retire];
        assert_eq!(effects(&registered, &registered), ["nothing"; 4]);
        assert_eq!(found(&registered, &registered), "");
    }

    #[test]
    fn unknown_replacement_has_suggestion() {
        let old = server("files", &[]);
        let new = versioned(&old, "2.0.0");
        let other = renamed(&old, "disks");
        let unknown = |replacement: &str| {
            let batch = [old.clone(), replaced("server/files@1.0.0", replacement), new.clone()];
            found(std::slice::from_ref(&other), &batch)
        };
        for (replacement, suggested) in [
            ("server/files@2.0.1", "refer to a registered version: 2.0.0"),
            ("server/fils@2.0.0", "did you mean server/files (2.0.0)? otherwise register"),
            ("server/disk@1.0.0", "did you mean server/disks (1.0.0)? otherwise register"),
            ("server/else@1.0.0", "register server/else@1.0.0 first, or in the same batch"),
        ] {
            let found = unknown(replacement);
            assert!(found.contains("replacement-unknown") && found.contains(suggested), "{found}");
        }
        // The deprecated version itself is not suggested.
        let alone = [old.clone(), replaced("server/files@1.0.0", "server/files@3.0.0")];
        insta::assert_snapshot!(
            found(&[], &alone),
            @"error[replacement-unknown] server/files@1.0.0 at \"/replacement\": the replacement \
              server/files@3.0.0 is not registered (register server/files@3.0.0 first, or in the \
              same batch)"
        );
    }

    #[test]
    fn plan_limits_batch_but_validate_does_not() {
        let batch = vec![tool("t", json!({ "spec": {} })); limits::BATCH_CHANGES + 1];
        let empty = Catalog::empty(RegistryId::new("test"));
        let refused = plan(&empty, &batch);
        assert_eq!((refused.effects.len(), refused.is_acceptable()), (0, false));
        insta::assert_snapshot!(
            lines(&refused.diagnostics),
            @"error[document-invalid] at \"\": the batch has 5001 changes; the maximum is 5000 \
              (split it into several batches, dependencies first)"
        );
        assert_eq!(super::super::validate(&empty, &batch).effects.len(), batch.len());
    }
}
