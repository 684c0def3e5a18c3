//! The decisions of the gateway about callers and requests: authorization, validation rules and
//! quotas.
//!
//! The crate is pure: it performs no I/O and reads no clock. Only [`authorize`] creates a
//! [`Permit`].

mod buffers;
mod identity;
mod outcome;
mod permit;
mod rules;
mod quota;
mod subject;
mod validation;

pub use self::{
    buffers::{BufferReservation, BufferPool},
    identity::{AuthMethod, CallerIdentity, AgentReference},
    outcome::CallOutcome,
    permit::{
        Authorized, Denial, Facts, PolicyFinding, Permit, StaleCatalog, Standing, authorize,
        authorize_composition, check_standing, format_age,
    },
    rules::{ValidationRules, ValidationModes, ToolSelector, ToolValidation},
    quota::{QuotaExceeded, QuotaKey, QuotaKind, QuotaGuard, Quotas},
    subject::SubjectToken,
    validation::{Access, ValidationMode, RuntimeValidation},
};
