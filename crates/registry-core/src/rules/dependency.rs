//! `dependency-unknown` and `dependency-skill-unknown`: the targets of dependencies exist.

use super::{
    NOT_REGISTERED,
    proposal::{NewEntity, Proposal},
};
use crate::{
    diagnostic::{Code, Diagnostic},
    entity::{Agent, Dependency, DependencyTarget, Entity},
};

pub(super) fn check(proposal: &Proposal<'_>, new: &NewEntity<'_>, found: &mut Vec<Diagnostic>) {
    let (depends, list) = declared(new.entity());
    for (i, dependency) in depends.iter().enumerate() {
        let at = format!("{list}/{i}");
        let key = dependency.key();
        if !proposal.is_known(&key) {
            let message = format!("{} depends on {key}, which {NOT_REGISTERED}", new.key());
            let unknown = Diagnostic::error(Code::DependencyUnknown, at, message);
            new.report(found, unknown.with_help(proposal.help_for_unknown(&key)));
        } else if dependency.target == DependencyTarget::Agent
            && let Some(Entity::Agent(agent)) = proposal.find(&key)
            && let Some(problem) = skill_problem(dependency, agent, &at)
        {
            new.report(found, problem);
        }
    }
}

/// The declared dependencies of an entity, with the pointer of the list.
pub(super) fn declared(entity: &Entity) -> (&[Dependency], String) {
    match entity {
        Entity::Tool(tool) => (&tool.depends, "/depends".to_owned()),
        Entity::Agent(agent) => agent.depends(),
        Entity::Schema(_) | Entity::Server(_) | Entity::Policy(_) => (&[], String::new()),
    }
}

fn skill_problem(dependency: &Dependency, agent: &Agent, at: &str) -> Option<Diagnostic> {
    let key = dependency.key();
    let (at, message) = match &dependency.skill {
        None => (at.to_owned(), format!("the dependency on {key} names no skill")),
        Some(skill) if agent.skill(skill).is_none() => {
            (format!("{at}/skill"), format!("{key} has no skill `{skill}`"))
        }
        Some(_) => return None,
    };
    let skills: Vec<_> = agent.skills.iter().take(20).map(|skill| skill.id.as_str()).collect();
    let help = format!("its skills are {}", skills.join(", "));
    Some(Diagnostic::error(Code::DependencySkillUnknown, at, message).with_help(help))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{agent, found};

    #[test]
    fn dependency_must_be_registered() {
        let depends = json!([{ "type": "tool", "name": "fetch", "version": "1.2.3" }]);
        insta::assert_snapshot!(
            found(&[], &[agent("a", &depends)]),
            @"error[dependency-unknown] agent/a@1.0.0 at \
              \"/capabilities/extensions/0/params/depends/0\": agent/a@1.0.0 depends on \
              tool/fetch@1.2.3, which is not registered (register tool/fetch@1.2.3 first, or in \
              the same batch)"
        );
    }

    #[test]
    fn agent_dependency_must_name_existing_skill() {
        let depends = json!([
            { "type": "agent", "name": "b", "version": "1.0.0" },
            { "type": "agent", "name": "b", "version": "1.0.0", "skill": "nap" },
            { "type": "agent", "name": "b", "version": "1.0.0", "skill": "work" },
        ]);
        insta::assert_snapshot!(found(&[], &[agent("b", &json!([])), agent("a", &depends)]), @r#"
        error[dependency-skill-unknown] agent/a@1.0.0 at "/capabilities/extensions/0/params/depends/0": the dependency on agent/b@1.0.0 names no skill (its skills are work)
        error[dependency-skill-unknown] agent/a@1.0.0 at "/capabilities/extensions/0/params/depends/1/skill": agent/b@1.0.0 has no skill `nap` (its skills are work)
        "#);
    }
}
