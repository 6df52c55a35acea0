//! Times as the protocol has them.

use weftwork_types::Timestamp;

/// Returns a time with microseconds and the offset `+00:00`.
pub(crate) fn format_time(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(time.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_microseconds_and_an_offset() {
        assert_eq!(format_time(Timestamp(1_795_292_809_962)), "2026-11-21T20:26:49.962000+00:00");
    }
}
