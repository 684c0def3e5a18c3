//! `search`: matching entities, best first, with highlights.

use std::fmt::Write as _;

use registry_core::Kind;
use registry_proto::{
    convert,
    v1::{self, entity::Kind as Content},
};
use registry_search::Target;
use serde::Serialize;

use super::Session;
use crate::{
    cli::{Format, SearchArgs},
    client::{Client, request},
    failure::Failure,
    style::{Paint, Style, printable},
    view::{LifecycleView, RecordView},
};

/// Maximum number of results per page.
const PAGE_SIZE: i32 = 100;
/// Maximum printed length of a description without a match, in characters.
const SUMMARY: usize = 120;

/// The JSON result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SearchView {
    revision: u64,
    total: u64,
    total_is_at_least: bool,
    results: Vec<ResultView>,
}

#[derive(Debug, Serialize)]
struct ResultView {
    #[serde(flatten)]
    record: RecordView,
    score: f32,
    highlights: Vec<HighlightView>,
    #[serde(skip)]
    description: String,
}

/// A matching text. Ranges are bytes of its UTF-8 form.
#[derive(Debug, Serialize)]
struct HighlightView {
    field: &'static str,
    text: String,
    ranges: Vec<(u32, u32)>,
}

pub(super) async fn run(session: &Session, args: SearchArgs) -> Result<(), Failure> {
    let limit = args.limit;
    let client = session.connect().await?;
    let found = fetch(&client, wanted(args)?, limit).await?;
    if session.screen.format == Format::Json {
        return session.screen.json(&found);
    }
    let style = session.screen.style;
    let mut text = String::new();
    for result in &found.results {
        result.render(&mut text, style);
    }
    let (shown, total) = (found.results.len(), found.total);
    let more = if found.total_is_at_least { "or more " } else { "" };
    let summary = match usize::try_from(total) {
        Ok(0) => "no results".to_owned(),
        Ok(total) if total > shown => {
            format!("{shown} of {total} {more}results; raise --limit for more")
        }
        Ok(1) => "1 result".to_owned(),
        _ => format!("{total} {more}results"),
    };
    // Writing into a string cannot fail.
    let _ = writeln!(text, "{}", style.paint(Paint::Dim, summary));
    session.screen.bytes(text.as_bytes())
}

fn wanted(args: SearchArgs) -> Result<v1::SearchEntitiesRequest, Failure> {
    let SearchArgs {
        query,
        kind,
        owner,
        tag,
        lifecycle,
        provides,
        depends_on,
        used_by,
        all_versions,
        limit: _, // counted while fetching
        as_of,
    } = args;
    Ok(v1::SearchEntitiesRequest {
        query: query.join(" "),
        kinds: kind.into_iter().map(|kind| v1::EntityKind::from(kind).into()).collect(),
        owner: owner.unwrap_or_default(),
        tags: tag,
        lifecycle_states: lifecycle
            .into_iter()
            .map(|s| v1::LifecycleState::from(s).into())
            .collect(),
        provides: provides.map(|text| provided_tool(&text)).transpose()?,
        depends_on: depends_on.as_ref().map(selector),
        used_by: used_by.as_ref().map(selector),
        all_versions,
        at: as_of.message(),
        ..Default::default()
    })
}

fn selector(Target { kind, name, version }: &Target) -> v1::EntitySelector {
    convert::selector(*kind, Some(name), version.as_ref())
}

/// Reads `fetch`, `fetch@1.2.3` or `tool/fetch`.
fn provided_tool(text: &str) -> Result<v1::EntitySelector, Failure> {
    let text = if text.contains('/') { text.to_owned() } else { format!("{}/{text}", Kind::Tool) };
    let target: Target = text.parse().map_err(Failure::usage)?;
    Ok(selector(&target))
}

async fn fetch(
    client: &Client,
    mut wanted: v1::SearchEntitiesRequest,
    limit: usize,
) -> Result<SearchView, Failure> {
    let mut results = Vec::new();
    loop {
        let missing = i32::try_from(limit - results.len()).unwrap_or(PAGE_SIZE);
        wanted.page_size = missing.clamp(1, PAGE_SIZE);
        let page =
            client.answer(client.discovery().search_entities(request(wanted.clone()))).await?;
        let v1::SearchEntitiesResponse { results: page_results, .. } = &page;
        results.extend(page_results.iter().cloned().map(ResultView::from));
        if page.next_page_token.is_empty() || results.len() >= limit {
            results.truncate(limit);
            let v1::SearchEntitiesResponse {
                revision,
                total_count,
                total_count_is_lower_bound,
                ..
            } = page;
            return Ok(SearchView {
                revision,
                total: total_count,
                total_is_at_least: total_count_is_lower_bound,
                results,
            });
        }
        wanted.page_token = page.next_page_token;
    }
}

impl From<v1::SearchResult> for ResultView {
    fn from(result: v1::SearchResult) -> Self {
        let v1::SearchResult { record, score, highlights } = result;
        let record = record.unwrap_or_default();
        let description = record.entity.as_ref().map(describe).unwrap_or_default();
        let highlights = highlights.into_iter().map(HighlightView::from).collect();
        Self { record: record.into(), score, highlights, description }
    }
}

fn describe(entity: &v1::Entity) -> String {
    let description = match &entity.kind {
        Some(Content::Schema(schema)) => schema.description.clone(),
        Some(Content::Server(server)) => server.description.clone(),
        Some(Content::Tool(tool)) => tool.description.clone(),
        Some(Content::Agent(agent)) => Some(agent.description.clone()),
        Some(Content::Policy(policy)) => policy.description.clone(),
        None => None,
    };
    description.unwrap_or_default()
}

impl From<v1::SearchHighlight> for HighlightView {
    fn from(highlight: v1::SearchHighlight) -> Self {
        let v1::SearchHighlight { field, text, ranges } = highlight;
        let field = match v1::SearchField::try_from(field) {
            Ok(v1::SearchField::Name) => "name",
            Ok(v1::SearchField::Title) => "title",
            Ok(v1::SearchField::Tag) => "tag",
            Ok(v1::SearchField::Skill) => "skill",
            Ok(v1::SearchField::Description) => "description",
            Ok(v1::SearchField::Property) => "property",
            Ok(v1::SearchField::Detail) => "detail",
            Ok(v1::SearchField::Related) => "related",
            Ok(v1::SearchField::Unspecified) | Err(_) => "unknown",
        };
        let ranges = ranges.into_iter().map(|range| (range.start, range.end)).collect();
        Self { field, text, ranges }
    }
}

impl ResultView {
    /// The key, the description, and matches in other fields.
    fn render(&self, out: &mut String, style: Style) {
        let key = &self.record.key;
        let name = self.matching("name").map_or_else(|| key.name.clone(), |h| h.painted(style));
        let version = style.paint(Paint::Dim, format!("@{}", printable(&key.version)));
        let _ = write!(out, "{:<6} {name}{version}", key.kind);
        let LifecycleView { state, message, .. } = &self.record.lifecycle;
        if *state != "active" {
            let reason = message.as_deref().map(|m| format!(": {}", printable(m)));
            let mark = format!("[{state}{}]", reason.unwrap_or_default());
            let _ = write!(out, "  {}", style.paint(Paint::Careful, mark));
        }
        out.push('\n');
        let summary = match self.matching("description") {
            Some(highlight) => highlight.painted(style),
            None => short(&self.description),
        };
        if !summary.is_empty() {
            let _ = writeln!(out, "       {summary}");
        }
        let shown = ["name", "description", "related"];
        let elsewhere: Vec<_> = self
            .highlights
            .iter()
            .filter(|highlight| !shown.contains(&highlight.field))
            .map(|highlight| {
                let field = style.paint(Paint::Dim, format!("{}:", highlight.field));
                format!("{field} {}", highlight.painted(style))
            })
            .collect();
        if !elsewhere.is_empty() {
            let _ = writeln!(out, "       {}", elsewhere.join("  "));
        }
    }

    fn matching(&self, field: &str) -> Option<&HighlightView> {
        self.highlights.iter().find(|highlight| highlight.field == field)
    }
}

/// The start of a description, on one line.
fn short(description: &str) -> String {
    let line = description.lines().next().unwrap_or_default();
    let mut text: String = printable(line).chars().take(SUMMARY).collect();
    if text.chars().count() < description.chars().count() {
        text.push('…');
    }
    text
}

impl HighlightView {
    /// The text with its matches in color.
    fn painted(&self, style: Style) -> String {
        let (mut out, mut done) = (String::new(), 0);
        for (start, end) in &self.ranges {
            let (start, end) = (*start as usize, *end as usize);
            // An invalid range is ignored.
            let parts = self.text.get(done..start).zip(self.text.get(start..end));
            let Some((before, matching)) = parts else { continue };
            out += &printable(before);
            out += &style.paint(Paint::Match, printable(matching));
            done = end;
        }
        out += &printable(&self.text[done..]);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_painted_and_invalid_ranges_ignored() {
        let paint = |text: &str, ranges: &[(u32, u32)]| {
            let (field, text) = ("name", text.to_owned());
            HighlightView { field, text, ranges: ranges.to_vec() }.painted(Style::Colored)
        };
        assert_eq!(paint("a größe b", &[(2, 9)]), "a \x1b[1;36mgröße\x1b[0m b");
        assert_eq!(paint("a\x1bß", &[(3, 9), (2, 3), (1, 0)]), "a\\u{1b}ß");
        assert_eq!(short(&"ä".repeat(200)).chars().count(), SUMMARY + 1);
    }
}
