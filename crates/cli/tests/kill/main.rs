//! `kill -9` at random moments of the story of the order desk, on a provider in another process.
//!
//! Every run ends, the refund is applied once, and no call is made again whose answer was on
//! record. With a planted bug that switches the journal off, the same check finds calls that were.
#![expect(clippy::expect_used, reason = "a test that fails does so by a panic that says why")]
#![expect(clippy::print_stdout, reason = "the figures are what the test is run for")]

mod check;
mod process;
mod provider;
mod races;
mod random;
mod story;

use check::{Findings, check};
use process::{Plan, Watch};
use provider::Provider;
use random::Random;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use story::{Act, DURABILITIES, Measure, Story};

/// Draws another series of kills.
const SEED: &str = "WEFT_TEST_SEED";
/// Asks for another number of kills.
const KILLS: &str = "WEFT_CHAOS_KILLS";
/// The most kills of one story; then it may come to its end.
const KILLS_PER_STORY: u64 = 8;

/// Kills stories until told to stop.
#[derive(Debug)]
struct Killer {
    seed: u64,
    random: Random,
    provider: Provider,
    watch: Watch,
    measure: Measure,
    stories: u64,
    tally: Tally,
    _folder: tempfile::TempDir,
}

/// Counts over all kills.
#[derive(Debug, Default)]
struct Tally {
    sent: usize,
    landed: usize,
    possibly_paid: u32,
    /// Number of kills that landed in stories, by durability of their supersteps.
    modes: BTreeMap<&'static str, usize>,
    /// Number of kills that landed in each act and phase.
    places: BTreeMap<(Act, &'static str), usize>,
}

impl Killer {
    fn new(stream: u64) -> Self {
        let seed = std::env::var(SEED).map_or(1, |seed| seed.parse().expect("a number"));
        println!("seed {seed}; another one: {SEED}=N");
        let folder = tempfile::tempdir().expect("a folder");
        let (provider, told) = Provider::start(&folder.path().join("requests.log"), seed);
        let mut watch = Watch::new(told);
        let mut warm = Story::new("warm", &provider, "sync");
        let measure = Measure::take(&mut warm, &mut watch);
        assert_eq!(check(&warm.facts(&provider)).violations, [], "without a kill");
        let random = Random::new(seed, stream);
        Self {
            seed,
            random,
            provider,
            watch,
            measure,
            stories: 0,
            tally: Tally::default(),
            _folder: folder,
        }
    }

    /// Plays one story, killing its processes again and again.
    fn story(&mut self) -> Findings {
        self.stories += 1;
        let name = format!("story-{}", self.stories);
        let durability = DURABILITIES[self.random.below(DURABILITIES.len() as u64) as usize];
        let mut story = Story::new(&name, &self.provider, durability);
        let mut kills_left = 1 + self.random.below(KILLS_PER_STORY);
        while let Some(act) = story.next() {
            let plan = (kills_left > 0).then(|| self.plan(act));
            let ended = story.play(act, plan, &mut self.watch);
            let Some(landed) = ended.landed else { continue };
            kills_left -= 1;
            self.tally.sent += 1;
            self.tally.landed += usize::from(landed);
            *self.tally.modes.entry(durability).or_default() += usize::from(landed);
            *self.tally.places.entry((act, ended.phase)).or_default() += usize::from(landed);
        }
        let findings = check(&story.facts(&self.provider));
        self.tally.possibly_paid += findings.possibly_paid;
        findings
    }

    /// A moment between the start of a process and its end.
    fn plan(&mut self, act: Act) -> Plan {
        let us = |us| Duration::from_micros(us);
        if self.random.below(6) == 0 {
            let moment = us(self.random.below(self.measure.start_up_us));
            return Plan { ticks: 0, moment, after_end: false };
        }
        let most = self.measure.ticks.get(&act).or(self.measure.ticks.get(&Act::Approve));
        let ticks = 1 + self.random.below(most.copied().expect("the story was measured"));
        // Half of them at once: what comes right after an event is over soon.
        let longest = if self.random.below(2) == 0 { 1_500 } else { 8_000 };
        let moment = us(self.random.below(longest));
        Plan { ticks, moment, after_end: self.random.below(4) == 0 }
    }
}

/// Returns the number of kills: few, thousands when the full figures are requested, or the number
/// that is named.
fn kills_wanted() -> usize {
    let named = std::env::var(KILLS).map(|kills| kills.parse().expect("a number"));
    let full = std::env::var("WEFT_FAULTS").is_ok_and(|faults| faults == "full");
    named.unwrap_or(if full { 10_000 } else { 50 })
}

/// Says the figures and keeps them in `target/tmp`.
fn report(figures: &str) {
    print!("{figures}");
    let log = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("kill-calls.log");
    std::fs::write(log, figures).expect("the log can be written");
}

#[test]
fn killed_anywhere_the_story_ends_once_and_no_recorded_call_is_repeated() {
    let kills = kills_wanted();
    let mut killer = Killer::new(1);
    let began = killer.watch.elapsed();
    let mut repeats = 0;
    let mut violations = Vec::new();
    while killer.tally.landed < kills {
        let findings = killer.story();
        repeats += findings.repeats();
        let stories = killer.stories;
        violations.extend(findings.violations.into_iter().map(|one| (stories, one)));
    }
    let seconds = (killer.watch.elapsed() - began).as_secs_f64();
    let Tally { sent, landed, possibly_paid, modes, places } = &killer.tally;
    let modes: Vec<_> = modes.iter().map(|(mode, times)| format!("{times} {mode}")).collect();
    let share = *landed as f64 * 100.0 / *sent as f64;
    let mut figures = format!(
        "kills: {landed} ({}), {share:.1} % of those sent landed while the process ran\n\
         repeated although recorded: {repeats}, possibly paid: {possibly_paid}\n\
         stories: {}, seconds: {seconds:.1}\n",
        modes.join(", "),
        killer.stories
    );
    for ((act, phase), times) in places {
        writeln!(figures, "  {:<10} {phase:<13} {times}", act.name()).expect("a string takes all");
    }
    report(&figures);
    assert!(violations.is_empty(), "seed {}: {violations:#?}", killer.seed);
    assert!(share >= 95.0, "seed {}: {places:?}", killer.seed);
}
