//! An entry of `records`: the catalog's data about an entity apart from its document.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    catalog::Record,
    chain::Revision,
    document::Digest,
    lifecycle::{InvalidLifecycleState, Lifecycle, Notice},
    timestamp::Timestamp,
};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct WrittenRecord<'a> {
    #[serde(borrow)]
    pub(super) key: Cow<'a, str>,
    pub(super) digest: Digest,
    #[serde(borrow)]
    pub(super) owner: Cow<'a, str>,
    pub(super) registered: Revision,
    pub(super) registered_at: Timestamp,
    /// Absent if the entity has been active since its registration.
    #[serde(default, skip_serializing_if = "Option::is_none", borrow)]
    lifecycle: Option<WrittenLifecycle<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenLifecycle<'a> {
    #[serde(borrow)]
    state: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    notice: Option<Cow<'a, Notice>>,
    revision: Revision,
    changed_at: Timestamp,
}

impl<'a> WrittenRecord<'a> {
    pub(super) fn new(record: &'a Record) -> Self {
        let Record { document, owner, registered, registered_at, lifecycle } = record;
        let untouched = *lifecycle == Lifecycle::active((*registered, *registered_at));
        Self {
            key: document.key().to_string().into(),
            digest: document.digest(),
            owner: owner.as_ref().into(),
            registered: *registered,
            registered_at: *registered_at,
            lifecycle: (!untouched).then(|| WrittenLifecycle {
                state: lifecycle.state.as_str().into(),
                notice: lifecycle.notice.as_deref().map(Cow::Borrowed),
                revision: lifecycle.revision,
                changed_at: lifecycle.changed_at,
            }),
        }
    }

    pub(super) fn lifecycle(&self) -> Result<Lifecycle, InvalidLifecycleState> {
        let Some(written) = &self.lifecycle else {
            return Ok(Lifecycle::active((self.registered, self.registered_at)));
        };
        let WrittenLifecycle { state, notice, revision, changed_at } = written;
        let notice = notice.as_deref().cloned().unwrap_or_default();
        Ok(Lifecycle::new(state.parse()?, notice, (*revision, *changed_at)))
    }
}
