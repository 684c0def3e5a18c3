//! The search of one text: anchors, candidates, encodings.

use std::ops::{ControlFlow, Range};

use registry_core::entity::policy::DataClass;

use crate::{
    context::Text,
    detect,
    detector::Selection,
    encoded::{self, Decoded},
    finding::{Encoding, MAX_FINDINGS},
    prefilter::{Anchor, Match, Prefilter},
    scan::{Hit, Scan},
};

/// The hits of a text, ordered by start.
#[derive(Default)]
pub(crate) struct Hits {
    pub(crate) list: Vec<Hit>,
    pub(crate) is_truncated: bool,
}

/// Searches a text and its parts in base64 and percent-encoding.
pub(crate) fn search(text: Text<'_>, selection: &Selection) -> Hits {
    if selection.is_empty() {
        return Hits::default();
    }
    let mut hits = plain(text, selection);
    let credentials = credentials(&mut hits);
    encoded::decode(text.text, |decoded| {
        if hits.len() <= MAX_FINDINGS {
            let inner = Text { text: &decoded.text, key: text.key };
            let found = plain(inner, selection).into_iter().map(|hit| outer(&decoded, &hit));
            // A decoded `@` in a password changes the parts of its URL. Values of other classes stay:
            // findings of a class do not depend on the selection of another one.
            let is_part = |hit: &Hit| {
                hit.encoding == Some(Encoding::Percent)
                    && hit.detector.class() == DataClass::Credential
                    && overlaps(&credentials, &hit.span)
            };
            hits.extend(found.filter(|hit| !is_part(hit)));
        }
    });
    finish(hits)
}

/// Searches a text without its encodings.
fn plain(text: Text<'_>, selection: &Selection) -> Vec<Hit> {
    let mut scan = Scan::new(text, selection);
    detect::assigned::find_keyed(&mut scan);
    // A full scan ends the search.
    let _ = Prefilter::get().search(text.bytes(), |found| visit(&mut scan, found));
    scan.into_hits()
}

/// Validates the candidate of an anchor.
fn visit(scan: &mut Scan<'_>, Match { anchor, start, end }: Match) -> ControlFlow<()> {
    if scan.is_full() {
        return ControlFlow::Break(());
    }
    match anchor {
        Anchor::Digit => detect::digits(scan, start),
        Anchor::Key(rule) => detect::keys::find(scan, rule, start, end),
        Anchor::Keyword => detect::assigned::find(scan, start, end),
        Anchor::Basic => detect::authorization::basic(scan, start, end),
        Anchor::Bearer => detect::authorization::bearer(scan, start, end),
        Anchor::Jwt => detect::jwt::find(scan, start),
        Anchor::Pem => detect::private_key::find(scan, start, end),
        Anchor::Scheme => detect::url_password::find(scan, start, end),
        Anchor::At => detect::email::find(scan, start),
        Anchor::Colon => detect::network::colon(scan, start),
        Anchor::Dash => detect::network::dash(scan, start),
    }
    ControlFlow::Continue(())
}

/// The hit with the span of the encoded text.
fn outer(decoded: &Decoded, hit: &Hit) -> Hit {
    let value = decoded.text.get(hit.span.clone()).unwrap_or_default().to_owned();
    let span = decoded.source(&hit.span);
    Hit { span, encoding: Some(decoded.encoding), decoded: Some(value), detector: hit.detector }
}

/// Orders hits, and returns the spans of credentials that were found by their structure.
fn credentials(hits: &mut [Hit]) -> Vec<Range<usize>> {
    // A plain hit precedes the same hit in a decoded text.
    let order = |hit: &Hit| (hit.span.start, hit.span.end, hit.detector.name(), hit.encoding);
    hits.sort_by(|a, b| order(a).cmp(&order(b)));
    let is_specific = |hit: &&Hit| {
        hit.detector.class() == DataClass::Credential && !detect::is_generic(hit.detector)
    };
    hits.iter().filter(is_specific).map(|hit| hit.span.clone()).collect()
}

/// Removes repetitions, and generic secrets that overlap with another credential.
fn finish(mut list: Vec<Hit>) -> Hits {
    let credentials = credentials(&mut list);
    list.dedup_by(|a, b| a.detector == b.detector && a.span == b.span);
    list.retain(|hit| !detect::is_generic(hit.detector) || !overlaps(&credentials, &hit.span));
    let is_truncated = list.len() > MAX_FINDINGS;
    list.truncate(MAX_FINDINGS);
    Hits { list, is_truncated }
}

/// Whether a span shares a byte with one of these spans, which are ordered by start.
fn overlaps(spans: &[Range<usize>], span: &Range<usize>) -> bool {
    let before = spans.partition_point(|other| other.start < span.end);
    before.checked_sub(1).is_some_and(|last| spans[last].end > span.start)
}
