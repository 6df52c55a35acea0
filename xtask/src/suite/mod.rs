//! The driver of `make test`: runs the stages of `xtask/suite.toml`, parses the reports of test
//! runners, and fails on skips that `xtask/skips.toml` does not allow.

mod log;
mod plan;
mod process;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use log::Log;
use plan::{Plan, Selection, Skips, Stage, Tier};
use process::Ended;
use report::{Outcome, Verdict};

const PLAN: &str = "xtask/suite.toml";
/// The report of the last suite, in the folder of its logs.
pub(crate) const SECONDS: &str = "summary.txt";
const SKIPS: &str = "xtask/skips.toml";
/// Number of lines that are printed of a failed stage's log.
const TAIL_LINES: usize = 80;

/// Runs the selected stages; returns `true` if all succeed.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    let request = Request::parse(args)?;
    let plan: Plan = read(root, PLAN)?;
    let skips: Skips = read(root, SKIPS)?;
    let stages = plan.select(&request.selection)?;
    if request.list {
        for stage in stages {
            println!("{:<12} {:<5} {}", stage.name, stage.tier.name(), stage.run);
        }
        return Ok(true);
    }
    let tier = request.selection.tier;
    let logs = target_dir(root).join("suite");
    std::fs::create_dir_all(&logs)
        .with_context(|| format!("the folder {} could not be made", logs.display()))?;
    let start = now();
    let outcomes = perform_all(&stages, |stage| {
        let outcome = perform(root, &logs, stage, tier)?;
        print!("{}", report::line(&outcome));
        Ok(outcome)
    })?;
    let (text, good) = report::summary(&outcomes, start.elapsed(), &skips, tier);
    print!("{text}");
    std::fs::write(logs.join(SECONDS), &text).context("the summary could not be written")?;
    Ok(good)
}

fn read<T: serde::de::DeserializeOwned>(root: &Path, path: &str) -> Result<T> {
    let text = std::fs::read_to_string(root.join(path))
        .with_context(|| format!("{path} could not be read"))?;
    toml::from_str(&text).with_context(|| format!("{path} could not be parsed"))
}

/// Performs all stages; those of a lane beside the others, from the place of the first of the lane
/// on. Returns the outcomes in the order of the stages.
fn perform_all<T: Send>(
    stages: &[&Stage],
    perform: impl Fn(&Stage) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let perform = &perform;
    std::thread::scope(|scope| {
        let mut lanes: BTreeMap<&str, _> = BTreeMap::new();
        let mut performed = Vec::new();
        for (place, stage) in stages.iter().enumerate() {
            let Some(lane) = stage.lane.as_deref() else {
                performed.push((place, perform(stage)?));
                continue;
            };
            lanes.entry(lane).or_insert_with(|| {
                let places = (place..stages.len())
                    .filter(move |place| stages[*place].lane.as_deref() == Some(lane));
                scope.spawn(move || {
                    places
                        .map(|place| Ok((place, perform(stages[place])?)))
                        .collect::<Result<Vec<_>>>()
                })
            });
        }
        for lane in lanes.into_values() {
            let of_lane = lane.join().map_err(|_| anyhow!("the thread of a lane panicked"))?;
            performed.extend(of_lane?);
        }
        performed.sort_by_key(|(place, _)| *place);
        Ok(performed.into_iter().map(|(_, outcome)| outcome).collect())
    })
}

fn perform(root: &Path, logs: &Path, stage: &Stage, tier: Tier) -> Result<Outcome> {
    let log_path = logs.join(format!("{}.log", stage.name));
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", &stage.run]).current_dir(root);
    scrub_cargo(&mut command);
    command.envs([("CARGO_TERM_COLOR", "never"), ("NO_COLOR", "1"), ("TERM", "dumb")]);
    command.envs([("CARGO_TERM_PROGRESS_WHEN", "never"), ("WEFT_TIER", tier.name())]);
    // Stages start the programs that the stage `build` left there.
    command.env("WEFT_TARGET_DIR", target_dir(root));
    let start = now();
    let ended = process::run(&mut command, &log_path, Duration::from_secs(stage.timeout_s))
        .with_context(|| format!("stage {} could not be run", stage.name))?;
    let elapsed = start.elapsed();
    let bytes = std::fs::read(&log_path).context("the stage's log could not be read back")?;
    let log = Log::read(&String::from_utf8_lossy(&bytes));
    let verdict = match ended {
        Ended::Success if stage.tests && log.count.passed == 0 => Verdict::NoTests,
        Ended::Success => Verdict::Ok,
        Ended::Failure(status) => Verdict::Failed(status),
        Ended::TimedOut => Verdict::TimedOut(stage.timeout_s),
    };
    let tail = log.tail(TAIL_LINES).to_owned();
    Ok(Outcome { name: stage.name.clone(), elapsed, verdict, log, tail, log_path })
}

#[expect(clippy::disallowed_methods, reason = "the suite measures real seconds")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The output folder of cargo and of the suite.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root.join(dir),
        None => root.join("target"),
    }
}

/// Removes the variables that `cargo run` set for this program, so that a nested build has the same
/// environment as one from a shell and rebuilds nothing.
pub(crate) fn scrub_cargo(command: &mut Command) {
    const OURS: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"];
    for (key, _) in std::env::vars_os() {
        let name = key.to_string_lossy();
        if OURS.iter().any(|prefix| name.starts_with(prefix)) || name == "LD_LIBRARY_PATH" {
            command.env_remove(&key);
        }
    }
}

/// The parsed command line.
#[derive(Debug)]
struct Request {
    selection: Selection,
    list: bool,
}

impl Request {
    fn parse(args: &[&str]) -> Result<Self> {
        let mut request = Self { selection: Selection::default(), list: false };
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            match (arg, &mut args) {
                ("--list", _) => request.list = true,
                ("--tier", rest) => request.selection.tier = Tier::parse(value(arg, rest)?)?,
                ("--only", rest) => {
                    let names = value(arg, rest)?.split(',').map(str::to_owned);
                    request.selection.only = Some(names.collect());
                }
                _ => bail!("unknown option `{arg}`; expected --tier, --only or --list"),
            }
        }
        Ok(request)
    }
}

fn value<'a>(option: &str, rest: &mut impl Iterator<Item = &'a str>) -> Result<&'a str> {
    rest.next().with_context(|| format!("{option} needs a value"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Plan, Request, Skips, Tier, read, run};

    fn house(plan: &str, skips: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("xtask")).unwrap();
        std::fs::write(dir.path().join(super::PLAN), plan).unwrap();
        std::fs::write(dir.path().join(super::SKIPS), skips).unwrap();
        dir
    }

    const SKIPPING: &str = "[[stage]]\nname = \"weights\"\ntier = \"fast\"\ntimeout_s = 60\n\
                            run = \"echo 'SKIPPED(no weights): chat'; touch ran\"\n";

    #[test]
    fn an_unlisted_skip_fails_the_suite() {
        let dir = house(SKIPPING, "");
        assert!(!run(dir.path(), &[]).unwrap());
        assert!(dir.path().join("ran").exists());
    }

    #[test]
    fn a_listed_skip_passes() {
        let dir = house(SKIPPING, "[skips.\"no weights\"]\nwhy = \"not on every machine\"\n");
        assert!(run(dir.path(), &[]).unwrap());
    }

    #[test]
    fn a_failed_stage_fails_the_suite_after_the_others_ran() {
        let plan = format!(
            "[[stage]]\nname = \"bad\"\ntier = \"fast\"\ntimeout_s = 60\nrun = \"exit 3\"\n{SKIPPING}"
        );
        let dir = house(&plan, "[skips.\"no weights\"]\nwhy = \"not on every machine\"\n");
        assert!(!run(dir.path(), &[]).unwrap());
        assert!(dir.path().join("ran").exists());
    }

    #[test]
    fn stages_of_a_lane_run_beside_the_others_and_in_order() {
        let stage = |name: &str, lane: &str, run: &str| {
            format!(
                "[[stage]]\nname = \"{name}\"\ntier = \"fast\"\ntimeout_s = 60\n{lane}run = \"{run}\"\n"
            )
        };
        let lane = "lane = \"pages\"\n";
        // The first of the lane ends when the stage after it has begun.
        let plan = [
            stage("before", "", "test ! -e first; mkfifo pipe"),
            stage("first", lane, "touch first; cat pipe"),
            stage("second", lane, "test -e first"),
            stage("beside", "", "echo > pipe"),
        ];
        let dir = house(&plan.concat(), "");
        assert!(run(dir.path(), &[]).unwrap());
    }

    #[test]
    fn a_test_stage_that_runs_no_test_fails() {
        let plan = "[[stage]]\nname = \"t\"\ntier = \"fast\"\ntimeout_s = 60\ntests = true\nrun = \"true\"\n";
        let dir = house(plan, "");
        assert!(!run(dir.path(), &[]).unwrap());
    }

    #[test]
    fn the_command_line_is_read_and_checked() {
        let request = Request::parse(&["--tier", "full", "--only", "a,b", "--list"]).unwrap();
        assert_eq!(request.selection.tier, Tier::Full);
        assert_eq!(request.selection.only.unwrap(), ["a", "b"]);
        assert!(request.list);
        assert!(Request::parse(&["--tier"]).is_err());
        assert!(Request::parse(&["--tier", "slow"]).is_err());
        assert!(Request::parse(&["x"]).is_err());
    }

    #[test]
    fn the_own_tables_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let plan: Plan = read(root, super::PLAN).unwrap();
        assert!(!plan.select(&Default::default()).unwrap().is_empty());
        let _: Skips = read(root, super::SKIPS).unwrap();
    }
}
