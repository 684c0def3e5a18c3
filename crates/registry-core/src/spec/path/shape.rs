//! An upper bound of the cost of a JSONPath, computed before evaluation.
//!
//! Most paths are cheap, but `$..*..*` or a filter that scans the whole value for each item are
//! not, and the author of a path does not know its inputs. The text of a path is reduced to the
//! parts that multiply the cost: descents, wildcards, selector lists and filters.

#[cfg(test)]
mod tests;

/// The cost of one call of `match` or `search`, which compiles its expression each time.
const REGEX: u64 = 5_000;

/// The size of a value.
#[derive(Debug, Clone, Copy)]
pub(in crate::spec) struct Size {
    /// The number of values in it; long strings count as several.
    pub(in crate::spec) values: u64,
    /// The nesting depth.
    pub(in crate::spec) depth: u64,
}

/// The cost structure of a query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shape {
    segments: Vec<Segment>,
    /// The length of its text, which is its minimum cost.
    length: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Segment {
    is_descent: bool,
    /// The number of selectors.
    selectors: u64,
    /// Whether a selector may select several values.
    is_fan: bool,
    filters: Vec<Filter>,
}

/// The cost per candidate of a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Filter {
    length: u64,
    regexes: u64,
    /// Non-singular queries relative to the candidate.
    relative: Vec<Shape>,
    /// Queries from the root that may visit much of the value.
    absolute: Vec<Shape>,
}

impl Shape {
    /// The structure of a valid path.
    pub(super) fn parse(path: &str) -> Self {
        Scanner { bytes: path.as_bytes(), at: 0 }.query()
    }

    /// The cost for any value.
    pub(super) fn looks_of_all(&self) -> u64 {
        self.length
    }

    /// Whether it may visit more than one value per segment.
    pub(super) fn is_wide(&self) -> bool {
        self.segments.iter().any(|segment| segment.is_descent || segment.is_many())
    }

    /// The maximum number of visits for a value of this size.
    pub(super) fn looks(&self, size: Size) -> u64 {
        let Size { values, depth } = size;
        let mut looks = self.length;
        // How often one value may occur among the selected ones.
        let mut times: u64 = 1;
        let mut is_single = true;
        for segment in &self.segments {
            let visited = match (segment.is_descent, is_single) {
                (false, true) => 1,
                (false, false) => times.saturating_mul(values),
                (true, true) => values,
                (true, false) => times.saturating_mul(values).saturating_mul(depth),
            };
            if segment.is_descent && !is_single {
                times = times.saturating_mul(depth);
            }
            let candidates = times.saturating_mul(values);
            let fan = if segment.is_fan { candidates } else { 0 };
            let each = visited.saturating_add(fan).saturating_mul(segment.selectors);
            looks = looks.saturating_add(each);
            for filter in &segment.filters {
                looks = looks.saturating_add(filter.looks(size, (times, candidates)));
            }
            times = times.saturating_mul(segment.selectors);
            is_single &= !segment.is_descent && !segment.is_many();
        }
        looks
    }
}

impl Segment {
    fn is_many(&self) -> bool {
        self.is_fan || self.selectors > 1
    }
}

impl Filter {
    fn looks(&self, size: Size, (times, candidates): (u64, u64)) -> u64 {
        let each = self.length.saturating_add(self.regexes.saturating_mul(REGEX));
        let mut looks = candidates.saturating_mul(each);
        for query in &self.absolute {
            let each = query.looks(size).max(size.values);
            looks = looks.saturating_add(candidates.saturating_mul(each));
        }
        for query in &self.relative {
            // Candidates of one depth share no values.
            let level = query.looks(size).saturating_mul(times);
            looks = looks.saturating_add(level.saturating_mul(size.depth));
        }
        looks
    }
}

/// Scans the text of a valid path.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// A query from its `$` or `@` to its end.
    fn query(&mut self) -> Shape {
        let start = self.at;
        self.at += 1;
        let mut segments = Vec::new();
        let mut end = self.at;
        self.blanks();
        while matches!(self.peek(), Some(b'.' | b'[')) {
            segments.push(self.segment());
            end = self.at;
            self.blanks();
        }
        // Blanks after the last segment belong to the following token.
        self.at = end;
        Shape { segments, length: (self.at - start) as u64 }
    }

    fn segment(&mut self) -> Segment {
        let is_descent = self.bytes[self.at..].starts_with(b"..");
        self.at += if is_descent { 2 } else { usize::from(self.peek() == Some(b'.')) };
        let mut segment = match self.peek() {
            Some(b'[') => self.selectors(),
            Some(b'*') => {
                self.at += 1;
                Segment { selectors: 1, is_fan: true, ..Segment::default() }
            }
            _ => {
                while self.peek().is_some_and(is_of_name) {
                    self.at += 1;
                }
                Segment { selectors: 1, ..Segment::default() }
            }
        };
        segment.is_descent = is_descent;
        segment
    }

    fn selectors(&mut self) -> Segment {
        let mut segment = Segment { selectors: 1, ..Segment::default() };
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b']' => break,
                b',' => segment.selectors += 1,
                b'\'' | b'"' => self.text(byte),
                b'*' | b':' => segment.is_fan = true,
                b'?' => {
                    segment.is_fan = true;
                    segment.filters.push(self.filter());
                }
                _ => {}
            }
        }
        segment
    }

    /// The rest of a quoted string.
    fn text(&mut self, quote: u8) {
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                byte if byte == quote => break,
                _ => {}
            }
        }
    }

    /// The expression after a `?`, up to the following `,` or `]`.
    fn filter(&mut self) -> Filter {
        let (start, mut filter) = (self.at, Filter::default());
        // For each open parenthesis, whether it belongs to a function.
        let mut open: Vec<bool> = Vec::new();
        let mut has_absolute = false;
        while let Some(byte) = self.peek() {
            match byte {
                b']' => break,
                b',' if open.is_empty() => break,
                b'(' => open.push(self.is_after_name(&mut filter)),
                b')' => drop(open.pop()),
                b'@' => {
                    let query = self.query();
                    if query.is_wide() || open.contains(&true) {
                        filter.relative.push(query);
                    }
                    continue;
                }
                b'$' => {
                    let query = self.query();
                    // A comparison with one singular query from the root is cheap.
                    if has_absolute || query.is_wide() || open.contains(&true) {
                        filter.absolute.push(query);
                    }
                    has_absolute = true;
                    continue;
                }
                _ => {}
            }
            self.at += 1;
            if matches!(byte, b'\'' | b'"') {
                self.text(byte);
            }
        }
        filter.length = (self.at - start) as u64;
        filter
    }

    /// Whether a parenthesis here starts function arguments. Regular expression functions are
    /// counted.
    fn is_after_name(&self, filter: &mut Filter) -> bool {
        let before = &self.bytes[..self.at];
        let name = before.iter().rev().take_while(|byte| is_of_name(**byte)).count();
        let name = &before[self.at - name..];
        if [b"match".as_slice(), b"search"].contains(&name) {
            filter.regexes += 1;
        }
        !name.is_empty()
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}
