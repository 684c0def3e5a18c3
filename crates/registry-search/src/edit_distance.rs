//! Edit distances of one word to the terms of an ordered dictionary: insertions, deletions,
//! substitutions and transpositions count one each.
//!
//! Terms with a common prefix share the rows of the computation. A prefix without a possible
//! match is skipped with all its terms, so only a small part of the dictionary is visited.

/// The result of a comparison with a term.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Within the allowed distance.
    Within,
    /// Too far, but longer terms with this prefix may match.
    Far,
    /// Too far, like all terms before this text.
    Beyond(String),
    /// Too far, like all following terms.
    End,
}

/// A traversal of ordered terms.
pub(super) struct EditDistance {
    word: Vec<char>,
    /// The maximum distance.
    most: usize,
    /// The processed characters of the last term.
    path: Vec<char>,
    /// For each prefix of the path, its distances to the prefixes of the word.
    rows: Vec<Vec<usize>>,
}

impl EditDistance {
    pub(super) fn new(word: &str, most: usize) -> Self {
        let word: Vec<char> = word.chars().collect();
        let rows = vec![(0..=word.len()).collect()];
        Self { word, most, path: Vec::new(), rows }
    }

    /// Compares the next term.
    pub(super) fn walk(&mut self, term: &str) -> Verdict {
        let shared = self.path.iter().zip(term.chars()).take_while(|(a, b)| **a == *b).count();
        self.path.truncate(shared);
        self.rows.truncate(shared + 1);
        for c in term.chars().skip(shared) {
            self.step(c);
            let row = &self.rows[self.path.len()];
            if row.iter().all(|distance| *distance > self.most) {
                return successor(&self.path).map_or(Verdict::End, Verdict::Beyond);
            }
        }
        let distance = self.rows[self.path.len()][self.word.len()];
        if distance <= self.most { Verdict::Within } else { Verdict::Far }
    }

    fn step(&mut self, c: char) {
        let (word, above) = (&self.word, &self.rows[self.path.len()]);
        let mut row = Vec::with_capacity(word.len() + 1);
        row.push(above[0] + 1);
        for (i, letter) in word.iter().enumerate() {
            let substituted = above[i] + usize::from(*letter != c);
            let mut least = substituted.min(above[i + 1] + 1).min(row[i] + 1);
            if let Some(before) = self.path.last()
                && i > 0
                && word[i - 1] == c
                && letter == before
            {
                least = least.min(self.rows[self.path.len() - 1][i - 1] + 1);
            }
            row.push(least);
        }
        self.path.push(c);
        self.rows.push(row);
    }
}

/// The first text after all texts with this prefix.
fn successor(path: &[char]) -> Option<String> {
    let (last, rest) = path.split_last()?;
    let next = (*last..=char::MAX).nth(1);
    match next {
        Some(next) => Some(rest.iter().copied().chain([next]).collect()),
        None => successor(rest),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A direct implementation of the definition.
    fn distance(a: &[char], b: &[char]) -> usize {
        let (Some((x, a1)), Some((y, b1))) = (a.split_last(), b.split_last()) else {
            return a.len().max(b.len());
        };
        let mut least = (distance(a1, b1) + usize::from(x != y))
            .min(distance(a1, b) + 1)
            .min(distance(a, b1) + 1);
        if let (Some((x2, a2)), Some((y2, b2))) = (a1.split_last(), b1.split_last())
            && (x, x2) == (y2, y)
        {
            least = least.min(distance(a2, b2) + 1);
        }
        least
    }

    proptest! {
        #[test]
        fn traversal_matches_exhaustive_search(
            word in "[abc]{0,5}",
            terms in proptest::collection::btree_set("[abcd\u{d7ff}\u{10ffff}]{1,6}", 0..60),
            most in 0_usize..3,
        ) {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected: Vec<_> = terms
                .iter()
                .filter(|term| distance(&chars(term), &chars(&word)) <= most)
                .collect();
            let (mut near, mut found, mut from) = (EditDistance::new(&word, most), Vec::new(), String::new());
            while let Some(term) = terms.range(from.clone()..).next() {
                from = match near.walk(term) {
                    Verdict::Within => { found.push(term); term.clone() + "\0" }
                    Verdict::Far => term.clone() + "\0",
                    Verdict::Beyond(next) => { prop_assert!(next > *term); next }
                    Verdict::End => break,
                };
            }
            prop_assert_eq!(found, expected);
        }
    }
}
