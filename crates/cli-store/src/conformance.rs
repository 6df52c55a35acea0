//! `weft conformance`: runs specs from standard input and prints their traces.

use crate::args::{Conformance, ModeName, ProfileName, RunsName};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use weftwork::graph::SystemClock;
use weftwork::sqlite::{Options, SqliteStore};
use weftwork::store::{MemoryStore, Store};
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_conformance::{Mode, Profile, Setting, answer, batch};
use weftwork_postgres::PostgresStore;

/// The Postgres schema for checkpoints of specs, separate from other data of the database.
const SCHEMA: &str = "weftwork_conformance";
/// Environment variable in which `scripts/postgres.sh` passes the URL of its database.
const ADDRESS: &str = "WEFT_TEST_POSTGRES";

/// Executes specs over a store: `values` (checkpoints as values in memory), or checkpoints as rows
/// in `memory`, in a temporary `sqlite` file, or in a `postgres` database.
pub fn conformance(args: &Conformance, place: Option<&str>) -> Result<Exit, CliError> {
    let profile = match args.profile {
        ProfileName::Langgraph => Profile::LangGraph,
        ProfileName::Weft => Profile::Weft,
    };
    let mode = match args.mode {
        ModeName::Straight => Mode::Straight,
        ModeName::Streamed => Mode::Streamed,
        ModeName::RebuildEachStep => Mode::RebuildEachStep,
        ModeName::CrashEachWrite => Mode::CrashEachWrite,
    };
    let mut setting = Setting::from(profile).with_mode(mode);
    let folder = tempfile::tempdir().map_err(|error| CliError::Input(error.to_string()))?;
    let store = open_store(place, args.postgres.as_deref(), folder.path())?;
    setting = match (args.runs, store) {
        (RunsName::Local, None) => setting,
        (RunsName::Local, Some(store)) => setting.over(store),
        (RunsName::Hosted, None) => setting.hosted(),
        (RunsName::Hosted, Some(store)) => setting.hosted_over(store),
    };
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    if args.batch {
        batch(input, output, setting.clone())?;
        writeln!(std::io::stderr(), "{}", setting.tally())?;
        return Ok(Exit::Done);
    }
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| CliError::Input(error.to_string()))?;
    writeln!(output, "{}", answer(&String::from_utf8_lossy(&bytes), setting))?;
    output.flush()?;
    Ok(Exit::Done)
}

fn open_store(
    place: Option<&str>,
    postgres: Option<&str>,
    folder: &Path,
) -> Result<Option<Arc<dyn Store>>, CliError> {
    Ok(match place.unwrap_or("values") {
        "values" => None,
        "memory" => Some(Arc::new(MemoryStore::new())),
        "sqlite" => {
            let store = SqliteStore::open(folder.join("conformance.db"), &Options::default());
            Some(Arc::new(store?))
        }
        "postgres" => {
            let address = postgres.map(str::to_owned).or_else(|| std::env::var(ADDRESS).ok());
            let address = address.ok_or_else(|| {
                let what =
                    format!("`postgres` needs a database: pass `--postgres` or set {ADDRESS}");
                CliError::Input(what)
            })?;
            let options = weftwork_postgres::Options {
                schema: SCHEMA.to_owned(),
                ..weftwork_postgres::Options::new(Arc::new(SystemClock::new()))
            };
            Some(Arc::new(PostgresStore::open(&address, &options)?))
        }
        other => {
            let what = format!(
                "unknown store `{other}`, expected `values`, `memory`, `sqlite` or `postgres`"
            );
            return Err(CliError::Input(what));
        }
    })
}
