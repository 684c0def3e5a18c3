//! Crash marks: for each account the most that it can have spent, on the disk of its gateway.
//!
//! The next process on the disk closes the accounts of the last one at their marks.

use std::fmt::Write as _;

use registry_core::{Amount, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    key::{AccountKey, BudgetKey, Epoch},
    message::ProcessOwner,
    window::WindowId,
};

/// The version of the format.
const VERSION: u32 = 1;

/// The mark of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mark {
    /// The account.
    pub account: AccountKey,
    /// The most that the account can have spent.
    pub settled: Amount,
    /// The forced spending, see [`Totals::forced`](crate::Totals::forced).
    #[serde(default)]
    pub forced: Amount,
}

/// The spending of an allowance. The next process may spend only the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpentAllowance {
    /// The budget.
    pub budget: BudgetKey,
    /// The window.
    pub window: WindowId,
    /// The most that all processes on this disk can have spent.
    pub spent: Amount,
    /// The end of the window by the clock of the gateway.
    pub ends_at: Option<Timestamp>,
}

/// The marks of a process. An account without a mark has spent nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessMarks {
    /// The process.
    pub process: Epoch,
    /// The owner of its accounts. `None`: the ledger has not stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<ProcessOwner>,
    /// The time of its last write.
    pub written_at: Timestamp,
    /// The marks.
    pub marks: Vec<Mark>,
    /// The spending of allowances, also by earlier processes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowances: Vec<SpentAllowance>,
}

/// The file cannot be used. Without it, the rights of the last process stay in doubt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MarkError {
    /// The file is torn or was changed.
    #[error("the file of crash marks is damaged: its checksum does not match")]
    Checksum,
    /// The format is newer.
    #[error("the file of crash marks has version {0}, this program reads version {VERSION}")]
    Version(u32),
    /// The content has another form.
    #[error("the file of crash marks is invalid: {0}")]
    Malformed(String),
}

#[derive(Serialize, Deserialize)]
struct Content<P> {
    version: u32,
    processes: P,
}

/// The bytes of a file: a line with the checksum of the rest, and JSON.
pub fn encode_marks(processes: &[ProcessMarks]) -> Vec<u8> {
    // Strings and numbers only, so that serialization cannot fail.
    let content = Content { version: VERSION, processes };
    let content = serde_json::to_string(&content).unwrap_or_default();
    format!("{}\n{content}", checksum(content.as_bytes())).into_bytes()
}

/// Reads the bytes of a file.
pub fn decode_marks(bytes: &[u8]) -> Result<Vec<ProcessMarks>, MarkError> {
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or(MarkError::Checksum)?;
    let (sum, content) = (&bytes[..end], &bytes[end + 1..]);
    if sum != checksum(content).as_bytes() {
        return Err(MarkError::Checksum);
    }
    let malformed = |e: serde_json::Error| MarkError::Malformed(e.to_string());
    let found: Content<serde_json::Value> = serde_json::from_slice(content).map_err(malformed)?;
    if found.version != VERSION {
        return Err(MarkError::Version(found.version));
    }
    let processes: Vec<ProcessMarks> =
        serde_json::from_value(found.processes).map_err(malformed)?;
    let mut marks = processes.iter().flat_map(|process| &process.marks);
    if let Some(mark) = marks.find(|mark| mark.settled.min(mark.forced).is_negative()) {
        let least = mark.settled.min(mark.forced);
        return Err(MarkError::Malformed(format!("the mark {least} is negative")));
    }
    Ok(processes)
}

fn checksum(content: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(content) {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Vec<ProcessMarks> {
        let budget = BudgetKey { policy: "p".into(), budget: "b".into(), subject: "a\"\n".into() };
        let mark = |number: u8| Mark {
            account: AccountKey {
                budget: budget.clone(),
                window: WindowId::new("2026-11"),
                epoch: Epoch::new(u128::from(number)),
            },
            settled: Amount::from_micros(i64::MAX - i64::from(number)),
            forced: Amount::from_micros(i64::from(number)),
        };
        let allowance = |number: u8| SpentAllowance {
            budget: budget.clone(),
            window: WindowId::new("2026-11"),
            spent: Amount::from_micros(i64::from(number)),
            ends_at: Some(Timestamp::EPOCH),
        };
        let process = |number: u8| ProcessMarks {
            process: Epoch::new(u128::from(number)),
            owner: (number > 0)
                .then(|| ProcessOwner { gateway: "g\"\n".to_owned(), proof: vec![number, 255] }),
            written_at: Timestamp::EPOCH,
            marks: (0..number).map(mark).collect(),
            allowances: (0..number).map(allowance).collect(),
        };
        (0..3).map(process).collect()
    }

    #[test]
    fn marks_round_trip_through_file() {
        assert_eq!(decode_marks(&encode_marks(&marks())), Ok(marks()));
        assert_eq!(decode_marks(&encode_marks(&[])), Ok(vec![]));
    }

    #[test]
    fn torn_or_changed_file_is_rejected() {
        let file = encode_marks(&marks());
        for end in 0..file.len() {
            assert_eq!(decode_marks(&file[..end]), Err(MarkError::Checksum), "{end}");
        }
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert_eq!(decode_marks(&changed), Err(MarkError::Checksum), "{at}");
        }
    }

    #[test]
    fn other_content_with_checksum_is_rejected() {
        let file = |content: &str| format!("{}\n{content}", checksum(content.as_bytes()));
        let newer = decode_marks(file(r#"{"version":2,"processes":{}}"#).as_bytes());
        assert_eq!(newer, Err(MarkError::Version(2)));
        let negative = String::from_utf8(encode_marks(&marks()[1..2])).unwrap();
        let (_, negative) = negative.split_once('\n').unwrap();
        let negative = negative.replace("\"9223", "\"-9223");
        for content in ["", "[]", r#"{"version":1,"processes":[{}]}"#, &negative] {
            let found = decode_marks(file(content).as_bytes());
            assert!(matches!(found, Err(MarkError::Malformed(_))), "{content}: {found:?}");
        }
    }
}
