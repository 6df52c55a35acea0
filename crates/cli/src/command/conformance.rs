//! `weft conformance`: specs from standard input, traces to standard output.

use crate::CliError;
use crate::args::{Conformance, ModeName, ProfileName};
use crate::exit::Exit;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weftwork::graph::StoreSaver;
use weftwork::sqlite::{Options, SqliteStore};
use weftwork::store::{CheckpointStore, MemoryStore};
use weftwork::types::{OrgId, Principal};
use weftwork_conformance::{Mode, Profile, Savers, Setting, answer, batch};

/// Plays specs over a store: `values` (in memory, as they are), or rows in `memory` or in an
/// `sqlite` file of its own.
pub(crate) fn conformance(args: &Conformance, place: Option<&str>) -> Result<Exit, CliError> {
    let profile = match args.profile {
        ProfileName::Langgraph => Profile::LangGraph,
        ProfileName::Weft => Profile::Weft,
    };
    let mode = match args.mode {
        ModeName::Straight => Mode::Straight,
        ModeName::RebuildEachStep => Mode::RebuildEachStep,
    };
    let mut setting = Setting::from(profile).with_mode(mode);
    let folder = tempfile::tempdir().map_err(|error| CliError::Input(error.to_string()))?;
    if let Some(store) = store(place, folder.path())? {
        setting = setting.with_savers(each_its_own(store));
    }
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    if args.batch {
        batch(input, output, setting)?;
        return Ok(Exit::Done);
    }
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(|error| CliError::Input(error.to_string()))?;
    writeln!(output, "{}", answer(&String::from_utf8_lossy(&bytes), setting))?;
    output.flush()?;
    Ok(Exit::Done)
}

fn store(place: Option<&str>, folder: &Path) -> Result<Option<Arc<dyn CheckpointStore>>, CliError> {
    Ok(match place.unwrap_or("values") {
        "values" => None,
        "memory" => Some(Arc::new(MemoryStore::new())),
        "sqlite" => {
            let store = SqliteStore::open(folder.join("conformance.db"), &Options::default());
            Some(Arc::new(store?))
        }
        other => {
            let what =
                format!("the store of specs is `values`, `memory` or `sqlite`, found `{other}`");
            return Err(CliError::Input(what));
        }
    })
}

/// One store for all specs, each of which is an organisation of its own there.
fn each_its_own(store: Arc<dyn CheckpointStore>) -> Savers {
    let count = AtomicU64::new(0);
    Arc::new(move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let mut who = Principal::local();
        if let Ok(org) = OrgId::new(format!("spec-{number}")) {
            who.org = org;
        }
        StoreSaver::new(Arc::clone(&store), who)
    })
}
