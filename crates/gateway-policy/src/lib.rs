//! The decisions of the gateway about callers and requests: authorization, validation rules and
//! quotas.
//!
//! The crate is pure: it performs no I/O and reads no clock. Only [`authorize`] creates a
//! [`Permit`].

mod buffers;
mod identity;
mod outcome;
mod permit;
mod quota;
mod rates;
mod rules;
mod subject;
mod traces;
mod validation;

pub use self::{
    buffers::{BufferPool, BufferReservation},
    identity::{
        AgentReference, AuthMethod, CallerIdentity, CredentialOrigin, Principal, VerifiedCredential,
    },
    outcome::CallOutcome,
    permit::{
        Authorized, Denial, Facts, Permit, PolicyFinding, StaleCatalog, Standing, authorize,
        authorize_composition, check_standing, format_age,
    },
    quota::{QuotaExceeded, QuotaGuard, QuotaKey, QuotaKind, Quotas},
    rates::{CountedRate, RateExceeded, Rates},
    rules::{ToolSelector, ToolValidation, ValidationModes, ValidationRules},
    subject::SubjectToken,
    traces::{TraceTotals, Traces},
    validation::{Access, RuntimeValidation, ValidationMode},
};
