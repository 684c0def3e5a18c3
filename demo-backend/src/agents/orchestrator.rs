//! The orchestrator agent, in A2A 1.0: long tasks for callers with a token.

use super::hosted_agent::{Definition, Input, Skill, Step, Work};
use super::wire::{Failure, Part, Protocol};

/// The agent.
pub const AGENT: Definition = Definition {
    name: "orchestrator-agent",
    version: "1.0.0",
    path: "/agents/orchestrator",
    description: "Delegates complex work to other agents",
    protocol: Protocol::V1,
    token: Some("demo-orchestrator-token"),
    skills: &[Skill {
        id: "complex_task",
        name: "Complex task",
        description: "Plans a task of several steps and delegates them",
        plan: plan_task,
    }],
};

const STEPS: u64 = 60;
const STEP_MS: u64 = 500;

fn plan_task(input: &Input) -> Result<Work, Failure> {
    if input.text.is_empty() {
        return Err(Failure::invalid("the message has no text"));
    }
    let progress = |step| Step::progress(STEP_MS, format!("Step {step} of {STEPS}"));
    let mut steps = vec![Step::progress(0, "Planning")];
    steps.extend((1..=STEPS).map(progress));
    steps.extend(Step::result(0, Part::Text(format!("Done: {}", input.text))));
    Ok(Work::Task(steps))
}
