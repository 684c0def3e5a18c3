//! Under way.
use registry_core::{Catalog, ChainHash, RegistryId, Revision, SealedCommit};

use super::{
    CommitQuery, EntityEvent, Error, HistoryQuery, StoredCommit, StoredCommitHeader,
    backend::Backend,
};

pub(super) async fn load(_: &Backend, _: &RegistryId) -> Result<Catalog, Error> {
    unimplemented!("under way")
}
pub(super) async fn commits_after(_: &Backend, _: (Revision, ChainHash), _: usize) -> Result<Vec<SealedCommit>, Error> {
    unimplemented!("under way")
}
pub(super) async fn find_request(_: &Backend, _: &str) -> Result<Option<StoredCommitHeader>, Error> {
    unimplemented!("under way")
}
pub(super) async fn commit(_: &Backend, _: &RegistryId, _: Revision) -> Result<Option<StoredCommit>, Error> {
    unimplemented!("under way")
}
pub(super) async fn list_commits(_: &Backend, _: &CommitQuery) -> Result<Vec<StoredCommit>, Error> {
    unimplemented!("under way")
}
pub(super) async fn entity_history(_: &Backend, _: &HistoryQuery) -> Result<Vec<EntityEvent>, Error> {
    unimplemented!("under way")
}
pub(super) async fn check(_: &Backend) -> Result<(), Error> {
    unimplemented!("under way")
}
