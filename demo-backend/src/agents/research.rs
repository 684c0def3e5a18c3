//! The research agent, in A2A 1.0: a report on a topic, and short answers.

use serde_json::json;

use super::hosted_agent::{Definition, Input, Skill, Step, Work};
use super::wire::{Failure, Part, Protocol};

/// The agent.
pub const AGENT: Definition = Definition {
    name: "research-agent",
    version: "2.1.0",
    path: "/agents/research",
    description: "Gathers and weighs information on a topic",
    protocol: Protocol::V1,
    token: None,
    skills: &[
        Skill {
            id: "research_topic",
            name: "Research topic",
            description: "Researches a topic and returns findings, evidence and confidence",
            plan: research,
        },
        Skill {
            id: "quick_lookup",
            name: "Quick lookup",
            description: "Answers a factual question without deep research",
            plan: look_up,
        },
    ],
};

fn research(input: &Input) -> Result<Work, Failure> {
    let topic = input.field("topic")?;
    let claims = [
        (format!("{topic} is an active field"), "Publications grow each year", 0.9),
        (format!("{topic} is used in practice"), "Several companies report it", 0.7),
        (format!("{topic} has open questions"), "Surveys list them", 0.6),
    ];
    let count = match input.field("depth") {
        Ok("shallow") => 1,
        Ok("deep") => 3,
        _ => 2,
    };
    let finding = |(claim, evidence, confidence): &(String, &str, f64)| {
        json!({ "claim": claim, "evidence": evidence, "confidence": confidence,
            "sources": ["https://knowledge.example.com"] })
    };
    let findings: Vec<_> = claims.iter().take(count).map(finding).collect();
    let said: Vec<_> = claims.iter().take(count).map(|(claim, ..)| format!("{claim}.")).collect();
    let report = json!({ "summary": said.join(" "), "findings": findings,
        "recommendations": [format!("Read a survey of {topic}")] });
    let mut steps =
        vec![Step::progress(0, "Searching"), Step::progress(100, "Weighing the evidence")];
    steps.extend(Step::result(100, Part::Data(report)));
    Ok(Work::Task(steps))
}

fn look_up(input: &Input) -> Result<Work, Failure> {
    if input.text.is_empty() {
        return Err(Failure::invalid("the message has no text"));
    }
    Ok(Work::Reply(Part::Text(format!("Nothing is known about: {}", input.text))))
}
