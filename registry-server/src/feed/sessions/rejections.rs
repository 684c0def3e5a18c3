//! The last rejections of gateways that have applied nothing since, kept across reconnects.
//!
//! The list is bounded, so a client with many names evicts other entries. A gateway that still rejects a
//! revision sequence it again on each attempt.

use std::{
    collections::{BTreeMap, HashMap},
    mem::size_of,
    sync::Arc,
};

use registry_core::{Diagnostic, follower::Nack};

/// Maximum entries.
const MAX_ENTRIES: usize = 10_000;
/// Approximate maximum bytes of all entries.
const MAX_BYTES: usize = 16 << 20;

/// Name and principal of a gateway.
pub(super) type Name = (String, Arc<str>);

/// Rejections by name and by age.
#[derive(Default)]
pub(super) struct Rejections {
    by_name: HashMap<Name, (u64, Nack)>,
    by_age: BTreeMap<u64, Name>,
    sequence: u64,
    bytes: usize,
}

impl Rejections {
    /// Last rejection of a gateway.
    pub(super) fn get(&self, name: &Name) -> Option<&Nack> {
        self.by_name.get(name).map(|(_, nack)| nack)
    }

    /// Adds a rejection and evicts the oldest ones beyond the limits.
    pub(super) fn insert(&mut self, name: Name, nack: Nack) {
        self.remove(&name);
        self.sequence += 1;
        self.bytes += bytes(&name, &nack);
        self.by_age.insert(self.sequence, name.clone());
        self.by_name.insert(name, (self.sequence, nack));
        while self.by_name.len() > MAX_ENTRIES || self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.by_age.pop_first() else { return };
            self.remove(&oldest);
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, name: &Name) {
        let Some((sequence, nack)) = self.by_name.remove(name) else { return };
        self.by_age.remove(&sequence);
        self.bytes -= bytes(name, &nack);
    }
}

/// Approximate memory of a rejection, in bytes.
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
    fn entry_limit_evicts_the_oldest_rejection() {
        let mut rejections = Rejections::default();
        for number in 0..MAX_ENTRIES {
            rejections.insert(name(number), nack(1));
        }
        rejections.insert(name(0), nack(2));
        rejections.insert(name(MAX_ENTRIES), nack(1));
        assert_eq!(rejections.get(&name(0)), Some(&nack(2)), "it was reported again");
        assert_eq!(rejections.get(&name(1)), None);
        assert!(rejections.get(&name(2)).is_some() && rejections.get(&name(MAX_ENTRIES)).is_some());
        assert_eq!((rejections.by_name.len(), rejections.by_age.len()), (MAX_ENTRIES, MAX_ENTRIES));
    }

    #[test]
    fn byte_limit_evicts_the_oldest_rejection() {
        let mut rejections = Rejections::default();
        for number in 0..MAX_ENTRIES {
            rejections.insert(name(number), nack(12 << 10));
            assert!(rejections.bytes <= MAX_BYTES);
        }
        assert!(
            rejections.get(&name(MAX_ENTRIES - 1)).is_some() && rejections.get(&name(0)).is_none()
        );
        let kept = rejections.by_name.len();
        assert!((1_000..2_000).contains(&kept), "{kept}");
        for number in 0..MAX_ENTRIES {
            rejections.remove(&name(number));
        }
        assert_eq!((rejections.bytes, rejections.by_age.len()), (0, 0));
    }
}
