//! The prefilter: one automaton that finds the anchors of candidates.

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
}

impl Prefilter {
    /// The prefilter of all detectors.
    pub(crate) fn get() -> &'static Self {
        static PREFILTER: LazyLock<Prefilter> = LazyLock::new(Prefilter::new);
        &PREFILTER
    }

    fn new() -> Self {
        let keys = KEY_RULES.iter();
        let keys =
            keys.flat_map(|rule| rule.prefixes.iter().map(|text| (*text, Anchor::Key(rule))));
        let all: Vec<_> = keys.chain(ANCHORS).chain([(DASH, Anchor::Dash)]).collect();
        let automaton = DFA::builder()
            .match_kind(MatchKind::Standard)
            .start_kind(StartKind::Unanchored)
            .ascii_case_insensitive(true)
            .prefilter(false)
            .build(all.iter().map(|(text, _)| text));
        // The patterns are constants, far below the limits of the automaton.
        let automaton = automaton.expect("constant patterns");
        let start = automaton.start_state(Anchored::No).expect("an unanchored automaton");
        let anchors = all.into_iter().map(|(text, anchor)| (text.len(), anchor)).collect();
        Self { automaton, start, anchors }
    }

    /// Calls `visit` with each anchor, ordered by its end, until it breaks.
    pub(crate) fn search(
        &self,
        bytes: &[u8],
        mut visit: impl FnMut(Match) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut state = self.start;
        for (at, byte) in bytes.iter().enumerate() {
            state = self.automaton.next_state(Anchored::No, state, *byte);
            if self.automaton.is_special(state) && self.automaton.is_match(state) {
                let end = at + 1;
                for i in 0..self.automaton.match_len(state) {
                    let pattern = self.automaton.match_pattern(state, i);
                    let (length, anchor) = self.anchors[pattern.as_usize()];
                    visit(Match { anchor, start: end - length, end })?;
                }
            }
        }
        ControlFlow::Continue(())
    }
}
