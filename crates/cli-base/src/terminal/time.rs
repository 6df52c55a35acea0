//! Timestamps in readable form.

use weftwork::types::Timestamp;

/// Formats a timestamp in UTC, such as `2026-11-21 09:05:07`. A time that the calendar does not have
/// is shown in milliseconds since 1970.
pub fn format_moment(at: Timestamp) -> String {
    // Seconds that have begun, also before 1970.
    match jiff::Timestamp::from_second(at.0.div_euclid(1_000)) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => at.0.to_string(),
    }
}

/// Parses a time in the form of RFC 3339, such as `2026-11-21T09:05:07.5+02:00`.
pub fn parse_instant(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::{format_moment, parse_instant};
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
            assert_eq!(format_moment(Timestamp(at)), expected);
            let seconds = Some(Timestamp(i64::div_euclid(at, 1_000) * 1_000));
            assert_eq!(parse_instant(&format!("{}Z", expected.replace(' ', "T"))), seconds);
        }
    }

    #[test]
    fn instants_have_a_zone() {
        let at = Some(Timestamp(1_767_225_600_000));
        for text in
            ["2026-01-01T00:00:00Z", "2026-01-01 02:30:00+02:30", "2025-12-31t20:00:00-04:00"]
        {
            assert_eq!(parse_instant(text), at, "{text}");
        }
        assert_eq!(parse_instant("1970-01-01T00:00:01.23456Z"), Some(Timestamp(1_234)));
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
            assert_eq!(parse_instant(wrong), None, "{wrong}");
        }
    }
}
