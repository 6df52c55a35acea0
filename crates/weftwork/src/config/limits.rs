//! Limits of budgets, as text.

use super::Setting;
use crate::Error;
use std::time::Duration;
use weftwork_types::port::Limits;
use weftwork_types::usage::dollars as usd;

/// Largest limit of a cost, in dollars.
const USD_MAX: f64 = 1_000_000_000.0;

/// Form of the limits.
const FORM: &str = "tokens=N,usd=X,calls=N,tools=N,time=T";

/// Reads the budget of a thread.
pub(super) fn read(setting: Setting<String>) -> Result<Setting<Limits>, Error> {
    let Setting { value, origin } = setting;
    match read_limits(&value) {
        Ok(value) => Ok(Setting { value, origin }),
        Err(reason) => Err(Error::BadSetting {
            setting: format!("the budget of a thread ({origin})"),
            found: value,
            expected: format!("limits such as `tokens=100000,usd=2`: {reason}"),
        }),
    }
}

/// Reads limits of runs: `tokens=N,usd=X,calls=N,tools=N,time=T`, or some of them.
///
/// # Errors
/// The reason for which the text is none.
pub fn read_limits(text: &str) -> Result<Limits, String> {
    let mut limits = Limits::default();
    for part in text.split(',') {
        let (name, value) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` is no limit; expected some of {FORM}"))?;
        let name = name.trim();
        let value = value.trim();
        let (limit, found) = match name {
            "tokens" => (&mut limits.tokens, count(name, value)?),
            "calls" => (&mut limits.model_calls, count(name, value)?),
            "tools" => (&mut limits.tool_calls, count(name, value)?),
            "usd" => (&mut limits.cost_micro_usd, dollars(value)?),
            "time" => (&mut limits.wall_ms, millis(value)?),
            _ => {
                return Err(format!(
                    "`{name}` is no limit; expected tokens, usd, calls, tools or time"
                ));
            }
        };
        if limit.replace(found).is_some() {
            return Err(format!("the limit `{name}` is given twice"));
        }
    }
    Ok(limits)
}

/// Formats limits of runs as [`read_limits`] reads them; an empty text without a limit.
#[must_use]
pub fn format_limits(limits: &Limits) -> String {
    let Limits { model_calls, tool_calls, tokens, cost_micro_usd, wall_ms } = limits;
    let time = |millis: &u64| match millis % 1_000 {
        0 => format!("time={}s", millis / 1_000),
        _ => format!("time={millis}ms"),
    };
    let parts = [
        tokens.map(|limit| format!("tokens={limit}")),
        cost_micro_usd.map(|limit| format!("usd={}", usd(limit))),
        model_calls.map(|limit| format!("calls={limit}")),
        tool_calls.map(|limit| format!("tools={limit}")),
        wall_ms.as_ref().map(time),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(",")
}

fn count(name: &str, value: &str) -> Result<u64, String> {
    let count = value.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("`{value}` is no limit of {name}; expected a whole number above 0"))
}

/// Reads a time limit, and returns milliseconds.
fn millis(value: &str) -> Result<u64, String> {
    let time = read_time_limit(value);
    let time = time.map_err(|reason| format!("`{value}` is no limit of time; {reason}"))?;
    u64::try_from(time.as_millis()).map_err(|error| error.to_string())
}

/// Reads the duration after which work is cut off, in the form of [`read_duration`]. It is above 0,
/// because nothing is done in no time.
///
/// # Errors
/// The reason for which the text is none.
pub fn read_time_limit(text: &str) -> Result<Duration, String> {
    let time = read_duration(text)?;
    match time.is_zero() {
        true => Err("expected a time above 0, such as `90s`".to_owned()),
        false => Ok(time),
    }
}

/// Units of durations, from the longest to the shortest, in milliseconds.
const UNITS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Reads a duration: whole numbers, each with a unit (`w`, `d`, `h`, `m`, `s` or `ms`), from the
/// longest unit to the shortest, such as `500ms`, `90s` or `1m30s`.
///
/// # Errors
/// The reason for which the text is none; it names the units.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    let bad = || {
        "expected whole numbers with the units w, d, h, m, s and ms, from the longest to the \
         shortest, such as `90s`, `500ms` or `1m30s`"
            .to_owned()
    };
    let mut units = UNITS.iter();
    let mut rest = text;
    let mut millis: u64 = 0;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let (count, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        // A unit that was used, or that is longer than the last one, is behind the iterator.
        let (_, of_unit) = units.find(|(name, _)| *name == unit).ok_or_else(bad)?;
        let count: u64 = count.parse().map_err(|_| bad())?;
        let part = count.checked_mul(*of_unit).ok_or_else(bad)?;
        millis = millis.checked_add(part).ok_or_else(bad)?;
        if next.is_empty() {
            return Ok(Duration::from_millis(millis));
        }
        rest = next;
    }
}

/// Parses an amount in dollars, and returns millionths.
fn dollars(value: &str) -> Result<u64, String> {
    let dollars = value.parse::<f64>().ok().filter(|dollars| *dollars <= USD_MAX);
    let micro = dollars.map(|dollars| (dollars * 1_000_000.0).round());
    micro.filter(|micro| *micro >= 1.0).map(|micro| micro as u64).ok_or_else(|| {
        format!("`{value}` is no limit of usd; expected an amount such as 0.25, at least 0.000001")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_named_once() {
        let all = Limits {
            tokens: Some(5_000),
            cost_micro_usd: Some(250_000),
            model_calls: Some(4),
            tool_calls: Some(9),
            wall_ms: Some(90_000),
        };
        assert_eq!(read_limits("tokens=5000,usd=0.25, calls = 4,tools=9,time=90s"), Ok(all));
        assert_eq!(format_limits(&all), "tokens=5000,usd=0.25,calls=4,tools=9,time=90s");
        assert_eq!(read_limits(&format_limits(&all)), Ok(all));
        let short = Limits { wall_ms: Some(1_500), ..Limits::default() };
        assert_eq!(format_limits(&short), "time=1500ms");
        assert_eq!(read_limits("time=1s500ms"), Ok(short));
        assert_eq!(format_limits(&Limits::default()), "");
        assert_eq!(read_limits("calls=4").map(|limits| limits.tokens), Ok(None));
        for (wrong, why) in [
            ("", "`` is no limit; expected some of"),
            ("5000", "`5000` is no limit"),
            ("calls=4,", "`` is no limit"),
            ("call=4", "`call` is no limit; expected tokens, usd, calls, tools or time"),
            ("calls=4,calls=5", "the limit `calls` is given twice"),
            ("calls=0", "`0` is no limit of calls; expected a whole number above 0"),
            ("tokens=-1", "`-1` is no limit of tokens"),
            ("tokens=1.5", "`1.5` is no limit of tokens"),
            ("tools=99999999999999999999", "is no limit of tools"),
            (
                "time=90",
                "`90` is no limit of time; expected whole numbers with the units w, d, h, m",
            ),
            ("time=0s", "`0s` is no limit of time; expected a time above 0, such as `90s`"),
            ("time=0m0ms", "`0m0ms` is no limit of time; expected a time above 0"),
            ("usd=0", "`0` is no limit of usd; expected an amount such as 0.25"),
            ("usd=-1", "`-1` is no limit of usd"),
            ("usd=nan", "`nan` is no limit of usd"),
            ("usd=inf", "`inf` is no limit of usd"),
            ("usd=$5", "`$5` is no limit of usd"),
        ] {
            let error = read_limits(wrong).expect_err(wrong);
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }

    #[test]
    fn durations_are_whole_numbers_with_units() {
        for (text, millis) in [
            ("0s", 0),
            ("500ms", 500),
            ("45s", 45_000),
            ("90m", 5_400_000),
            ("2h", 7_200_000),
            ("30d", 2_592_000_000),
            ("1w", 604_800_000),
            ("1m30s", 90_000),
            ("1s1ms", 1_001),
            ("1h0m5s", 3_605_000),
            ("1w2d3h4m5s6ms", 788_645_006),
        ] {
            assert_eq!(read_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for wrong in [
            "",
            "5",
            "m",
            "ms",
            "-1s",
            "+1s",
            "1.5h",
            "1 s",
            " 1s",
            "1s ",
            "1s2",
            "1S",
            "1sec",
            "1y",
            "1µs",
            "30s1m",
            "1m1m",
            "1ms1s",
            "1m,30s",
            "99999999999999999999w",
            "18446744073709551615s",
            "18446744073709551615ms1ms",
        ] {
            let why = read_duration(wrong).expect_err(wrong);
            assert!(
                why.contains("w, d, h, m, s and ms") && why.contains("`1m30s`"),
                "{wrong}: {why}"
            );
        }
    }

    #[test]
    fn a_time_limit_is_above_zero() {
        assert_eq!(read_time_limit("1ms"), Ok(Duration::from_millis(1)));
        for zero in ["0s", "0ms", "0h0m"] {
            assert!(read_time_limit(zero).is_err_and(|why| why.contains("above 0")), "{zero}");
        }
    }
}
