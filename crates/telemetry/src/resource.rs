//! The resource: the program that sends.

use crate::attributes::Attributes;
use crate::otlp::{Instrumentation, Resource};
use crate::settings::Settings;

/// Returns the resource of a process. `instance` differs for each of them: counts of several processes
/// are not taken for those of one.
pub(crate) fn resource_of(settings: &Settings, instance: u128) -> Resource {
    let mut attributes = Attributes::default();
    attributes.text("service.name", &settings.service);
    attributes.text("telemetry.sdk.language", "rust");
    attributes.text("telemetry.sdk.name", "weftwork");
    attributes.text("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
    let names = settings.attributes.iter().map(|attribute| attribute.name.as_str());
    if !names.into_iter().any(|name| name == "service.instance.id") {
        attributes.text("service.instance.id", &format!("{instance:032x}"));
    }
    for attribute in &settings.attributes {
        attributes.text(&attribute.name, &attribute.value);
    }
    Resource { attributes: attributes.into_list() }
}

/// Returns the instrumentation.
pub(crate) fn instrumentation() -> Instrumentation {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Instrumentation { name: "weftwork".to_owned(), version }
}
