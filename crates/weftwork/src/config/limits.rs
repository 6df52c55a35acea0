//! Limits of budgets, as text.

use super::Setting;
use crate::Error;
use std::time::Duration;
use weftwork_types::port::Limits;
use weftwork_types::usage::dollars as dollars_text;

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

/// Writes limits of runs in the form that [`read_limits`] reads. It does not read a time that is no
/// whole number of seconds, which is written in milliseconds.
#[must_use]
pub fn format_limits(limits: Limits) -> String {
    let Limits { model_calls, tool_calls, tokens, cost_micro_usd, wall_ms } = limits;
    let parts = [
        tokens.map(|limit| format!("tokens={limit}")),
        cost_micro_usd.map(|limit| format!("usd={}", dollars_text(limit))),
        model_calls.map(|limit| format!("calls={limit}")),
        tool_calls.map(|limit| format!("tools={limit}")),
        wall_ms.map(|limit| match limit % 1_000 {
            0 => format!("time={}s", limit / 1_000),
            _ => format!("time={limit}ms"),
        }),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(",")
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

fn count(name: &str, value: &str) -> Result<u64, String> {
    let count = value.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| format!("`{value}` is no limit of {name}; expected a whole number above 0"))
}

/// Reads a time, and returns milliseconds.
fn millis(value: &str) -> Result<u64, String> {
    let time = read_duration(value).ok().filter(|time| !time.is_zero());
    let millis = time.and_then(|time| u64::try_from(time.as_millis()).ok());
    millis.ok_or_else(|| {
        format!("`{value}` is no limit of time; expected a time above 0, such as 90s or 2h")
    })
}

/// Reads a duration: a whole number and a unit, such as `90s`.
///
/// # Errors
/// The reason for which the text is none.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    let bad = || "expected a number and a unit, one of w, d, h, m and s".to_owned();
    let (unit, number) = text
        .char_indices()
        .next_back()
        .map_or((' ', ""), |(at, unit)| (unit, text.get(..at).unwrap_or_default()));
    let seconds: u64 = match unit {
        'w' => 7 * 86_400,
        'd' => 86_400,
        'h' => 3_600,
        'm' => 60,
        's' => 1,
        _ => return Err(bad()),
    };
    let count: u64 = number.parse().map_err(|_| bad())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(bad)
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
        assert_eq!(read_limits(&format_limits(all)), Ok(all));
        assert_eq!(
            format_limits(Limits { wall_ms: Some(1_500), ..Limits::default() }),
            "time=1500ms"
        );
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
            ("time=90", "`90` is no limit of time; expected a time above 0, such as 90s or 2h"),
            ("time=0s", "`0s` is no limit of time"),
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
    fn durations_have_a_unit() {
        assert_eq!(read_duration("90m"), Ok(Duration::from_secs(5_400)));
        for wrong in ["", "5", "m", "-1s", "1.5h", "99999999999999999999w"] {
            assert!(read_duration(wrong).is_err(), "{wrong}");
        }
    }
}
