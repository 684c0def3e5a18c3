//! Windows of the calendar in time zones, and of fixed length.

use super::*;

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn rule(text: &str, time_zone: Option<&str>) -> WindowRule {
    WindowRule::parse(text, time_zone, None).unwrap()
}

/// The id, the start and the end of the window at a time.
fn window(rule: &WindowRule, time: &str) -> [String; 3] {
    let Window { id, start, end } = rule.window_at(at(time)).unwrap();
    let text = |time: Option<Timestamp>| {
        time.map_or("none".to_owned(), |time| time.to_string().replace(".000Z", "Z"))
    };
    [id.to_string(), text(start), text(end)]
}

#[test]
fn total_window_has_no_end() {
    assert_eq!(window(&rule("total", None), "2026-11-26T12:00:00Z"), ["total", "none", "none"]);
}

#[test]
fn calendar_windows_start_at_local_midnight() {
    for (text, zone, time, expected) in [
        (
            "day",
            "UTC",
            "2026-11-26T12:00:00Z",
            ["2026-11-26", "2026-11-26T00:00:00Z", "2026-11-27T00:00:00Z"],
        ),
        (
            "month",
            "Europe/Berlin",
            "2026-10-31T23:30:00Z",
            ["2026-11", "2026-10-31T23:00:00Z", "2026-11-30T23:00:00Z"],
        ),
        (
            "week",
            "America/New_York",
            "2027-01-01T12:00:00Z",
            ["2026-W53", "2026-12-28T05:00:00Z", "2027-01-04T05:00:00Z"],
        ),
        (
            "year",
            "Asia/Kathmandu",
            "2026-12-31T18:15:00Z",
            ["2027", "2026-12-31T18:15:00Z", "2027-12-31T18:15:00Z"],
        ),
        (
            "month",
            "UTC",
            "2028-02-29T23:59:59.999Z",
            ["2028-02", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"],
        ),
    ] {
        assert_eq!(window(&rule(text, Some(zone)), time), expected, "{text} in {zone}");
    }
}

#[test]
fn day_follows_clock_changes() {
    let berlin = rule("day", Some("Europe/Berlin"));
    let spring = ["2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"];
    assert_eq!(window(&berlin, "2026-03-29T12:00:00Z"), spring);
    let autumn = ["2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"];
    assert_eq!(window(&berlin, "2026-10-25T12:00:00Z"), autumn);
}

#[test]
fn midnight_may_be_skipped_or_repeated() {
    // Clocks went from 00:00 to 01:00.
    let sao_paulo = rule("day", Some("America/Sao_Paulo"));
    let skipped = ["2018-11-04", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"];
    assert_eq!(window(&sao_paulo, "2018-11-04T03:00:00Z"), skipped);
    // Clocks went from 00:01 on the seventh back to 23:01 on the sixth.
    let st_johns = rule("day", Some("America/St_Johns"));
    let repeated = ["2010-11-07", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"];
    assert_eq!(window(&st_johns, "2010-11-07T03:00:00Z"), repeated);
    // The thirtieth did not exist.
    let apia = rule("day", Some("Pacific/Apia"));
    let before = ["2011-12-29", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"];
    assert_eq!(window(&apia, "2011-12-30T09:59:59Z"), before);
    assert_eq!(window(&apia, "2011-12-30T10:00:00Z")[0], "2011-12-31");
}

#[test]
fn windows_follow_each_other_without_gaps() {
    for zone in ["Europe/Berlin", "America/St_Johns", "America/Toronto", "Pacific/Apia", "UTC"] {
        for text in ["day", "week", "month", "year"] {
            let rule = rule(text, Some(zone));
            for start in ["1919-03-01T00:00:00Z", "2010-10-20T00:00:00Z", "2011-12-20T00:00:00Z"] {
                let mut window = rule.window_at(at(start)).unwrap();
                for _ in 0..40 {
                    let end = window.end.unwrap();
                    let last = Timestamp::from_millis(end.as_millis() - 1);
                    assert_eq!(rule.window_at(last).unwrap(), window, "{zone} {text} {last}");
                    let next = rule.window_at(end).unwrap();
                    assert_eq!(next.start, Some(end), "{zone} {text}");
                    assert_ne!(next.id, window.id);
                    window = next;
                }
            }
        }
    }
}

#[test]
fn fixed_windows_count_from_their_anchor() {
    let hour = WindowRule::parse("PT1H", None, None).unwrap();
    let start = "2026-11-26T12:00:00.000Z";
    let expected = [start, "2026-11-26T12:00:00Z", "2026-11-26T13:00:00Z"];
    assert_eq!(window(&hour, "2026-11-26T12:59:59.999Z"), expected);
    let anchor = Some(at("2026-11-20T06:00:00Z"));
    let days = WindowRule::parse("P7D", None, anchor).unwrap();
    for (time, start) in [
        ("2026-11-27T06:00:00Z", "2026-11-27T06:00:00Z"),
        ("2026-11-20T05:59:59Z", "2026-11-13T06:00:00Z"),
    ] {
        assert_eq!(window(&days, time)[1], start);
    }
}

#[test]
fn next_window_opens_a_minute_early() {
    let hour = WindowRule::parse("PT1H", None, None).unwrap();
    let open = |time| hour.open_at(at(time)).unwrap();
    assert_eq!(open("2026-11-26T12:58:59Z").next, None);
    let now = at("2026-11-26T12:59:00Z");
    let windows = hour.open_at(now).unwrap();
    let next = windows.next.clone().unwrap();
    assert_eq!(windows.find(Some(&next.id)), Some(&next));
    assert_eq!(windows.find(None), Some(&windows.current));
    assert_eq!(windows.find(Some(&WindowId::new("2026"))), None);
    let span = windows.span(&windows.current, now);
    assert_eq!((span.starts_in, span.ends_in), (Duration::ZERO, Some(Duration::from_mins(1))));
    assert_eq!(span.next, Some(next.id.clone()));
    let span = windows.span(&next, now);
    assert_eq!((span.starts_in, span.next), (Duration::from_mins(1), None));
}

#[test]
fn invalid_rules_are_rejected() {
    let parse = |text, zone, anchor| WindowRule::parse(text, zone, anchor).unwrap_err();
    for bad in ["", "hour", "Month", "P1M", "PT0S", "forever"] {
        assert_eq!(parse(bad, None, None), WindowError::Rule(bad.to_owned()));
    }
    for zone in ["", "Mars/Olympus", "CEST", "+01:00", "../etc/passwd"] {
        assert_eq!(parse("day", Some(zone), None), WindowError::TimeZone(zone.to_owned()));
    }
    assert_eq!(parse("total", Some("UTC"), None), WindowError::TimeZoneUnused);
    assert_eq!(parse("PT1H", Some("UTC"), None), WindowError::TimeZoneUnused);
    for text in ["total", "month"] {
        assert_eq!(parse(text, None, Some(Timestamp::EPOCH)), WindowError::AnchorUnused);
    }
}

#[test]
fn extreme_times_have_no_calendar_window() {
    let extremes = [i64::MIN, i64::MAX].map(Timestamp::from_millis);
    for rule in [rule("year", None), rule("day", Some("Europe/Berlin")), rule("P1000D", None)] {
        for time in extremes {
            // The first day may exist, but nothing panics.
            let found = rule.window_at(time);
            assert!(found.is_ok_and(|w| w.contains(time)) || rule.window_at(time).is_err());
        }
    }
    assert!(rule("year", None).window_at(extremes[1]).is_err());
}
