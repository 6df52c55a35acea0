//! The job `arrows`: prints the tables of modules from the sources, and their circles.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::{CRATES, Circle, DOCUMENT, Modules, Place, Table, circles, table, without_places};
use crate::tidy::House;
use crate::tree::Tree;

/// Number of places printed for each arrow of a circle.
const PLACES_MAX: usize = 3;

#[derive(Debug, Default)]
struct Options {
    crates: Vec<String>,
    open: BTreeSet<String>,
    write: bool,
}

/// Prints the tables of the crates, or writes them to the document; returns `false` if there are
/// circles.
pub(crate) fn run(root: &Path, args: &[&str]) -> Result<bool> {
    let options = options(args)?;
    let tree = Tree::read(root)?;
    let house = House::of(&tree);
    let mut document = tree.text(DOCUMENT).unwrap_or_default().to_owned();
    let mut is_clean = true;
    for name in &options.crates {
        let old = Table::read(&document, name);
        let modules = Modules::of(&house, name);
        let mut opened = old.as_ref().map(Table::opened).unwrap_or_default();
        opened.extend(options.open.iter().cloned());
        opened.retain(|module| modules.has(module));
        let new = table::text(name, &modules, &opened);
        if options.write {
            let old = old.with_context(|| format!("{DOCUMENT} has no table of `{name}`"))?;
            document = replaced(&document, &old, &new);
        } else {
            println!("{new}");
        }
        is_clean &= print_circles(name, &modules.arrows(&opened));
    }
    if options.write {
        std::fs::write(root.join(DOCUMENT), document)?;
    }
    Ok(is_clean)
}

fn options(args: &[&str]) -> Result<Options> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--write" => options.write = true,
            "--open" => {
                let module = args.next().context("`--open` needs a module")?;
                options.open.insert((*module).to_owned());
            }
            name => {
                if !CRATES.contains(&name) {
                    bail!("no crate `{name}` with such a table; expected {}", CRATES.join(", "));
                }
                options.crates.push(name.to_owned());
            }
        }
    }
    ensure!(
        options.open.is_empty() || options.crates.len() == 1,
        "`--open` needs the name of one crate"
    );
    if options.crates.is_empty() {
        options.crates = CRATES.map(str::to_owned).to_vec();
    }
    Ok(options)
}

/// The document with another text in place of a table.
fn replaced(document: &str, table: &Table, text: &str) -> String {
    let lines: Vec<&str> = document.lines().collect();
    let before = &lines[..table.first_line - 1];
    let after = lines.get(table.last_line..).unwrap_or_default();
    let parts = before.iter().copied().chain(text.lines()).chain(after.iter().copied());
    parts.collect::<Vec<_>>().join("\n") + "\n"
}

/// Prints the circles with the places of their arrows, the arrows with the fewest places first.
fn print_circles(name: &str, arrows: &BTreeMap<(String, String), BTreeSet<Place>>) -> bool {
    let found = circles(&without_places(arrows));
    let count: usize = found.iter().map(|circle| circle.arrows.len()).sum();
    println!("{name}: {} arrows, {count} of them in {} circles", arrows.len(), found.len());
    for Circle { units, arrows: circular, path } in &found {
        println!("\ncircle of {} modules, such as {}", units.len(), path.join(" → "));
        let mut listed: Vec<_> =
            circular.iter().filter_map(|arrow| arrows.get_key_value(arrow)).collect();
        listed.sort_by_key(|(_, places)| places.len());
        for ((from, to), places) in listed {
            println!("  {from} → {to}");
            for place in places.iter().take(PLACES_MAX) {
                println!("    {}:{} {}", place.file, place.line, place.name);
            }
            if let Some(more) = places.len().checked_sub(PLACES_MAX).filter(|more| *more > 0) {
                println!("    and {more} more");
            }
        }
    }
    found.is_empty()
}
