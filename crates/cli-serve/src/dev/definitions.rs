//! Changes of the definitions of agents, which take effect without a restart.

use crate::staying::{note_changed, read_definitions};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::time::interval;
use weftwork::config::{Origin, Setting};
use weftwork::{App, Config};
use weftwork_cli_base::terminal::Terminal;

/// Interval of the readings. A change counts after two equal readings, because a file may be read while
/// it is written.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Metadata of the files of a folder of definitions.
type Stamps = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// Reads the definitions again whenever their files change. An agent whose file has problems stays as
/// it was. Never ends.
pub(super) async fn follow_definitions(app: App, mut config: Config, terminal: Terminal) {
    // The first definition makes the folder.
    let usual = || Setting { value: PathBuf::from("agents"), origin: Origin::Default };
    let folder = config.agents.get_or_insert_with(usual).value.clone();
    let mut known = read_stamps(&folder);
    let mut last = known.clone();
    let mut every = interval(LOOK_EVERY);
    loop {
        every.tick().await;
        let now = read_stamps(&folder);
        let rests = now == std::mem::replace(&mut last, now.clone());
        if !rests || now == known {
            continue;
        }
        known = now;
        let Some(read) = read_definitions(&config, &terminal) else { continue };
        let agents = app.defined_agents();
        agents.reload(read);
        let time = app.runtime().clock().now();
        if let Err(error) = agents.keep_versions(&**app.store(), time).await {
            terminal.note(format_args!("the versions of the agents are not stored: {error}"));
        }
        note_changed(&app, &terminal);
    }
}

/// Returns the metadata of the files in the folders of a folder.
fn read_stamps(folder: &Path) -> Stamps {
    let mut stamps = Stamps::new();
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    for agent in entries(folder) {
        for file in entries(&agent.path()) {
            if let Ok(found) = file.metadata() {
                stamps.insert(file.path(), (found.len(), found.modified().ok()));
            }
        }
    }
    stamps
}
