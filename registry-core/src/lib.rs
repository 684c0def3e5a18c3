//! The registry domain.
