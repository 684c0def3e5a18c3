//! `still-needed`: an entity with active dependents is retired only by force.
//!
//! Each active dependent is reported with every path, up to [`limits::PATHS`], followed by the
//! number of omitted ones. Paths may contain entities retired by force, which still work, but not
//! `provides` of a server, which is an offer. Entities that the same batch registers and retires
//! are checked by `lifecycle`.

use std::collections::{HashMap, HashSet, VecDeque};

use super::proposal::{NewEntity, Proposal};
use crate::{
    diagnostic::{Code, Diagnostic},
    edges::Relation,
    kind::Kind,
    lifecycle::LifecycleState,
    limits,
    reference::Key,
};

/// New entities by their dependencies.
type ByTarget<'a> = HashMap<&'a Key, Vec<&'a Key>>;

pub(super) fn check<'a>(proposal: &'a Proposal<'a>, found: &mut Vec<Diagnostic>) {
    let unforced = proposal.retired().filter(|(_, notice, _)| notice.force_reason.is_none());
    let retired: Vec<(&Key, usize)> = unforced.map(|(key, _, change)| (key, change)).collect();
    if retired.is_empty() {
        return;
    }
    let new = by_target(proposal);
    for (key, change) in retired {
        let users = Users { proposal, new: &new, target: key };
        let (paths, rest) = users.active_paths();
        for path in &paths {
            let user = path.first().copied().unwrap_or(key);
            let path: Vec<_> = path.iter().map(ToString::to_string).collect();
            let message = format!("{user} is active and depends on it: {}", path.join(" -> "));
            found.push(refusal(message).for_change(change, key));
        }
        if let Some(rest) = rest {
            found.push(refusal(rest).for_change(change, key));
        }
    }
}

fn refusal(message: String) -> Diagnostic {
    Diagnostic::error(Code::StillNeeded, "", message).with_help(
        "move its dependents to a replacement, retire them too, or force the retirement with a reason",
    )
}

fn by_target<'a>(proposal: &'a Proposal<'a>) -> ByTarget<'a> {
    let mut users = ByTarget::new();
    let needs = |new: &'a NewEntity<'a>| {
        let needed = new.references.iter().filter(|r| r.relation != Relation::Provides);
        needed.map(|reference| (&reference.key, new.key()))
    };
    for (target, user) in proposal.new.iter().flat_map(needs) {
        users.entry(target).or_default().push(user);
    }
    users
}

/// Maximum number of visited path steps.
const STEPS: usize = 100 * limits::PATHS;

/// A path from a dependent to the retired entity.
type Path<'a> = Vec<&'a Key>;

/// The dependents of an entity to be retired.
struct Users<'u, 'a> {
    proposal: &'a Proposal<'a>,
    new: &'u ByTarget<'a>,
    target: &'a Key,
}

impl<'a> Users<'_, 'a> {
    /// The shortest path of each active dependent by distance, then further paths up to the limit,
    /// and a note about the omitted ones.
    fn active_paths(&self) -> (Vec<Path<'a>>, Option<String>) {
        let mut towards: HashMap<&Key, &'a Key> = HashMap::new();
        let (mut waiting, mut paths, mut more) = (VecDeque::from([self.target]), Vec::new(), 0);
        while let Some(key) = waiting.pop_front() {
            for user in self.direct(key) {
                if towards.contains_key(user) {
                    continue;
                }
                towards.insert(user, key);
                waiting.push_back(user);
                if self.is_active(user) && paths.len() < limits::PATHS {
                    let onward = |key: &&'a Key| towards.get(*key).copied();
                    paths.push(std::iter::successors(Some(user), onward).collect());
                } else if self.is_active(user) {
                    more += 1;
                }
            }
        }
        if more > 0 {
            return (paths, Some(format!("{more} more active entities depend on it")));
        }
        let is_cut = self.other_paths(&mut paths);
        let rest = format!("there are more than these {} paths to it", paths.len());
        (paths, is_cut.then_some(rest))
    }

    /// Adds further paths, the shortest first. Returns whether the limit was reached.
    fn other_paths(&self, paths: &mut Vec<Path<'a>>) -> bool {
        let known: HashSet<Path<'a>> = paths.iter().cloned().collect();
        // Each step with the index of its successor on the path.
        let mut steps: Vec<(&'a Key, Option<usize>)> = vec![(self.target, None)];
        let mut from = 0;
        while let Some(&(key, _)) = steps.get(from) {
            for user in self.direct(key) {
                let onward = |step: &(&'a Key, Option<usize>)| step.1.map(|next| steps[next]);
                let path = std::iter::successors(Some((user, Some(from))), onward);
                let path: Path<'a> = path.map(|(key, _)| key).collect();
                // Cycles are rejected by another rule.
                if path[1..].contains(&user) {
                    continue;
                }
                if self.is_active(user) && !known.contains(&path) {
                    if paths.len() == limits::PATHS {
                        return true;
                    }
                    paths.push(path);
                }
                if steps.len() == STEPS {
                    return true;
                }
                steps.push((user, Some(from)));
            }
            from += 1;
        }
        false
    }

    /// The direct dependents.
    fn direct(&self, key: &'a Key) -> impl Iterator<Item = &'a Key> {
        let fresh = self.new.get(key).into_iter().flatten().copied();
        let registered = self.proposal.dependents(key).filter(|key| key.kind != Kind::Server);
        registered.chain(fresh).filter(|user| *user != self.target)
    }

    fn is_active(&self, key: &Key) -> bool {
        self.proposal.lifecycle(key).0 == LifecycleState::Active
    }
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

    fn forced() -> Notice {
        Notice { force_reason: Some("leaked keys".into()), ..Notice::default() }
    }

    #[test]
    fn retirement_lists_active_dependents_with_paths() {
        assert_eq!(
            found(&world(), &[set("server/files@1.0.0", Retired, None)])
                .lines()
                .map(|line| line.split(" (").next().unwrap_or_default())
                .collect::<Vec<_>>(),
            [
                "error[still-needed] server/files@1.0.0 at \"\": tool/read@1.0.0 is active and \
                 depends on it: tool/read@1.0.0 -> server/files@1.0.0",
                "error[still-needed] server/files@1.0.0 at \"\": tool/twice@1.0.0 is active and \
                 depends on it: tool/twice@1.0.0 -> tool/read@1.0.0 -> server/files@1.0.0",
                "error[still-needed] server/files@1.0.0 at \"\": agent/reader@1.0.0 is active and \
                 depends on it: agent/reader@1.0.0 -> tool/twice@1.0.0 -> tool/read@1.0.0 -> \
                 server/files@1.0.0",
            ]
        );
        // `provides` of the server is not a dependency.
        let reader = [set("agent/reader@1.0.0", Retired, None)];
        assert_eq!(found(&world(), &reader), "");
    }

    #[test]
    fn inactive_dependent_is_skipped_but_followed() {
        let batch =
            [set("tool/twice@1.0.0", Deprecated, None), set("tool/read@1.0.0", Retired, None)];
        let refused = found(&world(), &batch);
        insta::assert_snapshot!(
            refused,
            @"error[still-needed] tool/read@1.0.0 at \"\": agent/reader@1.0.0 is active and \
              depends on it: agent/reader@1.0.0 -> tool/twice@1.0.0 -> tool/read@1.0.0 (move its \
              dependents to a replacement, retire them too, or force the retirement with a reason)"
        );
        // An entity retired by force does not interrupt a path.
        let mut world_forced = world();
        world_forced.push(set_with("tool/read@1.0.0", Retired, forced()));
        let refused = found(&world_forced, &[set("server/files@1.0.0", Retired, None)]);
        insta::assert_snapshot!(refused, @r#"
        error[still-needed] server/files@1.0.0 at "": tool/twice@1.0.0 is active and depends on it: tool/twice@1.0.0 -> tool/read@1.0.0 -> server/files@1.0.0 (move its dependents to a replacement, retire them too, or force the retirement with a reason)
        error[still-needed] server/files@1.0.0 at "": agent/reader@1.0.0 is active and depends on it: agent/reader@1.0.0 -> tool/twice@1.0.0 -> tool/read@1.0.0 -> server/files@1.0.0 (move its dependents to a replacement, retire them too, or force the retirement with a reason)
        "#);
        let all = ["agent/reader", "tool/twice", "tool/read", "server/files"];
        let all = all.map(|name| set(&format!("{name}@1.0.0"), Retired, None));
        assert_eq!(found(&world(), &all), "");
    }

    #[test]
    fn new_dependents_in_batch_count() {
        let batch = [
            set("tool/read@1.0.0", Retired, None),
            agent("late", &json!([{ "type": "tool", "name": "read", "version": "1.0.0" }])),
        ];
        let refused = found(&world()[..2], &batch);
        insta::assert_snapshot!(refused, @r#"
        error[still-needed] tool/read@1.0.0 at "": agent/late@1.0.0 is active and depends on it: agent/late@1.0.0 -> tool/read@1.0.0 (move its dependents to a replacement, retire them too, or force the retirement with a reason)
        error[deprecated-dependency] agent/late@1.0.0 at "/capabilities/extensions/0/params/depends/0": agent/late@1.0.0 depends on tool/read@1.0.0, which is retired (depend on a version that is active)
        "#);
        let mut copy = world();
        copy.push(set_with("tool/read@1.0.0", Retired, forced()));
        assert!(plan(&catalog(&[]), &copy).is_acceptable());
    }

    #[test]
    fn forced_retirement_requires_and_stores_reason() {
        let plan = plan(&catalog(&world()), &[set_with("tool/read@1.0.0", Retired, forced())]);
        assert!(plan.is_acceptable());
        assert_eq!(plan.changes().next().unwrap().action.notice(), Some(&forced()));
        let [empty, blank] = ["", " \n"].map(|reason| {
            let notice = Notice { force_reason: Some(reason.into()), ..Notice::default() };
            found(&world(), &[set_with("tool/read@1.0.0", Retired, notice)])
        });
        insta::assert_snapshot!(
            empty,
            @"error[document-invalid] tool/read@1.0.0 at \"/forceReason\": the reason for force is \
              empty (explain why it must be retired despite its dependents)"
        );
        assert_eq!(blank, empty);
    }

    #[test]
    fn retirement_lists_every_path() {
        let mut world = world();
        let on = |name: &str| json!({ "type": "tool", "name": name, "version": "1.0.0" });
        world.push(agent("both", &json!([on("read"), on("twice")])));
        let refused = found(&world, &[set("tool/read@1.0.0", Retired, None)]);
        for path in ["agent/both@1.0.0 -> tool/read@1.0.0", "agent/both@1.0.0 -> tool/twice@1.0.0"]
        {
            assert!(refused.contains(path), "{path} is not in {refused}");
        }
    }

    #[test]
    fn retirement_lists_each_dependent_before_further_paths() {
        let on = |name: String| json!({ "type": "agent", "name": name, "version": "1.0.0" });
        let mut ladder = vec![agent("l0a", &json!([])), agent("l0b", &json!([]))];
        for i in 1..60 {
            let below = json!([on(format!("l{}a", i - 1)), on(format!("l{}b", i - 1))]);
            ladder.extend(["a", "b"].map(|side| agent(&format!("l{i}{side}"), &below)));
        }
        let refused = found(&ladder[..10], &[set("agent/l0a@1.0.0", Retired, None)]);
        assert_eq!(refused.lines().count(), 2 + 4 + 8 + 16);
        let refused = found(&ladder[..20], &[set("agent/l0a@1.0.0", Retired, None)]);
        insta::assert_snapshot!(
            refused.lines().last().unwrap(),
            @"error[still-needed] agent/l0a@1.0.0 at \"\": there are more than these 100 paths to \
              it (move its dependents to a replacement, retire them too, or force the retirement \
              with a reason)"
        );
        let refused = found(&ladder, &[set("agent/l0a@1.0.0", Retired, None)]);
        assert_eq!(refused.lines().count(), 101);
        insta::assert_snapshot!(
            refused.lines().last().unwrap(),
            @"error[still-needed] agent/l0a@1.0.0 at \"\": 18 more active entities depend on it \
              (move its dependents to a replacement, retire them too, or force the retirement with \
              a reason)"
        );
    }

    #[test]
    fn retirement_limits_number_of_paths() {
        let mut crowd = world();
        let on = json!([{ "type": "tool", "name": "read", "version": "1.0.0" }]);
        crowd.extend((0..150).map(|i| agent(&format!("a{i:03}"), &on)));
        let refused = found(&crowd, &[set("tool/read@1.0.0", Retired, None)]);
        assert_eq!(refused.lines().count(), 101);
        insta::assert_snapshot!(
            refused.lines().last().unwrap(),
            @"error[still-needed] tool/read@1.0.0 at \"\": 52 more active entities depend on it \
              (move its dependents to a replacement, retire them too, or force the retirement with \
              a reason)"
        );
    }
}
