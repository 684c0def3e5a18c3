//! Applying batches: what is stored, what is refused, and what a retry is told.

use registry_proto::v1::{self, Effect, Kind, LifecycleState};
use tonic::Code;

use crate::{
    follower::Follower,
    harness::{
        TestServer, batch, findings, key, new_schema, reason, register, schema, schema_of, server,
        set_lifecycle,
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_applied_can_be_read_and_followed() {
    let registry = TestServer::start().await;
    let mut follower = Follower::new(&registry).await;
    let mut client = registry.registry().await;

    let applied = client.apply(new_schema("A")).await.unwrap().into_inner();
    assert_eq!((applied.revision, applied.committed), (1, true));
    assert_eq!(applied.plan[0].effect(), Effect::Register);

    let get = v1::GetRequest { key: Some(key(Kind::Schema, "A", "1.0.0")), include_document: true };
    let got = client.get(get).await.unwrap().into_inner();
    let record = got.record.unwrap();
    assert_eq!((got.revision, record.registered_revision, &*record.owner), (1, 1, "ann"));
    assert_eq!(record.digest, applied.plan[0].digest);

    follower.reach(1).await;
    assert_eq!(follower.catalog.unwrap().len(), 1);
}
