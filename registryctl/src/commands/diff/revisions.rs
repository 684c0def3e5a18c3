//! `diff A..B`: the changes between two points in history, with the differences of new versions.
//!
//! Pages are printed as they arrive, so that memory use does not grow with the history.

mod view;

use registry_core::PointInTime;
use registry_proto::v1::{self, revision_difference::Difference as Wire};

use super::{
    super::{Session, log::require_commits},
    mark,
};
use crate::{
    cli::{EntityFilter, Format},
    client::{PAGE_SIZE, request},
    failure::Failure,
    screen::Screen,
    style::{Paint, printable},
    view::short_value,
};
use view::{Counts, DifferenceView};

/// Prints the differences, and returns their number.
pub(super) async fn run(
    session: &Session,
    (from, to): (PointInTime, Option<PointInTime>),
    filter: Option<&EntityFilter>,
) -> Result<usize, Failure> {
    let client = session.connect().await?;
    let mut wanted = new_request(from, to, filter);
    let mut output = Output { screen: session.screen, counts: Counts::default(), revisions: None };
    loop {
        let v1::CompareRevisionsResponse {
            differences,
            next_page_token,
            old_revision,
            new_revision,
        } = client.answer(client.history().compare_revisions(request(wanted.clone()))).await?;
        if output.revisions.is_none()
            && differences.is_empty()
            && let Some(filter) = filter
        {
            require_commits(&client, filter, None).await?;
        }
        output.begin(old_revision, new_revision)?;
        for difference in differences {
            let difference = difference.difference;
            let difference: Wire =
                difference.ok_or_else(|| Failure::invalid_response("an empty difference"))?;
            output.show(&DifferenceView::try_from(difference)?)?;
        }
        if next_page_token.is_empty() {
            return output.end();
        }
        wanted.page_token = next_page_token;
    }
}

fn new_request(
    from: PointInTime,
    to: Option<PointInTime>,
    filter: Option<&EntityFilter>,
) -> v1::CompareRevisionsRequest {
    v1::CompareRevisionsRequest {
        old_point: Some(from.into()),
        new_point: to.map(Into::into),
        entity: filter.map(EntityFilter::selector),
        page_size: PAGE_SIZE,
        ..Default::default()
    }
}

struct Output {
    screen: Screen,
    counts: Counts,
    /// The compared revisions, known after the first page.
    revisions: Option<(u64, u64)>,
}

impl Output {
    fn begin(&mut self, from: u64, to: u64) -> Result<(), Failure> {
        if self.revisions.replace((from, to)).is_some() || self.screen.format == Format::Table {
            return Ok(());
        }
        let head = format!("{{\n  \"from\": {from},\n  \"to\": {to},\n  \"differences\": [");
        self.screen.bytes(head.as_bytes())
    }

    fn show(&mut self, difference: &DifferenceView) -> Result<(), Failure> {
        let is_first = self.counts.total() == 0;
        self.counts.add(difference);
        if self.screen.format == Format::Table {
            return self.lines(difference);
        }
        // Strings, numbers and JSON always serialize.
        let text = serde_json::to_string(difference).unwrap_or_default();
        let comma = if is_first { "" } else { "," };
        self.screen.bytes(format!("{comma}\n    {text}").as_bytes())
    }

    /// Prints a difference and the differences of the document.
    fn lines(&self, difference: &DifferenceView) -> Result<(), Failure> {
        let style = self.screen.style;
        let (mark, paint, headline) = difference.headline();
        let headline = printable(&headline);
        self.screen.line(&style.paint(paint, format!("{mark} {headline}")))?;
        let DifferenceView::Entity(entity) = difference else { return Ok(()) };
        if let Some(against) = &entity.against {
            let against = format!("    compared with {}", printable(against));
            self.screen.line(&style.paint(Paint::Dim, against))?;
        }
        for inner in &entity.differences {
            let (mark, paint) = super::mark(inner.old.as_ref(), inner.new.as_ref());
            let values = [inner.old.as_ref(), inner.new.as_ref()].into_iter().flatten();
            let values: Vec<_> = values.map(short_value).collect();
            let line = format!("    {mark} {}  {}", inner.pointer, values.join(" -> "));
            self.screen.line(&style.paint(paint, printable(&line)))?;
        }
        Ok(())
    }

    fn end(self) -> Result<usize, Failure> {
        let total = self.counts.total();
        if self.screen.format == Format::Json {
            let line = if total == 0 { "]\n}" } else { "\n  ]\n}" };
            self.screen.line(line)?;
            return Ok(total);
        }
        let (from, to) = self.revisions.unwrap_or_default();
        self.screen.line(&match total {
            0 => format!("no difference between revision {from} and revision {to}"),
            _ => format!("revision {from} to revision {to}: {}", self.counts),
        })?;
        Ok(total)
    }
}
