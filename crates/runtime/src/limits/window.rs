//! The beginnings and ends of windows.

use jiff::ToSpan as _;
use jiff::tz::TimeZone;
use weftwork_store::{LimitWindow, MINUTE_MS};
use weftwork_types::Timestamp;

/// Returns the first time of the window that has a time.
pub(super) fn start(zone: &TimeZone, window: LimitWindow, now: Timestamp) -> Timestamp {
    match window {
        LimitWindow::Minute => Timestamp(now.0.saturating_sub(MINUTE_MS).saturating_add(1)),
        LimitWindow::Day => border(zone, now, Border::Day(0)),
        LimitWindow::Month => border(zone, now, Border::Month(0)),
    }
}

/// Returns the first time after the window that has a time; of a minute, the time at which all of it
/// has left.
pub(super) fn end(zone: &TimeZone, window: LimitWindow, now: Timestamp) -> Timestamp {
    match window {
        LimitWindow::Minute => Timestamp(now.0.saturating_add(MINUTE_MS)),
        LimitWindow::Day => border(zone, now, Border::Day(1)),
        LimitWindow::Month => border(zone, now, Border::Month(1)),
    }
}

/// Returns a time in the zone for people, in seconds.
pub(super) fn show(zone: &TimeZone, time: Timestamp) -> String {
    let Ok(at) = jiff::Timestamp::from_second(time.0.div_euclid(1_000)) else {
        return format!("{} ms after 1970", time.0);
    };
    let offset = zone.to_offset(at).seconds();
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.abs() / 60;
    let local = zone.to_datetime(at);
    format!("{local}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// The beginning of a day or month that is this many after the present one.
enum Border {
    Day(i64),
    Month(i64),
}

fn border(zone: &TimeZone, now: Timestamp, border: Border) -> Timestamp {
    let found = jiff::Timestamp::from_millisecond(now.0).and_then(|now| {
        let date = zone.to_datetime(now).date();
        let day = match border {
            Border::Day(days) => date.checked_add(days.days())?,
            Border::Month(months) => date.first_of_month().checked_add(months.months())?,
        };
        // Where clocks skip midnight, the day begins at the first time after it.
        zone.to_timestamp(day.at(0, 0, 0, 0))
    });
    // A time beyond the calendar has no border.
    found.map_or(now, |at| Timestamp(at.as_millisecond()))
}
