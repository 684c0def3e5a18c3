//! Compensation of interrupted sagas.

use registry_core::{Catalog, RegistryId, spec::Saga};
use tokio::sync::watch;

use super::{
    nested::{nested, slow_to_undo},
    *,
};
use crate::{ResumedSaga, SagaHost, recover};

#[derive(Debug)]
struct Host {
    composed: Composed,
    catalog: watch::Sender<Arc<Catalog>>,
}

impl SagaHost for Host {
    fn find(&self, tool: &Key, pointer: &str, _: &CallerIdentity) -> Option<ResumedSaga> {
        let plan = Arc::clone(&self.composed.plans[tool.name.as_str()]);
        let saga: Arc<Saga> = plan.saga(pointer)?;
        let (runner, owner) = (self.composed.detached(), self.composed.owner.clone());
        let response_bytes = self.composed.response_bytes;
        Some(ResumedSaga { plan, saga, runner, owner, servers: Vec::new(), response_bytes })
    }

    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    fn has_catalog(&self) -> bool {
        true
    }

    fn is_reachable(&self, _: &Key) -> bool {
        true
    }
}

impl Composed {
    /// Compensates the sagas in progress, as after a crash.
    fn recover(&self) {
        let catalog = Catalog::empty(RegistryId::new("r"));
        let host = Host { composed: self.clone(), catalog: watch::channel(Arc::new(catalog)).0 };
        let host: Arc<dyn SagaHost> = Arc::new(host);
        recover(&self.state, &host);
    }

    fn sagas(&self) -> Vec<Value> {
        let listed = self.state.sagas().list(|list| serde_json::to_value(list).unwrap());
        listed["sagas"].as_array().unwrap().clone()
    }
}

#[tokio::test]
async fn interrupted_inner_saga_is_compensated_first() {
    let spec = nested(json!({ "pattern": slow_to_undo() }), json!({}));
    let composed = Composed::with_journal(vec![composition("outer", spec)]);
    let interrupted = async {
        composed.upstream.until(|seen| seen.count("hold") == 1).await;
        composed.recover();
        composed.upstream.until(|seen| seen.count("keep") >= 2).await;
    };
    // The caller is still connected and gets the outcome.
    let (failure, ()) = join!(composed.failure("outer", json!({})), interrupted);
    insta::assert_snapshot!(
        failure.2,
        @"the saga failed at `in`; the outcome of `in` is unknown and was not compensated, because \
          the step does not set `compensateOnUnknown`; the steps before it were compensated: the \
          saga failed at `w`; the outcome of `w` is unknown and was not compensated, because the \
          step does not set `compensateOnUnknown`; the steps before it were compensated: the \
          gateway stopped while the saga was running"
    );
    assert_eq!(undone(&composed)[..2], [json!({ "inner": true }), json!({ "outer": true })]);
}

/// The parent keeps their order if the compensation itself is interrupted.
#[tokio::test]
async fn saga_of_a_compensation_has_interrupted_saga_as_parent() {
    let undo = saga(&[saga_step("u", "echo", json!({}))], json!({}));
    let steps = [
        saga_step("a", "echo", json!({ "compensate": { "pattern": undo } })),
        saga_step("w", "hold", json!({})),
    ];
    let composed = Composed::with_journal(vec![composition("outer", saga(&steps, json!({})))]);
    let recovered = async {
        composed.upstream.until(|seen| seen.count("hold") == 1).await;
        composed.recover();
    };
    let input = json!({});
    let ((result, _), ()) = join!(composed.run("outer", None, &input), recovered);
    assert!(result.is_err());
    let sagas = composed.sagas();
    let (inner, outer): (Vec<_>, Vec<_>) =
        sagas.iter().partition(|saga| saga["pointer"] != "/saga");
    assert_eq!(outer.len(), 1, "{sagas:?}");
    assert!(
        !inner.is_empty() && inner.iter().all(|saga| saga["parent"] == outer[0]["id"]),
        "{sagas:?}"
    );
}

#[tokio::test]
async fn compensated_saga_stays_listed() {
    let steps =
        [saga_step("a", "echo", undone_by("keep", json!(null))), saga_step("b", "fail", json!({}))];
    let composed = Composed::with_journal(vec![composition("order", saga(&steps, json!({})))]);
    composed.failure("order", json!({})).await;
    assert_eq!(composed.sagas()[0]["status"], "compensated");
}
