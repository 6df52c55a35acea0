//! Timestamps in readable form.

use weftwork::types::Timestamp;

/// Formats a timestamp in UTC, such as `2026-11-21 09:05:07`.
pub(crate) fn moment(at: Timestamp) -> String {
    let seconds = at.0.div_euclid(1_000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Converts days since 1970-01-01 to a date. Uses eras of 400 years that begin in March, so that
/// the leap day is the last day of its year.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, late) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + late, month, of_month)
}

/// Parses a time in the form of RFC 3339, such as `2026-11-21T09:05:07.5+02:00`. Leap seconds are
/// not supported.
pub(crate) fn instant(text: &str) -> Option<Timestamp> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at_checked(zone)?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let days = days(year, month, day).filter(|_| hour < 24 && minute < 60 && second < 60)?;
    let digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let ms: i64 = format!("{fraction:0<3}").get(..3).filter(|_| digits)?.parse().ok()?;
    let west = match zone.strip_prefix(['Z', 'z']) {
        Some(rest) => rest.is_empty().then_some(0)?,
        None => {
            let [hours, minutes] = numbers(zone.get(1..)?, ':', [2, 2])?;
            let minutes = (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)?;
            if zone.starts_with('-') { minutes } else { -minutes }
        }
    };
    let minutes = (days * 24 + hour) * 60 + minute + west;
    Some(Timestamp((minutes * 60 + second) * 1_000 + ms))
}

/// Parses numbers of fixed lengths.
fn numbers<const N: usize>(text: &str, between: char, lengths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut numbers = [0; N];
    for (number, length) in numbers.iter_mut().zip(lengths) {
        let part = parts.next().filter(|part| part.len() == length)?;
        *number = part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())??;
    }
    parts.next().is_none().then_some(numbers)
}

/// Converts a date to days since 1970-01-01; `None` for a day that the calendar does not have. The
/// inverse of [`date`].
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let (shifted, of_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_era = shifted.rem_euclid(400);
    let of_year = (153 * of_march + 2) / 5 + day - 1;
    let of_era = 365 * of_era + of_era / 4 - of_era / 100 + of_year;
    let days = shifted.div_euclid(400) * 146_097 + of_era - 719_468;
    (date(days) == (year, month, day)).then_some(days)
}

#[cfg(test)]
mod tests {
    use super::{instant, moment};
    use weftwork::types::Timestamp;

    #[test]
    fn moments_are_dates_of_the_calendar() {
        for (at, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399_000, "2000-02-28 23:59:59"),
            (951_782_400_000, "2000-02-29 00:00:00"),
            (1_767_225_600_000, "2026-01-01 00:00:00"),
            (-1, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(moment(Timestamp(at)), expected);
            let seconds = Some(Timestamp(i64::div_euclid(at, 1_000) * 1_000));
            assert_eq!(instant(&format!("{}Z", expected.replace(' ', "T"))), seconds);
        }
    }

    #[test]
    fn instants_have_a_zone() {
        let at = Some(Timestamp(1_767_225_600_000));
        for text in
            ["2026-01-01T00:00:00Z", "2026-01-01 02:30:00+02:30", "2025-12-31t20:00:00-04:00"]
        {
            assert_eq!(instant(text), at, "{text}");
        }
        assert_eq!(instant("1970-01-01T00:00:01.23456Z"), Some(Timestamp(1_234)));
        for wrong in [
            "2026-01-01",
            "2026-01-01T00:00:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-1-01T00:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1",
            "2026-01-01T00:00:00Zx",
            "+026-01-01T00:00:00Z",
            "",
        ] {
            assert_eq!(instant(wrong), None, "{wrong}");
        }
    }
}
