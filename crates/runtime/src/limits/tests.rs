//! Tests of windows, of rules, and of starts.

use super::rules::Limit;
use super::*;
use weftwork_store::MemoryStore;
use weftwork_testkit::ManualClock;
use weftwork_types::caller::Caller;
use weftwork_types::{BillingAccountId, VirtualKeyId};

const HOUR: i64 = 3_600_000;

/// A day or month with the time of its beginning, and its length in hours.
struct Window {
    zone: &'static str,
    window: LimitWindow,
    /// Beginning, as [`UsageLimits::show`] writes it.
    begin: &'static str,
    /// The same in milliseconds since 1970.
    begin_ms: i64,
    hours: i64,
}

const WINDOWS: [Window; 9] = [
    // Clocks are put forward.
    Window {
        zone: "Europe/Berlin",
        window: LimitWindow::Day,
        begin: "2026-03-29T00:00:00+01:00",
        begin_ms: 1_774_738_800_000,
        hours: 23,
    },
    Window {
        zone: "America/New_York",
        window: LimitWindow::Day,
        begin: "2026-03-08T00:00:00-05:00",
        begin_ms: 1_772_946_000_000,
        hours: 23,
    },
    // Clocks are put back.
    Window {
        zone: "Europe/Berlin",
        window: LimitWindow::Day,
        begin: "2026-10-25T00:00:00+02:00",
        begin_ms: 1_792_879_200_000,
        hours: 25,
    },
    Window {
        zone: "America/New_York",
        window: LimitWindow::Day,
        begin: "2026-11-01T00:00:00-04:00",
        begin_ms: 1_793_505_600_000,
        hours: 25,
    },
    Window {
        zone: "UTC",
        window: LimitWindow::Day,
        begin: "2026-03-29T00:00:00+00:00",
        begin_ms: 1_774_742_400_000,
        hours: 24,
    },
    Window {
        zone: "Europe/Berlin",
        window: LimitWindow::Month,
        begin: "2026-03-01T00:00:00+01:00",
        begin_ms: 1_772_319_600_000,
        hours: 31 * 24 - 1,
    },
    Window {
        zone: "America/New_York",
        window: LimitWindow::Month,
        begin: "2026-11-01T00:00:00-04:00",
        begin_ms: 1_793_505_600_000,
        hours: 30 * 24 + 1,
    },
    // A day that begins at 1 o'clock, because clocks skip midnight.
    Window {
        zone: "Africa/Cairo",
        window: LimitWindow::Day,
        begin: "2026-04-24T01:00:00+03:00",
        begin_ms: 1_776_981_600_000,
        hours: 23,
    },
    Window {
        zone: "UTC",
        window: LimitWindow::Month,
        begin: "2028-02-01T00:00:00+00:00",
        begin_ms: 1_832_976_000_000,
        hours: 29 * 24,
    },
];

#[test]
fn days_and_months_are_those_of_the_zone() {
    for Window { zone, window, begin, begin_ms, hours } in WINDOWS {
        let limits = UsageLimits::new(zone).expect("a zone");
        let end = begin_ms + hours * HOUR;
        let borders = |now: i64| {
            let now = Timestamp(now);
            (limits.start(window, now).0, limits.end(window, now).0)
        };
        for now in [begin_ms, begin_ms + 1, begin_ms + 12 * HOUR, end - 1] {
            assert_eq!(borders(now), (begin_ms, end), "{zone} {begin} at {now}");
        }
        assert_eq!(borders(begin_ms - 1).1, begin_ms, "{zone} {begin}");
        assert_eq!(borders(end).0, end, "{zone} {begin}");
        assert_eq!(limits.show(Timestamp(begin_ms)), begin, "{zone}");
    }
}

#[test]
fn a_minute_is_the_last_60_seconds() {
    let limits = UsageLimits::default();
    let now = Timestamp(1_000_000);
    assert_eq!(limits.start(LimitWindow::Minute, now), Timestamp(940_001));
    assert_eq!(limits.end(LimitWindow::Minute, now), Timestamp(1_060_000));
    let never = Timestamp(i64::MAX);
    assert_eq!(limits.end(LimitWindow::Day, never), never, "a time beyond the calendar");
}

#[test]
fn what_is_no_limit_names_its_place() {
    for (text, expected) in [
        (
            "tokens_per_week",
            "`tokens_per_week` is no limit; expected tokens, usd, runs or requests",
        ),
        ("", "`` is no limit"),
    ] {
        let error = text.parse::<LimitName>().expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(LimitName::all().all(|name| name.to_string().parse() == Ok(name)));
    assert_eq!(LimitName::all().count(), 12);
    for owner in [LimitOwner::Account, LimitOwner::Key] {
        for name in ["", "two words", "*a"] {
            let error = UsageLimits::default().with(owner, name, LimitRules::new());
            let error = error.expect_err(name).to_string();
            assert!(error.contains(&format!("`{name}`")) && error.contains("`*`"), "{error}");
        }
    }
    let error = UsageLimits::new("Mars").expect_err("no zone").to_string();
    assert!(error.contains("`Mars`") && error.contains("Europe/Berlin"), "{error}");
}

fn rules(limits: &[(&str, u64)]) -> LimitRules {
    limits.iter().map(|(name, max)| (name.parse().expect("a limit"), *max)).collect()
}

fn caller(account: &str, key: &str) -> Caller {
    Caller {
        billing_account: BillingAccountId::new(account).expect("an id"),
        virtual_key: VirtualKeyId::new(key).expect("an id"),
        ..Caller::local("request").expect("a caller")
    }
}

#[test]
fn a_limit_of_its_own_replaces_that_for_all_of_the_same_name() {
    let all = rules(&[("tokens_per_day", 10), ("runs_per_day", 3)]);
    let limits = UsageLimits::default()
        .with(LimitOwner::Account, UsageLimits::ALL, all)
        .and_then(|limits| {
            limits.with(LimitOwner::Account, "acme", rules(&[("tokens_per_day", 99)]))
        })
        .and_then(|limits| limits.with(LimitOwner::Key, "k", rules(&[("usd_per_month", 5)])))
        .expect("limits");
    let found = |caller: &Caller| {
        let show = |limit: Limit| format!("{} {} {}", limit.subject, limit.name, limit.max);
        limits.of_caller(caller).into_iter().map(show).collect::<Vec<_>>()
    };
    assert_eq!(
        found(&caller("acme", "k")),
        [
            "account `acme` tokens_per_day 99",
            "account `acme` runs_per_day 3",
            "key `k` usd_per_month 5"
        ]
    );
    assert_eq!(
        found(&caller("other", "other")),
        ["account `other` tokens_per_day 10", "account `other` runs_per_day 3"]
    );
    let named: Vec<_> = limits.named().map(|subject| subject.to_string()).collect();
    assert_eq!(named, ["account `acme`", "key `k`"]);
    assert!(!limits.is_empty() && UsageLimits::default().is_empty());
}

fn check(limits: UsageLimits, clock: &ManualClock) -> LimitCheck {
    LimitCheck::new(limits, Arc::new(MemoryStore::new()), Arc::new(clock.clone()))
}

/// Admits a request, and returns the limit that refuses it.
async fn admit(check: &LimitCheck, caller: &Caller, runs: u64) -> Option<LimitReached> {
    match check.admit(caller, runs).await {
        Ok(()) => None,
        Err(BudgetError::Limit(reached)) => Some(*reached),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn requests_and_runs_are_counted_together_or_not_at_all() {
    let clock = ManualClock::new();
    let of_key = rules(&[("requests_per_minute", 2), ("runs_per_day", 4)]);
    let limits = UsageLimits::new("Europe/Berlin")
        .and_then(|limits| limits.with(LimitOwner::Key, "k", of_key))
        .expect("limits");
    let check = check(limits, &clock);
    let who = caller("acme", "k");
    assert_eq!(admit(&check, &who, 1).await, None);
    clock.advance(std::time::Duration::from_secs(10));
    let begun = clock.now();
    assert_eq!(admit(&check, &who, 2).await, None);
    clock.advance(std::time::Duration::from_secs(10));
    let refused = admit(&check, &who, 1).await.expect("two requests a minute");
    assert_eq!((refused.unit, refused.window), ("requests", "a minute"));
    assert_eq!((refused.used, refused.needed, refused.limit), (2, 1, 2));
    assert_eq!(refused.until.since(clock.now()).as_secs(), 40, "the first leaves the minute");
    assert_eq!(admit(&check, &caller("acme", "other"), 9).await, None, "no limit, no count");
    clock.advance(refused.until.since(clock.now()));
    // The refused request did not count as a run: three are started.
    let refused = admit(&check, &who, 2).await.expect("four runs a day");
    assert_eq!((refused.unit, refused.used, refused.needed), ("runs", 3, 2));
    let text = refused.to_string();
    let found = "key `k` has the limit of 4 runs a day, of which 3 are used, and 2 more are needed";
    assert!(text.starts_with(found), "{text}");
    assert_eq!(admit(&check, &who, 1).await, None);
    clock.advance(std::time::Duration::from_secs(60));
    let refused = admit(&check, &who, 1).await.expect("the runs of the day are used up");
    assert!(!refused.to_string().contains("more are needed"), "{refused}");
    let end = check.rules.end(LimitWindow::Day, begun);
    assert_eq!(refused.until, end);
    clock.advance(end.since(clock.now()));
    assert_eq!(admit(&check, &who, 4).await, None);
}

#[tokio::test]
async fn a_limit_of_zero_admits_nothing() {
    let clock = ManualClock::new();
    for name in ["tokens_per_day", "usd_per_month", "runs_per_minute", "requests_per_day"] {
        let limits = UsageLimits::default().with(LimitOwner::Account, "*", rules(&[(name, 0)]));
        let check = check(limits.expect("limits"), &clock);
        let refused = admit(&check, &caller("acme", "k"), 1).await;
        assert!(refused.is_some_and(|reached| reached.until > clock.now()), "{name}");
    }
}
