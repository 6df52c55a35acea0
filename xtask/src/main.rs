//! Checks, figures and other development tasks, run as `cargo xtask <job>`.

#![expect(clippy::print_stdout, reason = "a command line tool answers on stdout")]

mod check;
mod cost;
mod features;
mod figures;
mod markdown;
mod metrics;
mod modules;
mod readme;
mod scaffold;
mod source;
mod suite;
mod tidy;
mod tree;
mod workspace;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use readme::Programs;

const USAGE: &str = "\
cargo xtask <job>

  tidy [--tighten]                 check the project's rules; --tighten lowers xtask/ratchet.toml
  arrows [<crate>] [--open <module>]… [--write]
                                   print the tables of modules and their circles; --write updates
                                   xtask/arrows.md
  metrics                          print sizes, test and doc shares, and dependencies per crate
  new error <CODE> <title…>        make docs/errors/<CODE>.md
  new adr <title…>                 make the next docs/adr/NNNN-<title>.md
  new crate <name> <description…>  make crates/<name> with a first test to fill in
  suite [--tier fast|full] [--only a,b] [--list]
                                   run the stages of xtask/suite.toml in order
  cost crates | build [--rev REV] | sizes [FILE] | tests
                                   print CPU and wall time of builds from nothing and check
                                   xtask/cost.toml; the largest crates and generic functions of the
                                   binary; seconds of the stages and tests of the last suite
  check [--since REF]              format, rules, lints and tests of the crates that changed since
                                   the branch began, and of those that use them
  features [--part|--build]        check each crate with each of its features alone; --part checks one
                                   crate, --build builds
                                   them, and tests the binary without its optional parts
  readme [--built] [FILE]          run the `sh run` blocks of README.md in order; --built starts the
                                   programs of a build of the workspace
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs a job. Returns `false` if the job ran and found a problem.
fn run(args: &[String]) -> Result<bool> {
    let root = root()?;
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["tidy", "--tighten"] => tidy::tighten(&root),
        ["arrows", rest @ ..] => modules::run(&root, rest),
        ["metrics"] => metrics::run(&root),
        ["new", rest @ ..] => scaffold::run(&root, rest),
        ["suite", rest @ ..] => suite::run(&root, rest),
        ["cost", rest @ ..] => cost::run(&root, rest),
        ["check", rest @ ..] => check::run(&root, rest),
        ["features"] => features::run(&root, features::Depth::Check),
        ["features", "--part"] => features::run(&root, features::Depth::CheckPart),
        ["features", "--build"] => features::run(&root, features::Depth::Build),
        ["readme", "--built"] => readme::run(&root, "README.md", Programs::Built),
        ["readme", "--built", file] => readme::run(&root, file, Programs::Built),
        ["readme"] => readme::run(&root, "README.md", Programs::Cargo),
        ["readme", file] => readme::run(&root, file, Programs::Cargo),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        _ => bail!("unknown job `{}`\n\n{USAGE}", args.join(" ")),
    }
}

/// The root of the repository: the parent of this package, independent of the working directory.
fn root() -> Result<PathBuf> {
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("CARGO_MANIFEST_DIR is not set; start this with `cargo xtask`")?;
    let parent = Path::new(&manifest_dir).parent().context("the xtask package has no parent")?;
    Ok(parent.to_owned())
}
