//! The common parts of the engines' programs: cases, clocks, checks, and the measuring loop.
//!
//! A program implements [`Engine`] and calls [`main`]. It is started as `program CASE SAVER RUNTIME
//! SECONDS FILE`, warms up, measures for the given time and prints one line of JSON. Creating
//! inputs and checking results is not measured; freeing results is.

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

/// Any error of a peer's library.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Maximum number of runs in a batch, so that inputs and results fit into the caches.
const BATCH_MAX: u64 = 64;
/// Target duration of a batch in seconds.
const BATCH_SECONDS: f64 = 0.05;

/// An engine with the graph of one case and the checkpointer of one cell.
pub trait Engine: Sized + Send + Sync {
    /// The input of a run.
    type Input: Send;
    /// The result of a run.
    type Output: Send;

    /// Builds the graph and a new checkpointer. The memory checkpointer is opened for each batch,
    /// so that its size is bounded; the others are opened once per program.
    fn open(cell: &Cell) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Returns the input of a run. Each run has its own thread.
    ///
    /// # Errors
    /// The library's error.
    fn input(&self, run: u64) -> Result<Self::Input, Failure>;

    /// Runs the graph once from start to end.
    fn run(&self, input: Self::Input)
    -> impl Future<Output = Result<Self::Output, Failure>> + Send;

    /// Returns the content of a result.
    fn found(output: &Self::Output) -> Found;

    /// Number of states that the memory checkpointer stored for a run's thread; `None` if the
    /// library does not report it. The driver counts those in files.
    fn stored(&self, run: u64) -> impl Future<Output = Result<Option<u64>, Failure>> + Send;
}

/// A result that differs from the expected one.
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

/// Measures the cell given by the program's arguments and prints the result.
///
/// # Errors
/// If the arguments are invalid, the engine fails, or a result is wrong.
pub fn main<E: Engine + 'static>(cell: Cell) -> Result<(), Failure> {
    let runtime = cell.runtime.build()?;
    // On a task of the pool, like the runs of a server, so that tasks that the engine spawns are
    // woken on the same thread.
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
    /// Executes runs one after the other, and measures only their execution.
    async fn batch(&mut self, runs: u64) -> Result<Spent, Failure> {
        if self.cell.checkpointer == Saver::Memory && self.runs > 0 {
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
        cpu_s += freed.0;
        wall_s += freed.1;
        self.stored = self.engine.stored(self.runs - 1).await?;
        Ok(Spent { runs, cpu_s, wall_s })
    }
}
