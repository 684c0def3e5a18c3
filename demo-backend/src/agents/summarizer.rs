//! The summarizer agent, in A2A 0.3: summaries and keywords of texts.

use std::collections::BTreeSet;

use serde_json::json;

use super::hosted_agent::{Definition, Input, Skill, Step, Work};
use super::wire::{Failure, Part, Protocol};

/// The agent.
pub const AGENT: Definition = Definition {
    name: "summarizer-agent",
    version: "2.0.0",
    path: "/agents/summarizer",
    description: "Turns long texts into short ones",
    protocol: Protocol::V03,
    token: None,
    skills: &[
        Skill {
            id: "summarize",
            name: "Summarize",
            description: "Summarizes a text and lists its key points",
            plan: summarize,
        },
        Skill {
            id: "extract_keywords",
            name: "Extract keywords",
            description: "Finds important terms and phrases",
            plan: extract_keywords,
        },
    ],
};

/// Words of a summary, if the request has no number.
const DEFAULT_WORDS: usize = 20;
/// Shorter words are no keywords.
const KEYWORD_LETTERS: usize = 6;

fn summarize(input: &Input) -> Result<Work, Failure> {
    let content = input.field("content")?;
    let most = input.data.as_ref().and_then(|data| data["maxLength"].as_u64());
    let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(DEFAULT_WORDS);
    let words: Vec<_> = content.split_whitespace().take(most).collect();
    let sentences = content.split_inclusive(['.', '!', '?']).map(str::trim);
    let points: Vec<_> = sentences.filter(|sentence| !sentence.is_empty()).take(5).collect();
    let summary: String = match input.field("style") {
        Ok("bullet") => points.iter().flat_map(|point| ["- ", point, "\n"]).collect(),
        _ => words.join(" "),
    };
    let response = json!({ "wordCount": summary.split_whitespace().count(), "summary": summary,
        "keyPoints": points });
    Ok(Work::Task(Step::result(50, Part::Data(response)).into()))
}

#[expect(clippy::unnecessary_wraps, reason = "the type of all plans")]
fn extract_keywords(input: &Input) -> Result<Work, Failure> {
    let words = input.text.split(|char: char| !char.is_alphanumeric());
    let long = words.filter(|word| word.chars().count() >= KEYWORD_LETTERS);
    let keywords: BTreeSet<_> = long.map(str::to_lowercase).collect();
    Ok(Work::Reply(Part::Data(json!({ "keywords": keywords, "phrases": [] }))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_requested_length_and_style() {
        let data =
            |style: &str| json!({ "content": "One two. Three.", "maxLength": 1, "style": style });
        for (style, expected) in [("paragraph", "One"), ("bullet", "- One two.\n- Three.\n")] {
            let input = Input { data: Some(data(style)), ..Input::default() };
            let Ok(Work::Task(steps)) = summarize(&input) else { panic!("a task") };
            let result = format!("{:?}", steps[0].event);
            assert!(result.contains(&format!("{expected:?}")), "{result}");
        }
        assert_eq!(summarize(&Input::default()).unwrap_err().code, -32602);
    }
}
