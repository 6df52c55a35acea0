//! What every engine's program shares: the cases, the clocks, the checks, the loop.
//!
//! A program implements [`Engine`] and calls [`main`] with what opens it. It is started as
//! `program CASE SAVER RUNTIME SECONDS FILE`, warms up, measures for that long and prints one
//! line of JSON. Inputs are made and results are checked while the clocks stand; that
//! results are freed is part of what they cost.

mod bound;
mod cell;
mod clock;
#[path = "../../../inline.rs"]
mod inline;
mod work;

pub use bound::Bound;
pub use cell::{Case, Cell, Saver, Threads, UnknownWord, Waits};
pub use work::{DONE, Found, is_done, message, message_json, wide};

use clock::{Spent, Watch};
use serde_json::json;
use std::error::Error;
use std::fmt;

/// Whatever a peer's library reports.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Runs in one batch, at most: few enough that inputs and results stay in the caches.
const BATCH_MAX: u64 = 64;
/// What a batch should take, in seconds.
const BATCH_SECONDS: f64 = 0.05;

/// An engine with the graph of one case and the saver of one cell.
pub trait Engine: Sized + Send + Sync {
    /// What a run starts from.
    type Input: Send;
    /// What a run leaves.
    type Output: Send;

    /// Builds the graph and a new saver. The memory saver is opened once for each batch, so that
    /// it does not grow without bound; the others once for each program.
    fn open(cell: &Cell) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// The input of a run; each run has a thread of its own.
    ///
    /// # Errors
    /// What the library says of it.
    fn input(&self, run: u64) -> Result<Self::Input, Failure>;

    /// One run from its start to its end.
    fn run(&self, input: Self::Input)
    -> impl Future<Output = Result<Self::Output, Failure>> + Send;

    /// What is in a result.
    fn found(output: &Self::Output) -> Found;

    /// How many states of a run's thread the memory saver has taken; `None` where the library does
    /// not tell. Files are counted by the driver.
    fn stored(&self, run: u64) -> impl Future<Output = Result<Option<u64>, Failure>> + Send;
}

/// A result that is not what the case asks for.
#[derive(Debug)]
struct WrongResult {
    case: Case,
    found: Found,
}

impl fmt::Display for WrongResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = self.case.expected();
        write!(f, "{} ended with {:?}, expected {expected:?}", self.case, self.found)
    }
}

impl Error for WrongResult {}

/// Measures the cell that the program's arguments name and prints what it took.
///
/// # Errors
/// When the arguments are not those of the crate's documentation, when the engine fails, and when
/// a result is wrong.
pub fn main<E: Engine + 'static>(cell: Cell) -> Result<(), Failure> {
    let runtime = cell.runtime.build()?;
    // On a task of the pool, as a server's runs are: what the engine spawns is then woken on the
    // same thread, not across threads.
    let line = runtime.block_on(async move { tokio::spawn(measure::<E>(cell)).await })??;
    #[expect(clippy::print_stdout, reason = "its output is its purpose")]
    {
        println!("{line}");
    }
    Ok(())
}

async fn measure<E: Engine>(cell: Cell) -> Result<String, Failure> {
    let mut bench = Bench::<E> { engine: E::open(&cell).await?, cell, runs: 0, stored: None };
    let first = bench.batch(1).await?;
    let warm_up = bench.cell.seconds / 3.0;
    let mut warm = first;
    let mut batch = 1;
    while warm.wall_s < warm_up {
        let each = (warm.wall_s / warm.runs as f64).max(1e-9);
        batch = ((BATCH_SECONDS / each) as u64).clamp(1, BATCH_MAX);
        warm = warm.and(bench.batch(batch).await?);
    }
    let mut spent = Spent::default();
    while spent.wall_s < bench.cell.seconds {
        spent = spent.and(bench.batch(batch).await?);
    }
    let tasks = spent.runs as f64 * f64::from(bench.cell.case.tasks());
    let line = json!({
        "cpu_us_per_task": spent.cpu_s * 1e6 / tasks,
        "wall_us_per_task": spent.wall_s * 1e6 / tasks,
        "runs": bench.runs,
        "stored_per_run": bench.stored,
    });
    Ok(line.to_string())
}

struct Bench<E> {
    engine: E,
    cell: Cell,
    runs: u64,
    stored: Option<u64>,
}

impl<E: Engine> Bench<E> {
    /// Some runs one after the other, with the clocks running only while they do.
    async fn batch(&mut self, runs: u64) -> Result<Spent, Failure> {
        if self.cell.saver == Saver::Memory && self.runs > 0 {
            self.engine = E::open(&self.cell).await?;
        }
        let numbers = self.runs..self.runs + runs;
        let inputs: Result<Vec<E::Input>, Failure> =
            numbers.map(|run| self.engine.input(run)).collect();
        let inputs = inputs?;
        let mut outputs = Vec::with_capacity(inputs.len());
        let watch = Watch::start();
        for input in inputs {
            outputs.push(self.engine.run(input).await?);
        }
        let (mut cpu_s, mut wall_s) = watch.stop();
        self.runs += runs;
        for output in &outputs {
            let found = E::found(output);
            if found != self.cell.case.expected() {
                return Err(WrongResult { case: self.cell.case, found }.into());
            }
        }
        let watch = Watch::start();
        drop(outputs);
        let freed = watch.stop();
        (cpu_s, wall_s) = (cpu_s + freed.0, wall_s + freed.1);
        self.stored = self.engine.stored(self.runs - 1).await?;
        Ok(Spent { runs, cpu_s, wall_s })
    }
}
