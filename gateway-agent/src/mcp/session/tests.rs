//! The table's bound, its binding to callers, and what ends a session.

use http::HeaderValue;

use super::*;

fn headers(id: &str) -> HeaderMap {
    HeaderMap::from_iter([(SESSION_HEADER, HeaderValue::from_str(id).unwrap())])
}

fn claim(name: &str) -> HeaderClaim {
    HeaderClaim::Agent { name: name.into(), version: None }
}

fn open(sessions: &Sessions, name: &str) -> String {
    sessions.open(claim(name), None).unwrap()
}

fn is_open(sessions: &Sessions, id: &str, name: &str) -> bool {
    sessions.find(&headers(id), &claim(name)).is_ok()
}

#[test]
fn ids_are_long_random_and_visible_ascii() {
    let sessions = Sessions::new(10);
    let (a, b) = (open(&sessions, "x"), open(&sessions, "x"));
    assert_ne!(a, b);
    assert!(a.len() == 64 && a.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn a_session_is_its_openers_own() {
    let sessions = Sessions::new(10);
    let id = open(&sessions, "a");
    assert!(is_open(&sessions, &id, "a"));
    assert!(!is_open(&sessions, &id, "b"));
    assert!(sessions.close(&headers(&id), &claim("b")).is_err());
    assert!(is_open(&sessions, &id, "a"), "nobody else can end it");
    sessions.close(&headers(&id), &claim("a")).unwrap();
    assert!(!is_open(&sessions, &id, "a"));
}

#[test]
fn requests_must_name_one_session() {
    let sessions = Sessions::new(10);
    let id = open(&sessions, "a");
    let find = |headers: &HeaderMap| sessions.find(headers, &claim("a")).map(|_| ());
    assert_eq!(find(&HeaderMap::new()), Err(Rejection::SessionRequired));
    assert_eq!(find(&headers("nope")), Err(Rejection::SessionUnknown));
    let mut two = headers(&id);
    two.append(SESSION_HEADER, HeaderValue::from_str(&id).unwrap());
    assert_eq!(find(&two), Err(Rejection::SessionUnknown));
}

#[test]
fn when_full_the_longest_idle_gives_way() {
    let sessions = Sessions::new(3);
    let ids: Vec<_> = (0..3).map(|_| open(&sessions, "a")).collect();
    std::thread::sleep(Duration::from_millis(5));
    assert!(is_open(&sessions, &ids[0], "a"));
    assert!(is_open(&sessions, &ids[2], "a"));
    let fresh = open(&sessions, "a");
    let left: Vec<_> = ids.iter().map(|id| is_open(&sessions, id, "a")).collect();
    assert_eq!(left, [true, false, true]);
    assert!(is_open(&sessions, &fresh, "a"));
    assert_eq!(sessions.table.read().unwrap().len(), 3);
}

#[test]
fn idle_sessions_expire() {
    let mut sessions = Sessions::new(2);
    // The clock starts an hour ago, so a session that was used at its start is long idle.
    sessions.started = Instant::now().checked_sub(Duration::from_hours(1)).unwrap();
    let id = open(&sessions, "a");
    let session = sessions.find(&headers(&id), &claim("a")).unwrap();
    session.used_ms.store(0, Ordering::Relaxed);
    assert!(!is_open(&sessions, &id, "a"));
    assert!(sessions.table.read().unwrap().is_empty());
}

#[tokio::test]
async fn only_the_newest_stream_is_served_and_none_after_the_end() {
    let sessions = Sessions::new(2);
    let id = open(&sessions, "a");
    let session = sessions.find(&headers(&id), &claim("a")).unwrap();
    let mut first = session.take_stream();
    assert!(!first.has_changed().unwrap());
    let mut second = session.take_stream();
    first.changed().await.unwrap();
    assert!(!second.has_changed().unwrap());
    drop(session);
    sessions.close(&headers(&id), &claim("a")).unwrap();
    assert!(second.changed().await.is_err(), "the session is gone");
}

#[tokio::test]
async fn a_call_can_be_cancelled_while_it_runs() {
    let sessions = Sessions::new(2);
    let id = open(&sessions, "a");
    let session = sessions.find(&headers(&id), &claim("a")).unwrap();
    let (one, two) = (session.begin("1"), session.begin("\"1\""));
    session.cancel("\"1\"");
    session.cancel("7");
    two.cancelled().await;
    assert!(!one.token.is_cancelled());
    drop((one, two));
    assert!(session.calls().is_empty());
}
