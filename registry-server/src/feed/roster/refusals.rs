//! The last rejections of gateways that have applied nothing since, kept across reconnects.
//!
//! The list is bounded, so a client with many names evicts other entries. A gateway that still rejects a
//! revision reports it again on each attempt.

use std::{
    collections::{BTreeMap, HashMap},
    mem::size_of,
    sync::Arc,
};

use registry_core::{Diagnostic, follower::Nack};

/// Most that are remembered.
const MOST: usize = 10_000;
/// About how many bytes of them.
const BYTES: usize = 16 << 20;

/// A gateway's name and principal.
pub(super) type Name = (String, Arc<str>);

/// By name, and by when they were said last.
#[derive(Default)]
pub(super) struct Refusals {
    by_name: HashMap<Name, (u64, Nack)>,
    by_age: BTreeMap<u64, Name>,
    said: u64,
    bytes: usize,
}

impl Refusals {
    /// What this gateway refused last.
    pub(super) fn get(&self, name: &Name) -> Option<&Nack> {
        self.by_name.get(name).map(|(_, nack)| nack)
    }

    /// Remembers a refusal, and forgets the oldest where there are too many.
    pub(super) fn insert(&mut self, name: Name, nack: Nack) {
        self.remove(&name);
        self.said += 1;
        self.bytes += bytes(&name, &nack);
        self.by_age.insert(self.said, name.clone());
        self.by_name.insert(name, (self.said, nack));
        while self.by_name.len() > MOST || self.bytes > BYTES {
            let Some((_, oldest)) = self.by_age.pop_first() else { return };
            self.remove(&oldest);
        }
    }

    /// Forgets one.
    pub(super) fn remove(&mut self, name: &Name) {
        let Some((said, nack)) = self.by_name.remove(name) else { return };
        self.by_age.remove(&said);
        self.bytes -= bytes(name, &nack);
    }
}

/// About how much memory a refusal takes.
fn bytes((gateway, principal): &Name, Nack { message, diagnostics, .. }: &Nack) -> usize {
    let found = |Diagnostic { pointer, message, help, .. }: &Diagnostic| {
        size_of::<Diagnostic>()
            + pointer.len()
            + message.len()
            + help.as_ref().map_or(0, String::len)
    };
    let names = 2 * (gateway.len() + principal.len() + size_of::<Name>());
    names + size_of::<Nack>() + message.len() + diagnostics.iter().map(found).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use registry_core::Revision;

    use super::*;

    fn name(number: usize) -> Name {
        (format!("g{number}"), "p".into())
    }

    fn nack(bytes: usize) -> Nack {
        Nack { revision: Revision(1), message: "x".repeat(bytes), diagnostics: Vec::new() }
    }

    #[test]
    fn past_so_many_the_oldest_is_forgotten() {
        let mut refusals = Refusals::default();
        for number in 0..MOST {
            refusals.insert(name(number), nack(1));
        }
        refusals.insert(name(0), nack(2));
        refusals.insert(name(MOST), nack(1));
        assert_eq!(refusals.get(&name(0)), Some(&nack(2)), "it was said again");
        assert_eq!(refusals.get(&name(1)), None);
        assert!(refusals.get(&name(2)).is_some() && refusals.get(&name(MOST)).is_some());
        assert_eq!((refusals.by_name.len(), refusals.by_age.len()), (MOST, MOST));
    }

    #[test]
    fn past_so_many_bytes_the_oldest_is_forgotten() {
        let mut refusals = Refusals::default();
        for number in 0..MOST {
            refusals.insert(name(number), nack(12 << 10));
            assert!(refusals.bytes <= BYTES);
        }
        assert!(refusals.get(&name(MOST - 1)).is_some() && refusals.get(&name(0)).is_none());
        let kept = refusals.by_name.len();
        assert!((1_000..2_000).contains(&kept), "{kept}");
        for number in 0..MOST {
            refusals.remove(&name(number));
        }
        assert_eq!((refusals.bytes, refusals.by_age.len()), (0, 0));
    }
}
