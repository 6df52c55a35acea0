//! The stages and the allowed skips, as configured in `xtask/`.

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use serde::Deserialize;

/// The extent of the tests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Tier {
    /// The checks that every change must pass.
    #[default]
    Fast,
    /// The fast tier and long-running checks.
    Full,
}

impl Tier {
    pub(super) fn parse(text: &str) -> Result<Self> {
        match text {
            "fast" => Ok(Self::Fast),
            "full" => Ok(Self::Full),
            _ => bail!("unknown tier `{text}`; expected fast or full"),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Full => "full",
        }
    }
}

/// A named command.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stage {
    pub(super) name: String,
    /// The smallest tier that includes the stage.
    pub(super) tier: Tier,
    /// A command line for bash.
    pub(super) run: String,
    pub(super) timeout_s: u64,
    /// `true` if the stage fails when no test ran.
    #[serde(default)]
    pub(super) tests: bool,
    /// An earlier stage whose results this one uses. It runs too if only this one is selected.
    #[serde(default)]
    pub(super) needs: Option<String>,
    /// Stages of one lane run one after the other, beside the stages that follow in the plan.
    #[serde(default)]
    pub(super) lane: Option<String>,
}

/// All stages in order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    stage: Vec<Stage>,
}

/// The selection of stages.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) tier: Tier,
    /// Names of stages, which are selected regardless of their tier.
    pub(super) only: Option<Vec<String>>,
}

impl Plan {
    /// Returns the selected stages in the order of the plan.
    pub(super) fn select(&self, selection: &Selection) -> Result<Vec<&Stage>> {
        for (index, stage) in self.stage.iter().enumerate() {
            let twice = self.stage[..index].iter().any(|other| other.name == stage.name);
            ensure!(!twice, "two stages are named `{}`", stage.name);
        }
        let names: Vec<&str> = self.stage.iter().map(|stage| stage.name.as_str()).collect();
        for (index, stage) in self.stage.iter().enumerate() {
            if let Some(needed) = &stage.needs {
                let is_earlier = names[..index].contains(&needed.as_str());
                ensure!(is_earlier, "stage `{}` needs `{needed}`, no earlier stage", stage.name);
            }
        }
        for name in selection.only.iter().flatten() {
            let known = names.contains(&name.as_str());
            ensure!(known, "no stage is named `{name}`; there are {}", names.join(", "));
        }
        let selected = self.stage.iter().filter(|stage| match &selection.only {
            Some(only) => only.contains(&stage.name) || self.is_needed(stage, only),
            None => stage.tier <= selection.tier,
        });
        Ok(selected.collect())
    }

    /// Returns `true` if one of the named stages uses the results of a stage.
    fn is_needed(&self, stage: &Stage, only: &[String]) -> bool {
        let named = self.stage.iter().filter(|other| only.contains(&other.name));
        named.into_iter().any(|other| other.needs.as_ref() == Some(&stage.name))
    }
}

/// A reason for skipping tests that is allowed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Allowed {
    pub(super) why: String,
    /// The tiers in which tests may be skipped for this reason; all tiers if omitted.
    tiers: Option<Vec<Tier>>,
}

/// The allowed skips by reason.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Skips {
    #[serde(default)]
    skips: BTreeMap<String, Allowed>,
}

impl Skips {
    /// Returns the entry that allows this reason in this tier.
    pub(super) fn allows(&self, reason: &str, tier: Tier) -> Option<&Allowed> {
        let entry = self.skips.get(reason)?;
        entry.tiers.as_ref().is_none_or(|tiers| tiers.contains(&tier)).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, Selection, Skips, Tier};

    const PLAN: &str = "\
[[stage]]
name = \"a\"
tier = \"fast\"
run = \"true\"
timeout_s = 1
[[stage]]
name = \"b\"
tier = \"full\"
run = \"true\"
timeout_s = 1
";

    fn names(selection: &Selection) -> Vec<String> {
        let plan: Plan = toml::from_str(PLAN).unwrap();
        plan.select(selection).unwrap().iter().map(|stage| stage.name.clone()).collect()
    }

    #[test]
    fn the_full_tier_holds_the_fast_one() {
        assert_eq!(names(&Selection::default()), ["a"]);
        assert_eq!(names(&Selection { tier: Tier::Full, only: None }), ["a", "b"]);
    }

    #[test]
    fn named_stages_run_in_any_tier() {
        let only = Some(vec!["b".to_owned()]);
        assert_eq!(names(&Selection { tier: Tier::Fast, only }), ["b"]);
    }

    #[test]
    fn needed_stages_are_selected_and_precede() {
        let text = PLAN.replace("name = \"b\"", "name = \"b\"\nneeds = \"a\"");
        let plan: Plan = toml::from_str(&text).unwrap();
        let only = Some(vec!["b".to_owned()]);
        let selected = plan.select(&Selection { tier: Tier::Fast, only }).unwrap();
        let selected: Vec<_> = selected.iter().map(|stage| stage.name.as_str()).collect();
        assert_eq!(selected, ["a", "b"]);
        let text = PLAN.replace("name = \"a\"", "name = \"a\"\nneeds = \"b\"");
        let plan: Plan = toml::from_str(&text).unwrap();
        assert!(plan.select(&Selection::default()).is_err());
    }

    #[test]
    fn unknown_and_double_names_are_refused() {
        let plan: Plan = toml::from_str(PLAN).unwrap();
        let only = Some(vec!["c".to_owned()]);
        assert!(plan.select(&Selection { tier: Tier::Fast, only }).is_err());
        let double: Plan = toml::from_str(&PLAN.replace("\"b\"", "\"a\"")).unwrap();
        assert!(double.select(&Selection::default()).is_err());
    }

    #[test]
    fn a_skip_may_be_allowed_in_one_tier_only() {
        let text = "[skips.x]\nwhy = \"w\"\ntiers = [\"fast\"]\n[skips.y]\nwhy = \"w\"\n";
        let skips: Skips = toml::from_str(text).unwrap();
        assert!(skips.allows("x", Tier::Fast).is_some());
        assert!(skips.allows("x", Tier::Full).is_none());
        assert!(skips.allows("y", Tier::Full).is_some());
        assert!(skips.allows("z", Tier::Fast).is_none());
    }
}
