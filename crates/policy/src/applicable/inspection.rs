//! The inspection of a call: the strictest action of its policies for each class of data.

use std::sync::Arc;

use registry_core::entity::policy::{
    BinaryContent, DataClass, Inspection, InspectionAction, InspectionException, Mode,
};

use super::{ApplicablePolicies, ApplicablePolicy};
use crate::PolicyInForce;

/// The inspected side of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The data that the tool receives.
    Arguments,
    /// The data that the caller receives.
    Results,
}

impl Direction {
    /// The name in responses, audit events and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Results => "results",
        }
    }
}

/// The actions on data in the arguments and results of a call.
#[derive(Debug, Clone)]
pub struct InspectionRules {
    /// The strictest actions first; equal ones by policy name.
    rules: Vec<ClassRule>,
    /// The policies that block binary content, by name.
    binary: Vec<Arc<PolicyInForce>>,
    /// The names of the tool that exceptions match.
    tools: Arc<[String]>,
}

/// The action of one policy on data of one class.
#[derive(Debug, Clone)]
struct ClassRule {
    direction: Direction,
    class: DataClass,
    action: InspectionAction,
    policy: Arc<PolicyInForce>,
}

/// The action on found data, with its policy.
#[derive(Debug, Clone, Copy)]
pub struct InspectionRule<'a> {
    /// The policy with the strictest action. Of equal actions, the first one by policy name.
    pub policy: &'a Arc<PolicyInForce>,
    /// The action.
    pub action: InspectionAction,
}

impl ApplicablePolicies {
    /// The inspection of calls. `None`: nothing is inspected.
    pub fn inspection(&self) -> Option<&Arc<InspectionRules>> {
        self.inspection.as_ref()
    }
}

impl InspectionRules {
    pub(super) fn new(policies: &[ApplicablePolicy], tools: &[String]) -> Option<Arc<Self>> {
        let mut found = Self { rules: Vec::new(), binary: Vec::new(), tools: tools.into() };
        for ApplicablePolicy { policy, .. } in policies {
            let Some(inspection) = &policy.policy().inspection else { continue };
            for class in DataClass::ALL {
                for (direction, action) in [
                    (Direction::Arguments, inspection.of_arguments(class)),
                    (Direction::Results, inspection.of_results(class)),
                ] {
                    let rule = |action| {
                        let policy = Arc::clone(policy);
                        ClassRule { direction, class, action, policy }
                    };
                    found.rules.extend(action.map(rule));
                }
            }
            if inspection.binary == BinaryContent::Block {
                found.binary.push(Arc::clone(policy));
            }
        }
        found.sort();
        (!found.rules.is_empty() || !found.binary.is_empty()).then(|| Arc::new(found))
    }

    /// The actions on the result of a composition: the strictest of its own rules and those of its
    /// steps. Its arguments keep their own rules.
    pub fn with_results_of<'a>(
        own: Option<&Self>,
        steps: impl IntoIterator<Item = &'a Self>,
    ) -> Option<Arc<Self>> {
        let nothing = || Self { rules: Vec::new(), binary: Vec::new(), tools: Arc::from([]) };
        let mut merged = own.map_or_else(nothing, Clone::clone);
        for step in steps {
            let results = step.rules.iter().filter(|rule| rule.direction == Direction::Results);
            merged.rules.extend(results.cloned());
            merged.binary.extend(step.binary.iter().cloned());
        }
        merged.sort();
        (!merged.rules.is_empty() || !merged.binary.is_empty()).then(|| Arc::new(merged))
    }

    /// The strictest of these and other rules. `None`: these contain the others.
    pub fn with(&self, other: &Self) -> Option<Self> {
        let is_new = |rule: &&ClassRule| {
            !self.rules.iter().any(|known| {
                (known.direction, known.class) == (rule.direction, rule.class)
                    && known.policy.key() == rule.policy.key()
            })
        };
        let is_other = |policy: &&Arc<PolicyInForce>| {
            !self.binary.iter().any(|known| known.key() == policy.key())
        };
        let rules: Vec<_> = other.rules.iter().filter(is_new).cloned().collect();
        let binary: Vec<_> = other.binary.iter().filter(is_other).cloned().collect();
        (!rules.is_empty() || !binary.is_empty()).then(|| {
            let mut merged = self.clone();
            merged.rules.extend(rules);
            merged.binary.extend(binary);
            merged.sort();
            merged
        })
    }

    fn sort(&mut self) {
        let key = |rule: &ClassRule| rule.policy.key().clone();
        self.rules.sort_by(|a, b| b.action.cmp(&a.action).then_with(|| key(a).cmp(&key(b))));
        self.binary.sort_by(|a, b| a.key().cmp(b.key()));
    }

    /// The inspected classes.
    pub fn classes(&self, direction: Direction) -> impl Iterator<Item = DataClass> {
        DataClass::ALL.into_iter().filter(move |class| {
            self.rules.iter().any(|rule| rule.direction == direction && rule.class == *class)
        })
    }

    /// The action on data of a class. `argument` is its pointer in the arguments of a tool. `None`: it
    /// is elsewhere, where exceptions do not apply.
    pub fn rule(
        &self,
        mode: Mode,
        direction: Direction,
        class: DataClass,
        argument: Option<&str>,
    ) -> Option<InspectionRule<'_>> {
        let matching = self.rules.iter().find(|rule| {
            rule.direction == direction
                && rule.class == class
                && rule.policy.mode() == mode
                && argument.is_none_or(|pointer| !self.is_excepted(rule, pointer))
        });
        matching.map(|ClassRule { policy, action, .. }| InspectionRule { policy, action: *action })
    }

    /// The strictest action in a direction.
    pub fn strictest(&self, mode: Mode, direction: Direction) -> Option<InspectionRule<'_>> {
        let mut rules = self.rules.iter();
        let rule = rules.find(|rule| rule.direction == direction && rule.policy.mode() == mode)?;
        Some(InspectionRule { policy: &rule.policy, action: rule.action })
    }

    fn is_excepted(&self, rule: &ClassRule, pointer: &str) -> bool {
        let inspection = rule.policy.policy().inspection.as_ref();
        let exceptions = inspection.map(|Inspection { except, .. }| except.as_slice());
        let covers = |exception: &InspectionException| exception.covers(&self.tools, pointer);
        rule.direction == Direction::Arguments && exceptions.unwrap_or_default().iter().any(covers)
    }

    /// The first policy that blocks content which is not read.
    pub fn blocks_binary(&self, mode: Mode) -> Option<&Arc<PolicyInForce>> {
        self.binary.iter().find(|policy| policy.mode() == mode)
    }

    /// The enforced policies that replace data of a class by placeholders.
    pub fn tokenizing(&self, class: DataClass) -> impl Iterator<Item = &Arc<PolicyInForce>> {
        let rules = self.rules.iter().filter(move |rule| {
            rule.class == class
                && rule.action == InspectionAction::Tokenize
                && rule.policy.mode() == Mode::Enforce
        });
        rules.map(|rule| &rule.policy)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::applicable::testing::applicable;

    fn inspected(mode: &str, inspection: &Value) -> Value {
        json!({ "mode": mode, "inspection": inspection })
    }

    fn rules(policies: &[Value]) -> Arc<InspectionRules> {
        Arc::clone(applicable(policies).inspection().unwrap())
    }

    /// The policy and the action.
    fn found(
        rules: &InspectionRules,
        mode: Mode,
        direction: Direction,
        pointer: &str,
    ) -> Option<(String, &'static str)> {
        let rule = rules.rule(mode, direction, DataClass::Contact, Some(pointer))?;
        Some((rule.policy.key().name.to_string(), rule.action.as_str()))
    }

    fn of_results(rules: &InspectionRules, mode: Mode) -> Option<(String, &'static str)> {
        found(rules, mode, Direction::Results, "")
    }

    #[test]
    fn strictest_action_of_all_policies_applies() {
        let action =
            |action: &str| inspected("enforce", &json!({ "results": { "contact": action } }));
        let merged =
            rules(&[action("log"), action("redact"), action("tokenize"), action("redact")]);
        assert_eq!(of_results(&merged, Mode::Enforce), Some(("p1".to_owned(), "redact")));
        assert_eq!(found(&merged, Mode::Enforce, Direction::Arguments, ""), None);
        assert_eq!(of_results(&merged, Mode::Audit), None);
    }

    #[test]
    fn audit_mode_has_its_own_actions() {
        let merged = rules(&[
            inspected("enforce", &json!({ "results": { "contact": "log" } })),
            inspected("audit", &json!({ "results": { "contact": "block" } })),
        ]);
        assert_eq!(of_results(&merged, Mode::Enforce), Some(("p0".to_owned(), "log")));
        assert_eq!(of_results(&merged, Mode::Audit), Some(("p1".to_owned(), "block")));
    }

    #[test]
    fn exception_of_one_policy_keeps_other_policies() {
        let exception = json!([{ "tool": "pay", "pointer": "/to" }]);
        let excepting = json!({ "arguments": { "contact": "block" }, "except": exception });
        let merged = rules(&[
            inspected("enforce", &excepting),
            inspected("enforce", &json!({ "arguments": { "contact": "log" } })),
        ]);
        let found = |pointer| found(&merged, Mode::Enforce, Direction::Arguments, pointer);
        assert_eq!(found("/to"), Some(("p1".to_owned(), "log")));
        assert_eq!(found("/from"), Some(("p0".to_owned(), "block")));
        let elsewhere =
            merged.rule(Mode::Enforce, Direction::Arguments, DataClass::Contact, None).unwrap();
        assert_eq!(elsewhere.action, InspectionAction::Block);
    }

    #[test]
    fn strict_profile_wins_over_listed_actions() {
        let merged = rules(&[
            inspected("enforce", &json!({ "results": { "contact": "redact" } })),
            inspected("enforce", &json!({ "profile": "strict" })),
        ]);
        assert_eq!(of_results(&merged, Mode::Enforce), Some(("p1".to_owned(), "block")));
        assert_eq!(merged.classes(Direction::Arguments).count(), DataClass::ALL.len());
    }

    #[test]
    fn policies_without_inspection_inspect_nothing() {
        assert!(applicable(&[json!({})]).inspection().is_none());
    }

    #[test]
    fn merged_rules_are_strictest_and_bounded() {
        let named = |name: &str, action: &str| {
            let of_class = json!({ "contact": action });
            let inspection = json!({ "arguments": of_class, "results": of_class });
            rules(&[json!({ "name": name, "mode": "enforce", "inspection": inspection })])
        };
        let (logs, blocks) = (named("p0", "log"), named("p1", "block"));
        let merged = logs.with(&blocks).unwrap();
        for direction in [Direction::Arguments, Direction::Results] {
            let found = found(&merged, Mode::Enforce, direction, "");
            assert_eq!(found, Some(("p1".to_owned(), "block")));
        }
        for known in [logs, blocks] {
            assert!(merged.with(&known).is_none());
        }
    }

    #[test]
    fn composition_has_strictest_results_of_its_steps() {
        let step = rules(&[inspected(
            "enforce",
            &json!({
                "arguments": { "contact": "block" }, "results": { "contact": "redact" },
                "binary": "block",
            }),
        )]);
        let own = rules(&[inspected("enforce", &json!({ "results": { "contact": "log" } }))]);
        let merged = InspectionRules::with_results_of(Some(&own), [&*step]).unwrap();
        assert_eq!(of_results(&merged, Mode::Enforce), Some(("p0".to_owned(), "redact")));
        assert_eq!(found(&merged, Mode::Enforce, Direction::Arguments, ""), None);
        assert!(merged.blocks_binary(Mode::Enforce).is_some());
        assert!(InspectionRules::with_results_of(None, []).is_none());
    }
}
