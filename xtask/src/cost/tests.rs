//! Seconds of the last suite: per stage, per test binary, and of the slowest tests.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use crate::figures::columns;
use crate::suite::SECONDS;

/// Rows of the table of tests.
const ROWS: usize = 30;

/// A test as nextest reports it.
#[derive(Debug, PartialEq)]
struct Test<'a> {
    seconds: f64,
    binary: &'a str,
    name: &'a str,
}

/// Prints the tables from the logs that the suite left in `folder`.
pub(super) fn print(folder: &Path) -> Result<()> {
    let file = folder.join(SECONDS);
    let stages = std::fs::read_to_string(&file)
        .with_context(|| format!("{} could not be read; run the suite first", file.display()))?;
    println!("{stages}");
    let log = folder.join("tests.log");
    let text = std::fs::read_to_string(&log)
        .with_context(|| format!("{} could not be read", log.display()))?;
    print!("{}", tables(&text));
    Ok(())
}

fn tables(log: &str) -> String {
    let mut tests: Vec<Test<'_>> = log.lines().filter_map(test).collect();
    tests.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for test in &tests {
        *sums.entry(test.binary).or_default() += test.seconds;
    }
    let mut binaries: Vec<_> = sums.into_iter().collect();
    binaries.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut rows = vec![row("test binary", "seconds")];
    rows.extend(binaries.iter().map(|entry| row(entry.0, &format!("{:.1}", entry.1))));
    let mut text = columns(&rows);
    let mut rows = vec![row("slowest tests", "seconds")];
    let slowest = tests.iter().take(ROWS);
    rows.extend(slowest.map(|test| {
        row(&format!("{} {}", test.binary, test.name), &format!("{:.1}", test.seconds))
    }));
    text.push('\n');
    text.push_str(&columns(&rows));
    text
}

fn row(name: &str, value: &str) -> Vec<String> {
    vec![name.to_owned(), value.to_owned()]
}

/// Parses `PASS [   1.234s] (1/9) binary name`; `None` for other lines.
fn test(line: &str) -> Option<Test<'_>> {
    let (result, rest) = line.trim_start().split_once('[')?;
    if !matches!(result.trim(), "PASS" | "FAIL" | "TIMEOUT") {
        return None;
    }
    let (seconds, rest) = rest.split_once("s]")?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(counted) => counted.split_once(") ")?.1,
        None => rest,
    };
    let (binary, name) = rest.trim_start().split_once(' ')?;
    Some(Test { seconds: seconds.trim().parse().ok()?, binary, name })
}

#[cfg(test)]
mod test {
    use super::{Test, tables, test};

    #[test]
    fn a_line_of_a_test_has_its_seconds() {
        let expected = Test { seconds: 1.25, binary: "a::it", name: "b::c" };
        assert_eq!(test("        PASS [   1.250s] (  1/200) a::it b::c"), Some(expected));
        assert_eq!(test("Summary [ 10.0s] 2 tests run: 2 passed, 0 skipped"), None);
    }

    #[test]
    fn the_longest_come_first() {
        let log = "PASS [ 1.0s] a b\nPASS [ 2.0s] a c\nPASS [ 2.5s] d e\n";
        let expected = "\
test binary  seconds
a                3.0
d                2.5

slowest tests  seconds
d e                2.5
a c                2.0
a b                1.0
";
        assert_eq!(tables(log), expected);
    }
}
