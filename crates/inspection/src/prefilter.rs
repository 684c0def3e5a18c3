//! The prefilter: one automaton that finds the anchors of candidates. It skips bytes that start no
//! anchor.

use std::{ops::ControlFlow, sync::LazyLock};

use aho_corasick::{
    Anchored, MatchKind, StartKind,
    automaton::{Automaton as _, StateID},
    dfa::DFA,
};

use crate::detect::keys::{KEY_RULES, KeyRule};

/// A text at the start of a candidate, or inside of it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    /// A prefix of a provider's keys.
    Key(&'static KeyRule),
    /// A part of the name of a secret.
    Keyword,
    /// `basic `
    Basic,
    /// `bearer `
    Bearer,
    /// `eyJ`, the start of `{"` in base64.
    Jwt,
    /// `-----BEGIN `
    Pem,
    /// `://`
    Scheme,
    At,
    Digit,
    Colon,
    Dash,
}

const ANCHORS: [(&str, Anchor); 27] = [
    ("passw", Anchor::Keyword),
    ("passphrase", Anchor::Keyword),
    ("passcode", Anchor::Keyword),
    ("pwd", Anchor::Keyword),
    ("kennwort", Anchor::Keyword),
    ("contrasen", Anchor::Keyword),
    ("contraseñ", Anchor::Keyword),
    ("secret", Anchor::Keyword),
    ("token", Anchor::Keyword),
    ("key", Anchor::Keyword),
    ("basic ", Anchor::Basic),
    ("bearer ", Anchor::Bearer),
    ("eyJ", Anchor::Jwt),
    ("-----BEGIN ", Anchor::Pem),
    ("://", Anchor::Scheme),
    ("@", Anchor::At),
    (":", Anchor::Colon),
    ("0", Anchor::Digit),
    ("1", Anchor::Digit),
    ("2", Anchor::Digit),
    ("3", Anchor::Digit),
    ("4", Anchor::Digit),
    ("5", Anchor::Digit),
    ("6", Anchor::Digit),
    ("7", Anchor::Digit),
    ("8", Anchor::Digit),
    ("9", Anchor::Digit),
];
const DASH: &str = "-";

/// An anchor in a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Match {
    pub(crate) anchor: Anchor,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

pub(crate) struct Prefilter {
    automaton: DFA,
    start: StateID,
    anchors: Vec<(usize, Anchor)>,
    starts: Starts,
}

impl Prefilter {
    /// The prefilter of all detectors.
    pub(crate) fn get() -> &'static Self {
        static PREFILTER: LazyLock<Prefilter> = LazyLock::new(Prefilter::new);
        &PREFILTER
    }

    fn new() -> Self {
        let all = anchors();
        let automaton = DFA::builder()
            .match_kind(MatchKind::Standard)
            .start_kind(StartKind::Unanchored)
            .ascii_case_insensitive(true)
            .prefilter(false)
            .build(all.iter().map(|(text, _)| text));
        // The patterns are constants, far below the limits of the automaton.
        let automaton = automaton.expect("constant patterns");
        let start = automaton.start_state(Anchored::No).expect("an unanchored automaton");
        let starts = Starts::new(all.iter().map(|(text, _)| *text));
        let anchors = all.into_iter().map(|(text, anchor)| (text.len(), anchor)).collect();
        Self { automaton, start, anchors, starts }
    }

    /// Calls `visit` with each anchor, ordered by its end, until it breaks.
    pub(crate) fn search(
        &self,
        bytes: &[u8],
        mut visit: impl FnMut(Match) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut at = self.starts.next(bytes, 0);
        while at < bytes.len() {
            let mut state = self.start;
            while let Some(byte) = bytes.get(at) {
                state = self.automaton.next_state(Anchored::No, state, *byte);
                at += 1;
                if self.automaton.is_special(state) && self.automaton.is_match(state) {
                    self.visit_matches(state, at, &mut visit)?;
                }
                if self.is_idle(state, bytes, at) {
                    break;
                }
            }
            at = self.starts.next(bytes, at);
        }
        ControlFlow::Continue(())
    }

    fn visit_matches(
        &self,
        state: StateID,
        end: usize,
        visit: &mut impl FnMut(Match) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for i in 0..self.automaton.match_len(state) {
            let pattern = self.automaton.match_pattern(state, i);
            let (length, anchor) = self.anchors[pattern.as_usize()];
            visit(Match { anchor, start: end - length, end })?;
        }
        ControlFlow::Continue(())
    }

    /// Whether no anchor starts before `end` and ends after it. `state` is the state at `end`.
    fn is_idle(&self, state: StateID, bytes: &[u8], end: usize) -> bool {
        let Some(rest) = end.checked_sub(2).and_then(|start| bytes.get(start..)) else {
            return false;
        };
        let Some(&[a, b, c, d]) = rest.first_chunk::<4>() else { return false };
        let next = |state, byte| self.automaton.next_state(Anchored::No, state, byte);
        // With more than two bytes of an anchor, the state differs from that after the last two.
        !self.starts.contains([a, b, c])
            && !self.starts.contains([b, c, d])
            && state == next(next(self.start, a), b)
    }
}

/// All anchors with their texts.
fn anchors() -> Vec<(&'static str, Anchor)> {
    let keys = KEY_RULES.iter();
    let keys = keys.flat_map(|rule| rule.prefixes.iter().map(|text| (*text, Anchor::Key(rule))));
    keys.chain(ANCHORS).chain([(DASH, Anchor::Dash)]).collect()
}

/// Positions that [`Starts::next`] tests with one branch.
const BLOCK: usize = 8;

/// The first three bytes of all anchors.
///
/// Each step of the automaton waits for the one before. These tests are independent, so that the
/// processor overlaps them.
struct Starts {
    /// The groups of anchors, as bits, that have a byte at the first, second and third position.
    groups: [[u64; 256]; 3],
}

impl Starts {
    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut starts = Self { groups: [[0; 256]; 3] };
        let mut prefixes: Vec<String> = Vec::new();
        for text in texts {
            // The anchors of a group differ in the third byte only, so that it contains no other starts.
            let prefix = text.get(..2).unwrap_or_default().to_ascii_lowercase();
            let known = prefixes.iter().position(|known| *known == prefix);
            let group = known.unwrap_or_else(|| {
                prefixes.push(prefix);
                prefixes.len() - 1
            });
            let bit = 1_u64 << (group % 64);
            for (position, groups) in starts.groups.iter_mut().enumerate() {
                match text.as_bytes().get(position) {
                    Some(byte) => {
                        groups[usize::from(byte.to_ascii_lowercase())] |= bit;
                        groups[usize::from(byte.to_ascii_uppercase())] |= bit;
                    }
                    // A short anchor precedes any byte.
                    None => groups.iter_mut().for_each(|groups| *groups |= bit),
                }
            }
        }
        starts
    }

    fn contains(&self, bytes: [u8; 3]) -> bool {
        self.common_groups(bytes) != 0
    }

    fn common_groups(&self, [a, b, c]: [u8; 3]) -> u64 {
        let [first, second, third] = &self.groups;
        first[usize::from(a)] & second[usize::from(b)] & third[usize::from(c)]
    }

    /// The first position from `from` where an anchor can start. The last two bytes are not tested.
    fn next(&self, bytes: &[u8], from: usize) -> usize {
        let mut rest = bytes.get(from..).unwrap_or_default();
        while let Some(block) = rest.first_chunk::<{ BLOCK + 2 }>() {
            let groups = |at: usize| self.common_groups([block[at], block[at + 1], block[at + 2]]);
            if (0..BLOCK).fold(0, |found, at| found | groups(at)) != 0 {
                break;
            }
            rest = &rest[BLOCK..];
        }
        let is_start = |start: &[u8]| matches!(start, [a, b, c] if self.contains([*a, *b, *c]));
        let start = rest.windows(3).position(is_start);
        bytes.len() - rest.len() + start.unwrap_or(rest.len().saturating_sub(2))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Found = Vec<(usize, usize, String)>;

    fn note(found: &mut Found, Match { anchor, start, end }: Match) -> ControlFlow<()> {
        found.push((start, end, format!("{anchor:?}")));
        ControlFlow::Continue(())
    }

    fn found(text: &str) -> Found {
        let mut found = Vec::new();
        let _ = Prefilter::get().search(text.as_bytes(), |anchor| note(&mut found, anchor));
        found
    }

    /// The anchors that the automaton finds in all bytes.
    fn found_without_skipping(text: &str) -> Found {
        let prefilter = Prefilter::get();
        let (mut found, mut state) = (Vec::new(), prefilter.start);
        for (at, byte) in text.bytes().enumerate() {
            state = prefilter.automaton.next_state(Anchored::No, state, byte);
            if prefilter.automaton.is_match(state) {
                let mut visit = |anchor| note(&mut found, anchor);
                let _ = prefilter.visit_matches(state, at + 1, &mut visit);
            }
        }
        found
    }

    /// Whole and cut anchors in upper and lower case, between other texts.
    fn text() -> impl Strategy<Value = String> {
        let texts: Vec<_> = anchors().into_iter().map(|(text, _)| text).collect();
        let anchor = (prop::sample::select(texts), 1..30_usize, any::<bool>());
        let anchor = anchor.prop_map(|(text, length, is_upper)| {
            let text: String = text.chars().take(length).collect();
            if is_upper { text.to_uppercase() } else { text }
        });
        let part = prop_oneof![3 => anchor, 1 => ".{0,3}", 1 => "[a-z ]{1,20}", 1 => "[0-9]{1,3}"];
        prop::collection::vec(part, 0..16).prop_map(|parts| parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5_000) })]

        #[test]
        fn skipped_bytes_have_no_anchor(text in text()) {
            prop_assert_eq!(found(&text), found_without_skipping(&text));
        }
    }

    #[test]
    fn anchor_is_found_at_each_position() {
        for (text, anchor) in anchors() {
            for (before, after) in (0..2 * BLOCK).flat_map(|before| [(before, 0), (before, 20)]) {
                let text = format!("{}{text}{}", "x".repeat(before), "x".repeat(after));
                let (found, all) = (found(&text), found_without_skipping(&text));
                assert_eq!(found, all, "{text}");
                let name = format!("{anchor:?}");
                assert!(found.iter().any(|(start, _, known)| *start == before && *known == name));
            }
        }
    }

    #[test]
    fn other_text_has_no_start() {
        let text = "x".repeat(100);
        assert_eq!(Prefilter::get().starts.next(text.as_bytes(), 0), 98);
        assert_eq!(Prefilter::get().starts.next(b"the upstream key", 0), 13);
    }
}
