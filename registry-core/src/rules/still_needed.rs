//! `still-needed`: nothing is retired while something active depends on it, unless that is forced.
//!
//! Each active entity that leads to what is to be retired is named with its shortest path. Paths
//! do not lead through what is retired itself, nor through a server's `provides`, which is an offer
//! and no dependency. What the same batch registers and retires is a copy of another registry and
//! passes. Deliberately absent: deprecations, which break nobody.

use std::collections::{HashMap, VecDeque};

use super::{
    Relation,
    proposal::{New, Proposal},
};
use crate::{
    diagnostic::{Code, Diagnostic},
    lifecycle::LifecycleState,
    limits,
    reference::{Key, Kind},
};

/// New entities by what they depend on.
type ByTarget<'a> = HashMap<&'a Key, Vec<&'a Key>>;

pub(super) fn check<'a>(proposal: &'a Proposal<'a>, found: &mut Vec<Diagnostic>) {
    let unforced = proposal.retired().filter(|(_, notice, _)| notice.forced.is_none());
    let retired: Vec<(&Key, usize)> = unforced.map(|(key, _, change)| (key, change)).collect();
    if retired.is_empty() {
        return;
    }
    let new = by_target(proposal);
    for (key, change) in retired {
        let (paths, more) = active_paths(proposal, &new, key);
        for path in &paths {
            let user = path.first().copied().unwrap_or(key);
            let path: Vec<_> = path.iter().map(ToString::to_string).collect();
            let message = format!("{user} is active and needs it: {}", path.join(" -> "));
            found.push(refusal(message).about(change, key));
        }
        if more > 0 {
            let message = format!("{more} more active entities need it");
            found.push(refusal(message).about(change, key));
        }
    }
}

fn refusal(message: String) -> Diagnostic {
    Diagnostic::error(Code::StillNeeded, "", message).with_help(
        "move what needs it to a replacement, retire that too, or force it with a reason",
    )
}

fn by_target<'a>(proposal: &'a Proposal<'a>) -> ByTarget<'a> {
    let mut users = ByTarget::new();
    let needs = |new: &'a New<'a>| {
        let needed = new.references.iter().filter(|r| r.relation != Relation::Provides);
        needed.map(|reference| (&reference.key, new.key()))
    };
    for (target, user) in proposal.new.iter().flat_map(needs) {
        users.entry(target).or_default().push(user);
    }
    users
}

/// For the active entities that lead to this one, nearest first, the shortest way there; and how
/// many more there are than are named.
fn active_paths<'a>(
    proposal: &'a Proposal<'a>,
    new: &ByTarget<'a>,
    target: &'a Key,
) -> (Vec<Vec<&'a Key>>, usize) {
    let mut towards: HashMap<&Key, &Key> = HashMap::new();
    let (mut waiting, mut paths, mut more) = (VecDeque::from([target]), Vec::new(), 0);
    while let Some(key) = waiting.pop_front() {
        let fresh = new.get(key).into_iter().flatten().copied();
        for user in proposal.dependents(key).filter(|k| k.kind != Kind::Server).chain(fresh) {
            let (state, _) = proposal.lifecycle(user);
            let is_seen = user == target || towards.contains_key(user);
            if is_seen || state == LifecycleState::Retired {
                continue;
            }
            towards.insert(user, key);
            waiting.push_back(user);
            if state != LifecycleState::Active {
                continue;
            }
            if paths.len() < limits::PATHS {
                let way = std::iter::successors(Some(user), |key| towards.get(key).copied());
                paths.push(way.collect());
            } else {
                more += 1;
            }
        }
    }
    (paths, more)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{
        Proposed, plan,
        testing::{agent, catalog, found, server, set, set_with, source_tool, tool},
    };
    use crate::lifecycle::{
        LifecycleState::{Deprecated, Retired},
        Notice,
    };

    fn world() -> Vec<Proposed> {
        let on = |name: &str| json!([{ "type": "tool", "name": name, "version": "1.0.0" }]);
        let step =
            json!({ "pipeline": { "steps": [{ "id": "a", "operation": { "tool": "read" } }] } });
        vec![
            server("files", &["read"]),
            source_tool("read", "files"),
            tool("twice", json!({ "spec": step, "depends": on("read") })),
            agent("reader", &on("twice")),
        ]
    }

    #[test]
    fn every_active_user_is_named_with_its_path() {
        assert_eq!(
            found(&world(), &[set("server/files@1.0.0", Retired, None)])
                .lines()
                .map(|line| line.split(" (").next().unwrap_or_default())
                .collect::<Vec<_>>(),
            [
                "error[still-needed] server/files@1.0.0 at \"\": tool/read@1.0.0 is active and \
                 needs it: tool/read@1.0.0 -> server/files@1.0.0",
                "error[still-needed] server/files@1.0.0 at \"\": tool/twice@1.0.0 is active and \
                 needs it: tool/twice@1.0.0 -> tool/read@1.0.0 -> server/files@1.0.0",
                "error[still-needed] server/files@1.0.0 at \"\": agent/reader@1.0.0 is active and \
                 needs it: agent/reader@1.0.0 -> tool/twice@1.0.0 -> tool/read@1.0.0 -> \
                 server/files@1.0.0",
            ]
        );
        // The server provides the tool, which is no need of it.
        let reader = [set("agent/reader@1.0.0", Retired, None)];
        assert_eq!(found(&world(), &reader), "");
    }

    #[test]
    fn what_is_not_active_does_not_count_but_leads_on() {
        let batch =
            [set("tool/twice@1.0.0", Deprecated, None), set("tool/read@1.0.0", Retired, None)];
        let refused = found(&world(), &batch);
        assert!(refused.contains("agent/reader@1.0.0 is active"), "{refused}");
        assert!(!refused.contains("tool/twice@1.0.0 is active"), "{refused}");
        let all = ["agent/reader", "tool/twice", "tool/read", "server/files"];
        let all = all.map(|name| set(&format!("{name}@1.0.0"), Retired, None));
        assert_eq!(found(&world(), &all), "");
    }

    #[test]
    fn the_batch_itself_may_need_it() {
        let batch = [
            set("tool/read@1.0.0", Retired, None),
            agent("late", &json!([{ "type": "tool", "name": "read", "version": "1.0.0" }])),
        ];
        let refused = found(&world()[..2], &batch);
        assert!(refused.contains("agent/late@1.0.0 is active and needs it"), "{refused}");
        let mut copy = world();
        copy.push(set("tool/read@1.0.0", Retired, None));
        assert!(plan(&catalog(&[]), &copy).is_acceptable());
    }

    #[test]
    fn force_needs_a_reason_and_keeps_it() {
        let forced = Notice { forced: Some("leaked keys".into()), ..Notice::default() };
        let plan =
            plan(&catalog(&world()), &[set_with("tool/read@1.0.0", Retired, forced.clone())]);
        assert!(plan.is_acceptable());
        assert_eq!(plan.changes().next().unwrap().action.notice(), Some(&forced));
    }

    #[test]
    fn paths_are_bounded() {
        let mut crowd = world();
        let on = json!([{ "type": "tool", "name": "read", "version": "1.0.0" }]);
        crowd.extend((0..150).map(|i| agent(&format!("a{i:03}"), &on)));
        let refused = found(&crowd, &[set("tool/read@1.0.0", Retired, None)]);
        assert_eq!(refused.lines().count(), 101);
        assert!(refused.contains("52 more active entities need it"), "{refused}");
    }
}
