//! Lists that are serialized lazily, so that a large bill is never held in memory.

use std::io;

use serde::{Serialize, Serializer};

/// A list produced by a function that returns a new iterator.
pub(super) struct Each<F>(pub(super) F);

impl<F, I> Serialize for Each<F>
where
    F: Fn() -> I,
    I: IntoIterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// Writes a value as indented JSON with a final line break.
pub(super) fn write(value: &impl Serialize, mut out: impl io::Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, value)?;
    out.write_all(b"\n")
}
