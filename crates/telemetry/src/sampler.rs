//! The decision whether a trace is sent.

use crate::ids::Trace;
use weftwork_types::telemetry::ParentSpan;

/// Number of values of the random part of a trace.
const RANDOM_VALUES: f64 = (1_u64 << 56) as f64;

/// The sampler of `OTEL_TRACES_SAMPLER`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampler {
    /// Rule for traces that no parent decides.
    pub(crate) rule: Rule,
    /// Effect of the decision of a parent span.
    pub(crate) parent: ParentRule,
}

/// Rule for the traces that are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// All.
    All,
    /// None.
    None,
    /// This part of them, from 0 to 1, the same in all processes.
    Ratio(f64),
}

/// Effect of the decision of a parent span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParentRule {
    /// The decision of the client counts.
    Followed,
    /// It has no effect.
    Ignored,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { rule: Rule::All, parent: ParentRule::Followed }
    }
}

impl Sampler {
    /// Names of the samplers.
    pub(crate) const NAMES: &str = "always_on, always_off, traceidratio, parentbased_always_on, parentbased_always_off or parentbased_traceidratio";

    /// Returns the sampler of a name; `None` for an unknown one.
    pub(crate) fn of_name(name: &str, ratio: f64) -> Option<Self> {
        let own = name.strip_prefix("parentbased_");
        let parent = if own.is_some() { ParentRule::Followed } else { ParentRule::Ignored };
        let rule = match own.unwrap_or(name) {
            "always_on" => Rule::All,
            "always_off" => Rule::None,
            "traceidratio" => Rule::Ratio(ratio),
            _ => return None,
        };
        Some(Self { rule, parent })
    }

    /// Returns `true` if a trace is sent.
    pub(crate) fn samples(self, trace: Trace, parent: Option<&ParentSpan>) -> bool {
        if let Some(parent) = parent
            && self.parent == ParentRule::Followed
        {
            return parent.sampled;
        }
        match self.rule {
            Rule::All => true,
            Rule::None => false,
            #[expect(
                clippy::cast_precision_loss,
                reason = "56 bits, of which the last few decide nothing"
            )]
            Rule::Ratio(ratio) => (trace.random_bits() as f64) < ratio * RANDOM_VALUES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftwork_types::TraceId;

    #[test]
    fn a_parent_decides_unless_it_is_ignored() {
        let parent = |sampled| ParentSpan {
            trace: TraceId::new("t").expect("an id"),
            id: "00f067aa0ba902b7".parse().expect("an id"),
            sampled,
        };
        let trace = Trace([7; 16]);
        for (name, alone, sampled, unsampled) in [
            ("always_on", true, true, true),
            ("always_off", false, false, false),
            ("parentbased_always_on", true, true, false),
            ("parentbased_always_off", false, true, false),
            ("traceidratio", false, false, false),
            ("parentbased_traceidratio", false, true, false),
        ] {
            let sampler = Sampler::of_name(name, 0.0).expect("a sampler");
            assert_eq!(sampler.samples(trace, None), alone, "{name}");
            assert_eq!(sampler.samples(trace, Some(&parent(true))), sampled, "{name}");
            assert_eq!(sampler.samples(trace, Some(&parent(false))), unsampled, "{name}");
        }
        assert_eq!(Sampler::of_name("jaeger_remote", 1.0), None);
    }

    #[test]
    fn a_ratio_is_met_by_ids_that_begin_with_a_time() {
        let sampler = Sampler::of_name("traceidratio", 0.25).expect("a sampler");
        let ids = (0..4_000).map(|n| format!("{n}"));
        let traces = ids.map(|id| {
            let mut bytes = Trace::of(&TraceId::new(id).expect("an id")).0;
            // As an id of version 7 has them.
            bytes[..6].fill(1);
            bytes[6] = 0x70;
            bytes[8] = 0x80 | bytes[8] & 0x3f;
            Trace(bytes)
        });
        let sent = traces.filter(|trace| sampler.samples(*trace, None)).count();
        assert!((900..1_100).contains(&sent), "{sent}");
    }
}
