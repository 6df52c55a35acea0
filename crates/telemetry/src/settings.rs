//! Settings, from the environment variables of OpenTelemetry.
//!
//! Source: OpenTelemetry Specification 1.50, "Environment Variable Specification" and "OpenTelemetry
//! Protocol Exporter".

use crate::sampler::Sampler;
use std::fmt;
use std::time::Duration;
use url::Url;

/// Variable that allows content in spans.
const CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
/// Most attributes of the resource.
const ATTRIBUTES_MAX: usize = 128;

/// Settings of the export.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Collector of traces; `None` if none are sent.
    pub traces: Option<Endpoint>,
    /// Collector of metrics; `None` if none are sent.
    pub metrics: Option<Endpoint>,
    /// Name of the service; `weft` by default.
    pub service: String,
    /// Further attributes of the resource.
    pub attributes: Vec<Attribute>,
    /// Prompts, arguments and results in spans.
    pub content: Content,
    pub(crate) sampler: Sampler,
    /// Longest wait of spans for others of a request; 5 s by default.
    pub delay: Duration,
    /// Number of spans with which a request is sent at once; 512 by default.
    pub batch_spans: usize,
    /// Most runs that wait; further ones are dropped. 2,048 by default.
    pub queue_runs: usize,
    /// Interval of metrics; 60 s by default.
    pub interval: Duration,
}

/// An attribute of the resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Prompts, arguments and results in spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// None.
    #[default]
    Omitted,
    /// The form that streams show.
    Shown,
}

/// Address of a collector.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Address to which requests are posted.
    pub url: Url,
    /// Headers of requests. Values may be secret and are never printed.
    pub headers: Vec<(String, String)>,
    /// Longest wait for the answer to a request; 10 s by default.
    pub timeout: Duration,
    /// Compression of requests.
    pub compression: Compression,
}

/// Compression of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// None.
    None,
    /// `gzip`.
    Gzip,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.host()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Returns host and port, for the list of hosts that may be private.
    #[must_use]
    pub fn host(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or_default();
        format!("{host}:{port}")
    }
}

/// A variable with a value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is {found}, expected {expected}")]
pub struct SettingError {
    /// The variable.
    pub name: String,
    /// Its value, without secrets.
    pub found: String,
    /// Expected value.
    pub expected: String,
}

/// The two kinds of data, each with variables of its own.
#[derive(Debug, Clone, Copy)]
enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    fn word(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        }
    }
}

/// Reads variables. An empty one is as one that is not set.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Settings {
    /// Reads the settings from environment variables; `None` if none of them names a collector, or if
    /// `OTEL_SDK_DISABLED` is `true`.
    ///
    /// # Errors
    /// [`SettingError`] for a value that cannot be used.
    pub fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, SettingError> {
        let variables = Variables(variable);
        if variables.flag("OTEL_SDK_DISABLED")? {
            return Ok(None);
        }
        let traces = variables.endpoint(Signal::Traces)?;
        let metrics = variables.endpoint(Signal::Metrics)?;
        if traces.is_none() && metrics.is_none() {
            return Ok(None);
        }
        let mut attributes = variables.list("OTEL_RESOURCE_ATTRIBUTES", ATTRIBUTES_MAX)?;
        let is_service = |attribute: &Attribute| attribute.name == "service.name";
        let named = attributes.iter().find(|of| is_service(of)).map(|of| of.value.clone());
        attributes.retain(|of| !is_service(of));
        let service = variables.get("OTEL_SERVICE_NAME").or(named);
        Ok(Some(Self {
            traces,
            metrics,
            service: service.unwrap_or_else(|| "weft".to_owned()),
            attributes,
            content: variables.content()?,
            sampler: variables.sampler()?,
            delay: variables.time("OTEL_BSP_SCHEDULE_DELAY", 5_000)?,
            batch_spans: variables.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?,
            queue_runs: variables.count("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)?,
            interval: variables.time("OTEL_METRIC_EXPORT_INTERVAL", 60_000)?,
        }))
    }

    /// Returns hosts and ports of the collectors.
    pub fn hosts(&self) -> impl Iterator<Item = String> {
        self.traces.iter().chain(&self.metrics).map(Endpoint::host)
    }
}

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<String> {
        let value = (self.0)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Returns the variable of a signal, or the one of all signals.
    fn of_signal(&self, signal: Signal, end: &str) -> Option<Variable> {
        let own = format!("OTEL_EXPORTER_OTLP_{}_{end}", signal.word());
        let all = format!("OTEL_EXPORTER_OTLP_{end}");
        [own, all].into_iter().find_map(|name| Some(Variable { value: self.get(&name)?, name }))
    }

    fn endpoint(&self, signal: Signal) -> Result<Option<Endpoint>, SettingError> {
        let exporter = format!("OTEL_{}_EXPORTER", signal.word());
        match self.get(&exporter).as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => return Err(bad(&exporter, other, "`otlp` or `none`")),
        }
        let Some(Variable { name, value }) = self.of_signal(signal, "ENDPOINT") else {
            return Ok(None);
        };
        if let Some(Variable { name, value }) = self.of_signal(signal, "PROTOCOL")
            && value != "http/protobuf"
        {
            return Err(bad(
                &name,
                &value,
                "`http/protobuf`; set OTEL_SDK_DISABLED=true to send nothing",
            ));
        }
        let compression = match self.of_signal(signal, "COMPRESSION") {
            None => Compression::None,
            Some(Variable { name, value }) => match &*value {
                "none" => Compression::None,
                "gzip" => Compression::Gzip,
                _ => return Err(bad(&name, &value, "`gzip` or `none`")),
            },
        };
        let timeout = match self.of_signal(signal, "TIMEOUT") {
            None => Duration::from_secs(10),
            Some(Variable { name, .. }) => self.time(&name, 0)?,
        };
        let headers = match self.of_signal(signal, "HEADERS") {
            None => Vec::new(),
            Some(Variable { name, .. }) => {
                let list = self.list(&name, ATTRIBUTES_MAX)?;
                list.into_iter().map(|of| (of.name.to_lowercase(), of.value)).collect()
            }
        };
        let url = read_url(&name, &value, signal)?;
        Ok(Some(Endpoint { url, headers, timeout, compression }))
    }

    fn flag(&self, name: &str) -> Result<bool, SettingError> {
        match self.get(name).map(|value| value.to_lowercase()).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(bad(name, other, "`true` or `false`")),
        }
    }

    fn content(&self) -> Result<Content, SettingError> {
        // The later names are those of the instrumentations of other languages; here spans are all.
        match self.get(CONTENT).map(|value| value.to_lowercase()).as_deref() {
            None | Some("false" | "no_content" | "event_only") => Ok(Content::Omitted),
            Some("true" | "span_only" | "span_and_event") => Ok(Content::Shown),
            Some(other) => Err(bad(CONTENT, other, "`true` or `false`")),
        }
    }

    fn sampler(&self) -> Result<Sampler, SettingError> {
        let name = "OTEL_TRACES_SAMPLER_ARG";
        let ratio = match self.get(name) {
            None => 1.0,
            Some(text) => {
                let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
                ratio.ok_or_else(|| bad(name, &text, "a number from 0 to 1"))?
            }
        };
        let name = "OTEL_TRACES_SAMPLER";
        let Some(text) = self.get(name) else { return Ok(Sampler::default()) };
        Sampler::of_name(&text, ratio).ok_or_else(|| bad(name, &text, Sampler::NAMES))
    }

    fn count(&self, name: &str, usual: usize) -> Result<usize, SettingError> {
        let Some(text) = self.get(name) else { return Ok(usual) };
        let count = text.parse().ok().filter(|count| (1..=1_000_000).contains(count));
        count.ok_or_else(|| bad(name, &text, "a number from 1 to 1000000"))
    }

    fn time(&self, name: &str, usual_ms: u64) -> Result<Duration, SettingError> {
        let Some(text) = self.get(name) else { return Ok(Duration::from_millis(usual_ms)) };
        let ms = text.parse().ok().filter(|ms| (1..=3_600_000).contains(ms));
        let ms = ms.ok_or_else(|| bad(name, &text, "milliseconds, from 1 to 3600000"))?;
        Ok(Duration::from_millis(ms))
    }

    /// Reads a list `name=value,…` with encoded characters. Values may be secret.
    fn list(&self, name: &str, most: usize) -> Result<Vec<Attribute>, SettingError> {
        let expected = "a list `name=value,name=value`, with other characters as `%20`";
        let bad = || bad(name, "a text that is no list", expected);
        let Some(text) = self.get(name) else { return Ok(Vec::new()) };
        let mut list = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let named = part.split_once('=').ok_or_else(bad)?;
            let attribute = Attribute {
                name: decode(named.0).ok_or_else(bad)?,
                value: decode(named.1).ok_or_else(bad)?,
            };
            if attribute.name.is_empty() || list.len() == most {
                return Err(bad());
            }
            list.push(attribute);
        }
        Ok(list)
    }
}

/// A variable that is set.
struct Variable {
    name: String,
    value: String,
}

/// Reads the address of a signal. That of all signals has no path of its own.
fn read_url(name: &str, text: &str, signal: Signal) -> Result<Url, SettingError> {
    // An address may have a password.
    let bad = || bad(name, "no such address", "an `http` or `https` address without a password");
    let mut url = Url::parse(text).map_err(|_| bad())?;
    let is_plain = url.username().is_empty() && url.password().is_none();
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || !is_plain {
        return Err(bad());
    }
    if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
        let signal = signal.word().to_lowercase();
        let path = format!("{}/v1/{signal}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

/// Decodes `%20` and the like; `None` if a text is none afterwards.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.trim().bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains(['\r', '\n', '\0']))
}

fn bad(name: &str, found: &str, expected: &str) -> SettingError {
    let cut: String = found.chars().take(100).collect();
    SettingError { name: name.to_owned(), found: cut, expected: expected.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318/");

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, SettingError> {
        let variables: BTreeMap<_, _> = variables.iter().copied().collect();
        Settings::read(&|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    fn settings(variables: &[(&str, &str)]) -> Settings {
        read(variables).expect("settings").expect("an endpoint")
    }

    #[test]
    fn nothing_is_sent_without_an_endpoint() {
        for variables in [
            &[][..],
            &[("OTEL_SERVICE_NAME", "desk")],
            &[(ENDPOINT.0, " ")],
            &[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")],
            &[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none"), ("OTEL_METRICS_EXPORTER", "none")],
        ] {
            assert!(read(variables).expect("settings").is_none(), "{variables:?}");
        }
    }

    #[test]
    fn variables_of_a_signal_come_before_those_of_all() {
        let found = settings(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces.example/in"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20abc%3D, x-team = a b "),
            ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "250"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=test"),
            ("OTEL_SERVICE_NAME", "desk"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "True"),
        ]);
        let traces = found.traces.expect("traces");
        assert_eq!(traces.url.as_str(), "https://traces.example/in");
        assert_eq!((traces.host().as_str(), traces.timeout.as_secs()), ("traces.example:443", 10));
        let pairs = [("authorization", "Basic abc="), ("x-team", "a b")];
        assert_eq!(traces.headers, pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let metrics = found.metrics.expect("metrics");
        assert_eq!(metrics.url.as_str(), "http://127.0.0.1:4318/v1/metrics");
        assert_eq!((metrics.timeout.as_millis(), metrics.compression), (250, Compression::Gzip));
        assert_eq!((found.service.as_str(), found.attributes.len()), ("desk", 1));
        assert_eq!(found.content, Content::Shown);
        assert!(!format!("{metrics:?}").contains("abc"), "{metrics:?}");
    }

    #[test]
    fn a_value_that_cannot_be_used_is_named_without_secrets() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://hunter2"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://me:hunter2@host/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "key=hunter2%0Anext: line"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "key=hunter2%f"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_TRACES_SAMPLER", "sometimes"),
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
            ("OTEL_SDK_DISABLED", "yes"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
            ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "maybe"),
        ] {
            let error = read(&[ENDPOINT, (name, value)]).expect_err(value);
            assert_eq!(error.name, name);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
