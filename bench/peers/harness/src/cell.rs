//! A cell of the table: a case, a checkpointer, and the settings of a run.

use crate::Failure;
use crate::inline::Work;
use crate::work::Found;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use tokio::runtime::{Builder, Runtime};

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// Ten nodes in a chain, each reads `n` and writes `n + 1`.
    Seq10,
    /// A start, a hundred branches that append one item each, and a join that counts them.
    Fan100,
    /// An agent that calls a tool fifty times and then answers, with a message at each step.
    React50,
    /// `Seq10` with a hundred additional keys of a hundred bytes.
    Wide100,
}

impl Case {
    /// Number of executed nodes.
    #[must_use]
    pub fn tasks(self) -> u32 {
        Work::from(self).tasks()
    }

    /// The expected content of the state at the end.
    #[must_use]
    pub fn expected(self) -> Found {
        match self {
            Self::Seq10 => Found { n: 10, ..Found::default() },
            Self::Fan100 => Found { n: 100, items: 100, ..Found::default() },
            Self::React50 => Found { messages: 101, ..Found::default() },
            Self::Wide100 => Found { n: 10, keys: 100, ..Found::default() },
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Seq10 => "seq10",
            Self::Fan100 => "fan100",
            Self::React50 => "react50",
            Self::Wide100 => "wide100",
        })
    }
}

/// The checkpointer that stores the state of each superstep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Saver {
    /// Without a checkpointer.
    None,
    /// Memory of this process.
    Memory,
    /// An SQLite file.
    Sqlite,
}

/// The point at which a checkpointer on disk syncs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// Rarely: a power failure may lose the last commits.
    Seldom,
    /// At each commit.
    Always,
}

/// The tokio runtime of the engine; the driver determines which one is faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// A single thread.
    Current,
    /// A pool of two threads.
    Pool,
}

impl Threads {
    pub(crate) fn build(self) -> std::io::Result<Runtime> {
        match self {
            Self::Current => Builder::new_current_thread().enable_all().build(),
            Self::Pool => Builder::new_multi_thread().worker_threads(2).enable_all().build(),
        }
    }
}

/// The measurement to make.
#[derive(Debug, Clone)]
pub struct Cell {
    /// The case.
    pub case: Case,
    /// The checkpointer.
    pub checkpointer: Saver,
    /// The syncs of the checkpointer.
    pub waits: Waits,
    /// The runtime.
    pub runtime: Threads,
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// The file of the SQLite checkpointer, which exists and uses a write-ahead log.
    pub file: PathBuf,
}

impl Cell {
    /// Parses the program's arguments.
    ///
    /// # Errors
    /// If an argument is missing or unknown.
    pub fn from_args() -> Result<Self, Failure> {
        let mut args = std::env::args().skip(1);
        let mut next = || args.next().unwrap_or_default();
        let case = next().parse()?;
        let checkpointer = next();
        let (checkpointer, waits) = match checkpointer.strip_suffix("-full") {
            Some(checkpointer) => (checkpointer.parse()?, Waits::Always),
            None => (checkpointer.parse()?, Waits::Seldom),
        };
        Ok(Self {
            case,
            checkpointer,
            waits,
            runtime: next().parse()?,
            seconds: next().parse()?,
            file: next().into(),
        })
    }

    /// Returns the error for a checkpointer that the engine does not have.
    #[must_use]
    pub fn no_such_saver(&self) -> Failure {
        UnknownWord {
            what: "checkpointer of this engine",
            word: format!("{:?}", self.checkpointer),
        }
        .into()
    }
}

/// The error for an unknown argument.
#[derive(Debug)]
pub struct UnknownWord {
    what: &'static str,
    word: String,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no {}; arguments: CASE SAVER RUNTIME SECONDS FILE", self.word, self.what)
    }
}

impl Error for UnknownWord {}

fn find<T: Copy>(
    what: &'static str,
    word: &str,
    known: &[(&'static str, T)],
) -> Result<T, UnknownWord> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value).ok_or_else(|| UnknownWord { what, word: word.to_owned() })
}

impl FromStr for Case {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        use Case::{Fan100, React50, Seq10, Wide100};
        let known =
            [("seq10", Seq10), ("fan100", Fan100), ("react50", React50), ("wide100", Wide100)];
        find("case", word, &known)
    }
}

impl FromStr for Saver {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        let known = [("none", Self::None), ("memory", Self::Memory), ("sqlite", Self::Sqlite)];
        find("saver", word, &known)
    }
}

impl FromStr for Threads {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        find("runtime", word, &[("current", Self::Current), ("pool", Self::Pool)])
    }
}
