//! Sizes of functions in a binary with symbols, by crate and by generic function.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::figures::columns;

/// Rows of each table.
const ROWS: usize = 40;

/// Code of a crate, or of the instances of a generic function.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Share {
    bytes: u64,
    functions: usize,
}

/// Prints the largest crates and generic functions of a binary with symbols.
pub(super) fn print(binary: &Path) -> Result<()> {
    let mut nm = Command::new("nm");
    nm.args(["--print-size", "--demangle", "--defined-only"]).arg(binary);
    let done = nm.output().context("nm could not be started; install binutils")?;
    ensure!(done.status.success(), "nm failed: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout);
    ensure!(
        text.lines().any(|line| symbol(line).is_some()),
        "no symbols; build with --profile profiling"
    );
    println!("{}", table("crate", &by(&text, krate)));
    println!("{}", table("function without its type arguments", &by(&text, generic)));
    Ok(())
}

/// Sums the functions of `nm`'s output by a part of their names.
fn by(text: &str, part: fn(&str) -> String) -> BTreeMap<String, Share> {
    let mut shares: BTreeMap<String, Share> = BTreeMap::new();
    for symbol in text.lines().filter_map(symbol) {
        let share = shares.entry(part(symbol.name)).or_default();
        share.bytes += symbol.bytes;
        share.functions += 1;
    }
    shares
}

/// A function in the output of `nm`.
#[derive(Debug, PartialEq, Eq)]
struct Symbol<'a> {
    bytes: u64,
    name: &'a str,
}

/// Parses `address size kind name`; `None` if the line is not of a function.
fn symbol(line: &str) -> Option<Symbol<'_>> {
    let mut parts = line.splitn(4, ' ');
    parts.next()?;
    let bytes = u64::from_str_radix(parts.next()?, 16).ok()?;
    let kind = parts.next()?;
    let name = parts.next()?;
    matches!(kind, "t" | "T" | "w" | "W").then_some(Symbol { bytes, name })
}

/// The crate that defines a function: of `<a::B as c::D>::e` that of the trait's type, `a`.
fn krate(name: &str) -> String {
    let plain = name.trim_start_matches(['<', '&', '(', '[', '*']);
    let plain = plain.strip_prefix("mut ").or(plain.strip_prefix("dyn ")).unwrap_or(plain);
    match plain.split_once("::") {
        Some((first, _)) if is_identifier(first) => first.to_owned(),
        _ => "other".to_owned(),
    }
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|char| char.is_alphanumeric() || char == '_')
}

/// The name without the contents of its outer type arguments and without the hash at its end.
fn generic(name: &str) -> String {
    let name = match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 => path,
        _ => name,
    };
    let mut text = String::new();
    let mut depth = 0_usize;
    for char in name.chars() {
        match char {
            // The `<` of `<T as Trait>` at the beginning is a part of the path.
            '<' if !text.is_empty() => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => text.push(char),
            _ => {}
        }
    }
    text
}

fn table(title: &str, shares: &BTreeMap<String, Share>) -> String {
    let mut sorted: Vec<_> = shares.iter().collect();
    sorted.sort_by_key(|entry| std::cmp::Reverse(entry.1.bytes));
    let mut rows = vec![[title, "kB", "functions"].map(str::to_owned).to_vec()];
    for entry in sorted.iter().take(ROWS) {
        let share = entry.1;
        let name = entry.0.chars().take(100).collect();
        rows.push(vec![name, (share.bytes / 1000).to_string(), share.functions.to_string()]);
    }
    let all = shares.values().map(|share| share.bytes).sum::<u64>() / 1000;
    rows.push(vec!["all".to_owned(), all.to_string(), String::new()]);
    columns(&rows)
}

#[cfg(test)]
mod test {
    use super::{Share, by, generic, krate};

    #[test]
    fn functions_are_summed_by_crate() {
        let text = "\
0000000000001000 0000000000000010 t <alpha::One as core::fmt::Debug>::fmt
0000000000001010 0000000000000020 T alpha::two
0000000000001030 0000000000000004 R alpha::DATA
                 U malloc
0000000000001040 0000000000000001 t main
";
        let shares = by(text, krate);
        assert_eq!(shares["alpha"], Share { bytes: 0x30, functions: 2 });
        assert_eq!(shares["other"], Share { bytes: 1, functions: 1 });
        assert_eq!(shares.len(), 2);
    }

    #[test]
    fn instances_of_a_generic_function_have_one_name() {
        let one = generic("core::ptr::drop_in_place<alloc::vec::Vec<u8>>");
        let other = generic("core::ptr::drop_in_place<a::B<c::D>>::h0123456789abcdef");
        assert_eq!(one, "core::ptr::drop_in_place");
        assert_eq!(one, other);
        assert_eq!(generic("<a::B as c::D<e>>::f"), "<a::B as c::D>::f");
    }
}
