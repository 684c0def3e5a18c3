//! The follower's side of the Sync stream, for whoever keeps a copy of a registry: gateways and
//! relays.
//!
//! It connects to one of several servers, says what the follower says, hands it what the server says,
//! and opens the stream anew when it has broken. Where something does not decode or verify it is
//! answered with a NACK. Where there are several servers the next one is tried at once; only when all
//! have failed is the wait longer each time.

mod address;
mod credentials;
mod follow;
mod follower;
mod registry_clock;
mod session;
mod stream;
mod timing;

pub use address::{InvalidAddress, MOST, addresses};
pub use credentials::{Credentials, Token};
pub use follow::{Follow, Heard, News, Refusal, Taken};
pub use follower::Follower;
pub use registry_clock::{RegistryClock, told_age};
pub use session::{reason_of, shortened};
pub use stream::{NotSent, Stream};
pub use timing::Timing;
