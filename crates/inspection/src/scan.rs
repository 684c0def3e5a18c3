//! The accepted values of one text, while detectors search it.

use std::ops::Range;

use registry_core::entity::policy::DataClass;

use crate::{
    context::Text,
    detector::{Detector, Selection},
    finding::{Encoding, MAX_FINDINGS},
};

/// Maximum assignments inside of the value of another one. More would cost quadratic time.
const NESTED_ASSIGNMENTS: u32 = 3;

/// An accepted value.
pub(crate) struct Hit {
    pub(crate) detector: &'static Detector,
    pub(crate) span: Range<usize>,
    pub(crate) encoding: Option<Encoding>,
    /// The value, if the span covers its encoding.
    pub(crate) decoded: Option<String>,
}

/// The state of a search.
pub(crate) struct Scan<'a> {
    pub(crate) text: Text<'a>,
    selection: &'a Selection,
    hits: Vec<Hit>,
    assigned: Assigned,
    /// The last number of each class, and of the opt-in detectors.
    numbers: [Range<usize>; DataClass::ALL.len() + 1],
}

/// Values of assignments, which may contain further assignments: `secret=password=…`.
#[derive(Default)]
struct Assigned {
    end: usize,
    nested: u32,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(text: Text<'a>, selection: &'a Selection) -> Self {
        let (hits, assigned, numbers) = Default::default();
        Self { text, selection, hits, assigned, numbers }
    }

    /// Whether no more hits are collected. One more than the maximum shows the truncation.
    pub(crate) fn is_full(&self) -> bool {
        self.hits.len() > MAX_FINDINGS
    }

    pub(crate) fn wants(&self, detector: &Detector) -> bool {
        self.selection.contains(detector)
    }

    pub(crate) fn wants_opt_in(&self) -> bool {
        self.selection.has_opt_in()
    }

    /// Accepts a value, if its detector is selected.
    pub(crate) fn add(&mut self, detector: &'static Detector, span: Range<usize>) {
        if self.wants(detector) {
            self.hits.push(Hit { detector, span, encoding: None, decoded: None });
        }
    }

    /// Accepts a number, unless it starts inside of an accepted number of its class. Numbers of other
    /// classes do not count: the first digits of a card number may end a phone number.
    pub(crate) fn add_number(&mut self, detector: &'static Detector, span: Range<usize>) {
        let opt_in = DataClass::ALL.len();
        let slot = if detector.is_opt_in() { opt_in } else { detector.class() as usize };
        let last = &mut self.numbers[slot];
        let is_part = last.start < span.start && span.start < last.end;
        if is_part || !self.selection.contains(detector) {
            return;
        }
        if span.end > last.end {
            *last = span.clone();
        }
        self.add(detector, span);
    }

    /// Records the value of an assignment.
    pub(crate) fn enter_assigned(&mut self, value: &Range<usize>) {
        let Assigned { end, nested } = self.assigned;
        let nested = if value.start < end { nested + 1 } else { 0 };
        self.assigned = Assigned { end: end.max(value.end), nested };
    }

    /// Whether a name is in a value that already had the maximum of assignments.
    pub(crate) fn is_deep_in_assigned(&self, name: usize) -> bool {
        name < self.assigned.end && self.assigned.nested >= NESTED_ASSIGNMENTS
    }

    pub(crate) fn into_hits(self) -> Vec<Hit> {
        self.hits
    }
}
