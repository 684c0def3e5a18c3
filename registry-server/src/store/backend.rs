//! The two backends behind one face.
//!
//! Deliberately absent: SQL.

use registry_core::{RegistryId, Revision, SealedCommit};

use super::{AppendError, DatabaseUrl, Error, Listener};

#[derive(Debug, Clone)]
pub(super) enum Backend {}

impl Backend {
    pub(super) async fn open(_url: &DatabaseUrl) -> Result<Self, Error> {
        unimplemented!("under way")
    }
    pub(super) async fn identity(&self) -> Result<RegistryId, Error> {
        unimplemented!("under way")
    }
    pub(super) async fn append(&self, _: Revision, _: &[SealedCommit]) -> Result<(), AppendError> {
        unimplemented!("under way")
    }
    pub(super) async fn listener(&self) -> Result<Listener, Error> {
        unimplemented!("under way")
    }
}
