//! Bounds of stored requests.

use std::time::Duration;

/// Maximum pending and approved requests of one caller.
pub const OPEN_PER_CALLER: usize = 20;

/// Maximum stored requests of one caller. The oldest ended ones make room.
pub const STORED_PER_CALLER: usize = 200;

/// Maximum stored requests of all callers. The oldest ended ones make room.
pub const STORED: usize = 10_000;

/// Maximum standing grants of one caller.
pub const GRANTS_PER_CALLER: usize = 20;

/// Maximum rounds of one call.
pub const ROUNDS: u32 = 32;

/// Maximum demanding policies of one request.
pub const DEMANDS: usize = 100;

/// Maximum length of the texts of a binding together, and of a reason, in bytes.
pub const TEXT_BYTES: usize = 8 * 1024;

/// Maximum length of a preview in bytes.
pub const PREVIEW_BYTES: usize = 64 * 1024;

/// The time during which a denied call cannot be requested again.
pub const COOL_DOWN: Duration = Duration::from_hours(24);

/// The time for the call after its approval, unless `expiresAfter` is shorter.
pub const USABLE_FOR: Duration = Duration::from_hours(24);

/// The time for the next round after a round that asked for input.
pub const INPUT_WITHIN: Duration = Duration::from_mins(10);

/// Maximum time for the outcome of a round.
pub const OUTCOME_WITHIN: Duration = Duration::from_hours(24);

/// The time after the end of a request when its preview is erased.
pub const PREVIEW_KEPT_FOR: Duration = Duration::from_hours(24);

/// The time after the end of a request when it is deleted.
pub const KEPT_FOR: Duration = Duration::from_hours(30 * 24);
