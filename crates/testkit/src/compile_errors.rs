//! Compares the errors of the compiler for programs that must not compile with recorded ones.
//!
//! The programs are compiled against the libraries that were built with the test itself, so no
//! library is built once more. `WEFT_UPDATE_ERRORS=1` records the errors anew.

#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

/// Lines that say nothing of the program, or name a file that the compiler wrote.
const NOISE: [&str; 4] = [
    "error: aborting due to",
    "For more information",
    "= note: the full name for the type",
    "= note: consider using `--verbose`",
];

/// Compiles each `.rs` file of a folder on its own, with the named libraries, and compares what the
/// compiler prints with the `.stderr` file beside it.
///
/// The folder is relative to the package of the test. Excerpts of other files than the case are left
/// out, because they change with each line that is added to a library.
///
/// # Panics
/// If a program compiles, if its errors are others than the recorded ones, or if the folder has none.
pub fn assert_recorded(folder: &str, libraries: &[&str]) {
    let package = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("a test run by cargo"));
    let programs: Vec<PathBuf> = fs::read_dir(package.join(folder))
        .expect("a folder of programs")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .collect();
    assert!(!programs.is_empty(), "{folder} has no programs");
    let compiler = Compiler::new(&package, libraries);
    let differences: Vec<String> = thread::scope(|scope| {
        let started: Vec<_> =
            programs.iter().map(|program| scope.spawn(|| compiler.difference(program))).collect();
        started.into_iter().filter_map(|one| one.join().expect("no panic")).collect()
    });
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A compiler with its libraries.
struct Compiler {
    package: PathBuf,
    /// The folder of the test's own program, which has all libraries.
    built: PathBuf,
    arguments: Vec<String>,
}

impl Compiler {
    fn new(package: &Path, libraries: &[&str]) -> Self {
        let program = env::current_exe().expect("the path of the test");
        let built = program.parent().expect("a folder of builds").to_owned();
        let mut arguments = vec![format!("-Ldependency={}", built.display())];
        for library in libraries {
            arguments.push(format!(
                "--extern={library}={}",
                build_of(library, &program, &built).display()
            ));
        }
        Self { package: package.to_owned(), built, arguments }
    }

    /// The difference between the errors of a program and the recorded ones.
    fn difference(&self, program: &Path) -> Option<String> {
        let name = program.strip_prefix(&self.package).expect("a program of the package");
        let stem = name.file_stem().and_then(|stem| stem.to_str()).expect("a name in ASCII");
        let output = Command::new(env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()))
            .current_dir(&self.package)
            .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--color=never"])
            .arg(format!("--crate-name={stem}"))
            .arg(format!("-o{}", self.built.join(format!("compile_errors_{stem}")).display()))
            .args(&self.arguments)
            .arg(name)
            .output()
            .expect("the compiler starts");
        if output.status.success() {
            return Some(format!("{} compiles", name.display()));
        }
        let found = without_excerpts(&String::from_utf8_lossy(&output.stderr), name);
        let record = program.with_extension("stderr");
        if env::var_os("WEFT_UPDATE_ERRORS").is_some() {
            fs::write(&record, found).expect("the record is written");
            return None;
        }
        let expected = fs::read_to_string(&record).unwrap_or_default();
        (found != expected).then(|| {
            format!(
                "{}: expected\n{expected}\nfound\n{found}\n(WEFT_UPDATE_ERRORS=1 records it)",
                name.display()
            )
        })
    }
}

/// The build of a library that a program uses: the newest before the program.
fn build_of(library: &str, program: &Path, folder: &Path) -> PathBuf {
    let written = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let built = written(program);
    let prefix = format!("lib{library}-");
    let builds = fs::read_dir(folder).expect("a folder of builds").filter_map(|entry| {
        let path = entry.ok()?.path();
        let name = path.file_name()?.to_str()?;
        let is_build = name.starts_with(&prefix) && name.ends_with(".rlib");
        is_build.then(|| (written(&path), path))
    });
    let before = builds.filter(|(written, _)| *written <= built);
    let newest = before.max_by_key(|(written, _)| *written);
    newest.unwrap_or_else(|| panic!("{} has no {library}", folder.display())).1
}

/// Errors with the names of other files than the program, but without their lines, and without lists
/// of types.
fn without_excerpts(errors: &str, program: &Path) -> String {
    let program = format!("{}:", program.display());
    let mut kept = String::new();
    let mut is_elsewhere = false;
    let mut is_list = false;
    for line in errors.lines() {
        let start = line.trim_start();
        // Which types implement a trait depends on the features of their crates.
        is_list &= line.starts_with("          ");
        if is_list {
            continue;
        }
        is_list = start.contains("the following other types implement trait");
        if let Some(place) = start.strip_prefix("--> ").or_else(|| start.strip_prefix("::: ")) {
            is_elsewhere = !place.starts_with(&program);
            if is_elsewhere {
                kept.push_str("  in ");
                kept.push_str(file_name(place));
                kept.push('\n');
                continue;
            }
        }
        let is_excerpt = start.starts_with(|first: char| first == '|' || first.is_ascii_digit())
            || start.starts_with("...");
        if is_elsewhere && is_excerpt {
            continue;
        }
        if NOISE.iter().any(|noise| start.starts_with(noise)) {
            continue;
        }
        is_elsewhere &= start.starts_with("= ");
        kept.push_str(line.trim_end());
        kept.push('\n');
    }
    format!("{}\n", kept.trim_end())
}

/// The file of a place, from its folder `src` or `library` on.
fn file_name(place: &str) -> &str {
    let file = place.split(':').next().unwrap_or(place);
    let start = ["/library/", "/src/"].iter().find_map(|folder| file.find(folder));
    start.map_or(file, |start| &file[start + 1..])
}
