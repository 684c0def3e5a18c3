//! The identities of budgets, processes and accounts.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::window::WindowId;

/// Maximum length of a subject, in bytes.
pub const MAX_SUBJECT_BYTES: usize = 512;

/// The identity of a budget. New versions of the policy keep it, and with it the spending.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BudgetKey {
    /// The name of the policy.
    pub policy: Arc<str>,
    /// The name of the budget in the policy.
    pub budget: Arc<str>,
    /// The subject whose spending is limited, such as an agent or a team.
    pub subject: Arc<str>,
}

impl fmt::Display for BudgetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.policy, self.budget, self.subject)
    }
}

/// The identity of one start of a gateway process: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u128);

/// The text is not an epoch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an epoch has 32 hexadecimal digits; the text has {length} characters")]
pub struct InvalidEpoch {
    length: usize,
}

impl Epoch {
    /// Wraps random bits.
    pub fn new(bits: u128) -> Self {
        Self(bits)
    }

    /// The random bits.
    pub(crate) fn bits(self) -> u128 {
        self.0
    }

    /// The epoch of an account that replaces one that the ledger closed.
    pub(crate) fn successor(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Whether accounts of a process have this epoch. Random epochs of other processes are further away.
    pub(crate) fn succeeds(self, process: Self) -> bool {
        self.0.wrapping_sub(process.0) <= u128::from(u32::MAX)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Epoch {
    type Err = InvalidEpoch;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let bits = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        bits.map(Self).ok_or(InvalidEpoch { length: text.chars().count() })
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// The identity of an account among those of one gateway. The ledger adds the authenticated principal
/// of the gateway, so that a gateway cannot report for another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AccountKey {
    /// The budget.
    pub budget: BudgetKey,
    /// The window.
    pub window: WindowId,
    /// The epoch of the process that spends.
    pub epoch: Epoch,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoch_round_trips_through_text() {
        for bits in [0, 1, u128::MAX] {
            let epoch = Epoch::new(bits);
            assert_eq!(epoch.to_string().parse(), Ok(epoch));
        }
        for bad in ["", "1", &"g".repeat(32), &"+".repeat(32), &"0".repeat(33)] {
            assert!(bad.parse::<Epoch>().is_err(), "{bad}");
        }
        assert_eq!(Epoch::new(u128::MAX).successor(), Epoch::new(0));
    }

    #[test]
    fn successors_belong_to_their_process() {
        let process = Epoch::new(u128::MAX);
        assert!(process.succeeds(process) && process.successor().succeeds(process));
        assert!(!process.succeeds(process.successor()));
        assert!(!Epoch::new(1 << 32).succeeds(process));
    }
}
