//! Corruption of files on disk.

use std::path::Path;

use crate::rng::Rng;

/// The corruption of a cache file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Corruption {
    /// Nothing.
    Nothing,
    /// Some bits are flipped.
    Bits,
    /// The end is truncated.
    Torn,
    /// The file is empty.
    Empty,
    /// One digit of a revision is changed.
    Edited,
}

impl Corruption {
    pub(crate) const ALL: [Self; 5] =
        [Self::Nothing, Self::Bits, Self::Torn, Self::Empty, Self::Edited];

    /// Corrupts a file, if it exists. Returns whether it changed.
    pub(crate) fn file(self, path: &Path, rng: &mut Rng) -> bool {
        let Ok(before) = std::fs::read(path) else { return false };
        let mut bytes = before.clone();
        match self {
            Self::Nothing => {}
            Self::Bits => {
                for _ in 0..rng.between(1, 8) {
                    let (at, bit) = (rng.below(bytes.len()), rng.below(8));
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << bit;
                    }
                }
            }
            Self::Torn => bytes.truncate(rng.below(bytes.len())),
            Self::Empty => bytes.clear(),
            Self::Edited => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let at = text.match_indices("\"registered\":").map(|(at, word)| at + word.len());
                let places: Vec<usize> = at.collect();
                if !places.is_empty() {
                    let digit = &mut bytes[*rng.pick(&places)];
                    *digit = if *digit == b'1' { b'2' } else { b'1' };
                }
            }
        }
        let is_changed = bytes != before;
        if is_changed {
            std::fs::write(path, bytes).expect("a file of our own can be written");
        }
        is_changed
    }
}
