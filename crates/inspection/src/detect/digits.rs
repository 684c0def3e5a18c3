//! Groups of digits, separated by one space or dash of ASCII or Unicode.

use std::ops::Range;

use crate::context::{Separator, Text};

const MAX_GROUPS: usize = 6;

/// Up to six groups. The separators between them are equal.
pub(super) struct Groups<'a> {
    pub(super) text: Text<'a>,
    spans: [Range<usize>; MAX_GROUPS],
    count: usize,
    /// Space or dash; zero with one group.
    pub(super) separator: u8,
}

impl<'a> Groups<'a> {
    /// Reads the groups from a first one.
    pub(super) fn read(text: Text<'a>, first: Range<usize>) -> Self {
        let mut groups = Self { text, spans: Default::default(), count: 1, separator: 0 };
        let mut end = first.end;
        groups.spans[0] = first;
        while groups.count < MAX_GROUPS {
            let separator = text.separator(end).filter(|found| found.is_space_or_dash());
            let Some(Separator { byte, end: start }) = separator else { break };
            let next = text.run_end(start, 20, |byte| byte.is_ascii_digit());
            if next == start || groups.count > 1 && byte != groups.separator {
                break;
            }
            groups.separator = byte;
            groups.spans[groups.count] = start..next;
            groups.count += 1;
            end = next;
        }
        groups
    }

    pub(super) fn first(&self) -> Range<usize> {
        self.spans[0].clone()
    }

    pub(super) fn start(&self) -> usize {
        self.spans[0].start
    }

    /// The span of the first groups, if they have these lengths.
    pub(super) fn with_lengths(&self, lengths: &[usize]) -> Option<Range<usize>> {
        let groups = self.spans[..self.count].get(..lengths.len())?;
        let fits = groups.iter().zip(lengths).all(|(group, length)| group.len() == *length);
        fits.then(|| self.start()..groups[lengths.len() - 1].end)
    }

    /// The digits of a span.
    pub(super) fn digits(&self, span: &Range<usize>) -> Vec<u8> {
        let bytes = &self.text.bytes()[span.clone()];
        bytes.iter().copied().filter(u8::is_ascii_digit).collect()
    }
}
