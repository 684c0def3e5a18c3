//! Parameters and cursors: limits, conflicts, and tampering.

use super::Api;

#[tokio::test]
async fn invalid_parameters_are_rejected() {
    let api = Api::start();
    api.publish("com.example/a", "1.0.0").await;
    let long = "x".repeat(300);
    let cases = [
        ("", 200),
        ("limit=1", 200),
        ("limit=100", 200),
        ("limit=&cursor=&search=&updated_since=&version=&include_deleted=", 200),
        ("unknown=1", 200),
        ("limit=0", 422),
        ("limit=101", 422),
        ("limit=-1", 422),
        ("limit=ten", 422),
        ("limit=99999999999999999999", 422),
        ("include_deleted=true", 200),
        ("include_deleted=maybe", 422),
        ("updated_since=2026-01-01T00:00:00Z", 200),
        ("updated_since=2026-01-01T00:00:00.123456Z&include_deleted=true", 200),
        ("updated_since=yesterday", 400),
        ("updated_since=2026-01-01", 400),
        ("updated_since=2026-13-01T00:00:00Z", 400),
        ("updated_since=2026-01-01T00:00:00Z&include_deleted=false", 400),
        (&format!("search={long}"), 422),
        (&format!("version={long}"), 422),
        ("cursor=x", 400),
        ("cursor=com.example%2Fa%3A1.0.0", 400),
        ("cursor=%00%ff", 400),
    ];
    for (query, status) in cases {
        let answer = api.get(&format!("/v0.1/servers?{query}")).await;
        assert_eq!(answer.status.as_u16(), status, "{query}: {answer:?}");
    }
}

#[tokio::test]
async fn default_page_has_thirty_versions() {
    let api = Api::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("many.json");
    let one = |i: usize| serde_json::json!({ "name": format!("n/{i:03}"), "version": "1.0.0", "provides": [] });
    let many: Vec<_> = (0..70).map(one).collect();
    let many = serde_json::json!({ "schemaVersion": "2.0", "servers": many });
    std::fs::write(&file, many.to_string()).unwrap();
    api.registry.apply_file(&file);
    let first = api.get("/v0.1/servers").await;
    assert_eq!(first.listed().len(), 30);
    let mut seen = first.listed();
    let mut cursor = first.cursor();
    while let Some(text) = cursor {
        let page = api.get(&format!("/v0.1/servers?cursor={text}&limit=17")).await;
        seen.extend(page.listed());
        cursor = page.cursor();
    }
    assert_eq!(seen, (0..70).map(|i| format!("n/{i:03}@1.0.0")).collect::<Vec<_>>());
    assert_eq!(api.get("/v0.1/servers?limit=70").await.cursor(), None, "nothing is left");
}

#[tokio::test]
async fn cursor_with_other_filters_is_rejected() {
    let api = Api::start();
    for name in ["a-docs", "b-docs", "c-other", "d-docs"] {
        for version in ["1.0.0", "2.0.0"] {
            api.publish(&format!("com.example/{name}"), version).await;
        }
    }
    let first = api.get("/v0.1/servers?limit=1&version=latest&search=docs").await;
    let cursor = first.cursor().unwrap();
    assert!(
        cursor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'),
        "{cursor}"
    );
    let rest = ["com.example/b-docs@2.0.0", "com.example/d-docs@2.0.0"];
    for more in ["", "&version=latest", "&version=latest&search=DOCS", "&include_deleted=false"] {
        let page = api.get(&format!("/v0.1/servers?limit=5{more}&cursor={cursor}")).await;
        assert_eq!(page.listed(), rest, "{more}");
    }
    for other in [
        "&version=1.0.0",
        "&search=other",
        "&updated_since=2026-01-01T00:00:00Z",
        "&include_deleted=true",
    ] {
        let page = api.get(&format!("/v0.1/servers?limit=5{other}&cursor={cursor}")).await;
        assert_eq!(page.status, 400, "{other}");
    }
    for i in 0..cursor.len() {
        let mut bytes = cursor.clone().into_bytes();
        bytes[i] = if bytes[i] == b'x' { b'y' } else { b'x' };
        let tampered = String::from_utf8(bytes).unwrap();
        let page = api.get(&format!("/v0.1/servers?cursor={tampered}")).await;
        assert_eq!(page.status, 400, "{tampered}");
    }
    let longer = api.get(&format!("/v0.1/servers?cursor={cursor}{}", "A".repeat(5_000))).await;
    assert_eq!(longer.status, 400);
    // A registration during paging neither hides nor repeats an item.
    api.publish("com.example/a-docs", "3.0.0").await;
    let page = api.get(&format!("/v0.1/servers?limit=5&cursor={cursor}")).await;
    assert!(page.listed().ends_with(&rest.map(str::to_owned)), "{:?}", page.listed());
}
