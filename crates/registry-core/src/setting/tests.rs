//! Tests of settings.

use super::*;

fn change(target: &str, setting: Setting) -> SettingChange {
    SettingChange { target: target.parse().unwrap(), setting }
}

fn name(kind: Kind, text: &str) -> Name {
    Name::parse(kind, text).unwrap()
}

/// The owner of an unclaimed name.
fn owner<'a>(settings: &'a Settings, kind: Kind, name: &Name) -> Option<&'a str> {
    settings.owner_by_name(kind, name).or_else(|| settings.owner_of_namespace(name.as_str()))
}

#[test]
fn selector_round_trips_through_text() {
    for text in ["*", "team/*", "com.example.*", "tool/fetch", "server/acme/docs"] {
        assert_eq!(text.parse::<Selector>().unwrap().to_string(), text);
    }
    for bad in ["", "**", "tea*", "/*", "a/b/*", "fetch", "gadget/x", "tool/a/b", "tool/", "ü/*"] {
        assert!(bad.parse::<Selector>().is_err(), "{bad}");
    }
}

#[test]
fn selector_covers_matching_names() {
    let covers = |text: &str, kind, of: &str| {
        text.parse::<Selector>().unwrap().covers(kind, &name(kind, of))
    };
    assert!(covers("*", Kind::Tool, "fetch"));
    assert!(covers("acme/*", Kind::Server, "acme/docs"));
    assert!(!covers("acme/*", Kind::Server, "acmes/docs"));
    assert!(covers("com.acme.*", Kind::Tool, "com.acme.fetch"));
    assert!(!covers("com.acme.*", Kind::Tool, "com.acmefetch"));
    assert!(covers("com.acme.*", Kind::Server, "com.acme/fetch"), "the domain's own names too");
    assert!(!covers("com.acme/*", Kind::Server, "com.acme.fetch"));
    assert!(!covers("com.acme.*", Kind::Server, "com.acme-x/fetch"));
    assert!(covers("acme/*", Kind::Server, "ACME/docs") && covers("Acme.*", Kind::Tool, "acme.x"));
    assert!(covers("tool/fetch", Kind::Tool, "fetch"));
    assert!(!covers("tool/fetch", Kind::Tool, "Fetch"), "names are exact");
    assert!(!covers("tool/fetch", Kind::Schema, "fetch"));
}

#[test]
fn most_specific_setting_applies() {
    let mut settings = Settings::default();
    let mode = |text: &str| Setting::Compatibility(Some(text.parse().unwrap()));
    for (target, text) in [("*", "none"), ("com.*", "forward"), ("com.acme.*", "full")] {
        settings.apply(&change(target, mode(text)), Revision(1));
    }
    let of = |settings: &Settings, text: &str| {
        settings.compatibility(Kind::Tool, &name(Kind::Tool, text)).to_string()
    };
    assert_eq!(of(&settings, "fetch"), "none");
    assert_eq!(of(&settings, "com.fetch"), "forward");
    assert_eq!(of(&settings, "com.acme.fetch"), "full");
    settings.apply(&change("tool/com.acme.fetch", mode("backward")), Revision(2));
    assert_eq!(of(&settings, "com.acme.fetch"), "backward");
    settings.apply(&change("tool/com.acme.fetch", Setting::Compatibility(None)), Revision(3));
    assert_eq!(of(&settings, "com.acme.fetch"), "full");
    assert_eq!(of(&Settings::default(), "fetch"), "backward");
}

#[test]
fn owner_and_archived_settings_apply() {
    let mut settings = Settings::default();
    let (fetch, docs) = (name(Kind::Tool, "fetch"), name(Kind::Server, "acme/docs"));
    let archive = change("tool/fetch", Setting::Archived(true));
    assert!(settings.would_change(&archive));
    settings.apply(&archive, Revision(1));
    assert!(!settings.would_change(&archive));
    assert!(
        settings.is_archived(Kind::Tool, &fetch) && !settings.is_archived(Kind::Schema, &fetch)
    );
    settings.apply(&change("acme/*", Setting::Owner("acme".into())), Revision(2));
    assert_eq!(owner(&settings, Kind::Server, &docs), Some("acme"));
    for other in ["Acme/docs", "acme/x"] {
        assert_eq!(owner(&settings, Kind::Server, &name(Kind::Server, other)), Some("acme"));
    }
    settings.apply(&change("Com.Acme.*", Setting::Owner("com".into())), Revision(2));
    for other in ["com.acme/docs", "com.acme.docs", "COM.acme.a/b"] {
        assert_eq!(
            owner(&settings, Kind::Server, &name(Kind::Server, other)),
            Some("com"),
            "{other}"
        );
    }
    assert_eq!(settings.owner_of_namespace("com.acme/"), Some("com"));
    assert_eq!(settings.owner_of_namespace("com.acmes/"), None);
    assert_eq!(owner(&settings, Kind::Tool, &fetch), None);
    settings.apply(&change("tool/fetch", Setting::Owner("web".into())), Revision(3));
    assert_eq!(owner(&settings, Kind::Tool, &fetch), Some("web"));
    assert!(settings.is_archived(Kind::Tool, &fetch), "other settings stay");
}

#[test]
fn setting_change_serializes_flat() {
    for (text, json) in [
        ("archive tool/fetch", r#"{"target":"tool/fetch","archived":true}"#),
        ("owner of acme/*: web", r#"{"target":"acme/*","owner":"web"}"#),
        ("compatibility of *: full", r#"{"target":"*","compatibility":"full"}"#),
        ("compatibility of *: inherited", r#"{"target":"*","compatibility":null}"#),
    ] {
        let change: SettingChange = serde_json::from_str(json).unwrap();
        assert_eq!(change.to_string(), text);
        assert_eq!(serde_json::to_string(&change).unwrap(), json);
    }
    for bad in
        [r#"{"target":"*"}"#, r#"{"target":"?","archived":true}"#, r#"{"target":"*","mode":"x"}"#]
    {
        assert!(serde_json::from_str::<SettingChange>(bad).is_err(), "{bad}");
    }
}
