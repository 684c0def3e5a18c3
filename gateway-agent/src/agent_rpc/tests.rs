//! The surface with its real router and a scripted upstream.

mod aio;
mod calls;
mod governed_paths;
pub(crate) mod harness;
