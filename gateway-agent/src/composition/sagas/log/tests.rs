//! A disk that is full: nothing is said to be written, what has happened is kept for later, and no id
//! is free before the disk knows why. A journal that grows: it is written anew.

use serde_json::json;

use super::*;
use crate::{
    composition::sagas::{Begun, Status, journal_path},
    identity::HeaderClaim,
};

fn began() -> Began {
    Began {
        tool: "tool/t@1.0.0".parse().unwrap(),
        pointer: String::new(),
        instance: Some("7".to_owned()),
        parent: None,
        claim: HeaderClaim::Absent,
        input: json!({}),
    }
}

fn end(status: Status) -> End {
    End { status, failed_step: None, error: None, steps: Vec::new(), output: None }
}

#[tokio::test]
async fn an_id_is_not_free_before_the_disk_knows_that_its_saga_was_undone() {
    let journal = Some(Journal::full());
    let sagas = Arc::new(Sagas { journal, ..Sagas::default() });
    let Ok(Begun::First(log)) = sagas.begin(began()) else { panic!("it is the first") };
    log.note(Event::Acted { step: 0, result: json!("kept") });
    let error = log.write(Event::Acting { step: 1, input: json!({}) }).await.unwrap_err();
    assert!(error.contains("No space"), "{error}");
    assert_eq!(log.pending().len(), 2, "how it began and what was done, not what was to be done");
    assert!(log.end(end(Status::Completed)).await.is_err());
    log.write(Event::Failed { step: None, error: json!({}), is_unknown: false }).await.unwrap_err();
    assert_eq!(log.history().result(0), Some(&json!("kept")), "it is still needed to undo it");
    assert!(log.history().ended().is_none());
    assert!(log.end(end(Status::Compensated)).await.is_err());
    assert!(matches!(sagas.begin(began()), Ok(Begun::Known(_))));
}

#[tokio::test]
async fn what_could_not_even_begin_is_forgotten() {
    let journal = Some(Journal::full());
    let sagas = Arc::new(Sagas { journal, ..Sagas::default() });
    let Ok(Begun::First(log)) = sagas.begin(began()) else { panic!("it is the first") };
    let mut ended = log.ended();
    log.write(Event::Acting { step: 0, input: json!({}) }).await.unwrap_err();
    assert!(!log.is_on_disk());
    log.abandon(end(Status::Compensated));
    let told = ended.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(told.unwrap().status, Status::Compensated);
    assert_eq!(sagas.lock().iter().count(), 0);
    assert!(matches!(sagas.begin(began()), Ok(Begun::First(_))), "its id is free");

    let dir = tempfile::tempdir().unwrap();
    let sagas = Arc::new(Sagas::open(&dir.path().join("cache")).unwrap());
    let Ok(Begun::First(log)) = sagas.begin(began()) else { panic!("it is the first") };
    log.write(Event::Acting { step: 0, input: json!({}) }).await.unwrap();
    assert!(log.is_on_disk());
}

#[tokio::test]
async fn what_cannot_be_tried_again_now_may_be_later() {
    let journal = Some(Journal::full());
    let sagas = Arc::new(Sagas { journal, ..Sagas::default() });
    let Ok(Begun::First(log)) = sagas.begin(began()) else { panic!("it is the first") };
    log.note(Event::Ended(end(Status::CompensationFailed)));
    assert!(log.again(end(Status::CompensationFailed)).await.is_err());
    assert!(log.history().ended().is_some(), "nobody undoes it");
}

#[tokio::test]
async fn a_journal_is_written_anew_once_it_is_much_larger_than_what_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let sagas = Arc::new(Sagas::open(&cache).unwrap());
    let Ok(Begun::First(log)) = sagas.begin(began()) else { panic!("it is the first") };
    let written = async || {
        log.write(Event::Again).await.unwrap();
        let table = sagas.lock();
        (table.written, table.anew)
    };
    let length =
        || usize::try_from(std::fs::metadata(journal_path(&cache)).unwrap().len()).unwrap();
    let (_, anew) = written().await;
    let (line, _) = written().await;
    assert_eq!(length(), anew + line, "what was there at the start is not there any more");
    assert_eq!(written().await, (2 * line, anew));
    let most = 16 * 1_048_576 + 2 * anew;
    sagas.lock().written = most - line;
    assert_eq!(written().await, (most, anew));
    assert_eq!(length(), anew + 3 * line);
    assert_eq!(written().await, (0, anew));
    assert_eq!(written().await, (line, anew));
    assert_eq!(length(), anew + line);
}
