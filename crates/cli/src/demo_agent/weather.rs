//! Sample weather data.

use schemars::JsonSchema;
use serde::Serialize;

/// The weather of a city.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct Weather {
    pub(super) city: String,
    pub(super) sky: &'static str,
    pub(super) celsius: i32,
    /// Where the figures come from.
    pub(super) source: &'static str,
}

const SOURCE: &str = "sample data";

const CITIES: &[(&str, &str, i32)] = &[
    ("Amsterdam", "rain", 11),
    ("Athens", "sunny", 24),
    ("Berlin", "cloudy", 13),
    ("Cairo", "sunny", 31),
    ("Lisbon", "sunny", 20),
    ("London", "rain", 12),
    ("Madrid", "sunny", 22),
    ("Nairobi", "cloudy", 23),
    ("New York", "windy", 15),
    ("Oslo", "snow", -2),
    ("Paris", "cloudy", 16),
    ("Rome", "sunny", 21),
    ("San Francisco", "fog", 14),
    ("Sydney", "sunny", 25),
    ("Tokyo", "rain", 18),
    ("Vienna", "windy", 14),
];

/// Finds the weather of a city in the table.
pub(super) fn weather_of(city: &str) -> Option<Weather> {
    let wanted = city.trim().to_lowercase();
    let (city, sky, celsius) = CITIES.iter().find(|(name, ..)| name.to_lowercase() == wanted)?;
    Some(Weather { city: (*city).to_owned(), sky, celsius: *celsius, source: SOURCE })
}

/// Returns the names of the cities in the table.
pub(super) fn known_cities() -> String {
    CITIES.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}
