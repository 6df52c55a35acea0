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

#[cfg(test)]
mod tests {
    use super::moment;
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
        }
    }
}
