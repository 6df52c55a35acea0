use std::collections::BTreeSet;

use super::{Modules, circles, without_places};
use crate::tidy::House;
use crate::tree::fixture::Fixture;

const LIB: &str = "
-- crates/a/src/lib.rs --
mod x;
mod y;
pub mod z;
pub use x::X;
pub use z::Z as Last;
pub use other::Thing;
pub struct Own;
";

fn arrows(files: &str, opened: &[&str]) -> Vec<String> {
    let tree = Fixture::default().overlay(LIB).overlay(files).tree;
    let opened = opened.iter().map(|module| (*module).to_owned()).collect::<BTreeSet<String>>();
    let arrows = Modules::of(&House::of(&tree), "a").arrows(&opened);
    arrows.keys().map(|(from, to)| format!("{from} {to}")).collect()
}

#[test]
fn names_lead_to_the_module_that_defines_them() {
    let files = "
-- crates/a/src/x.rs --
use crate::{Last, Thing};
use other::y::Y;
-- crates/a/src/y.rs --
fn f() -> super::X { g(crate::Own) }
-- crates/a/src/z/mod.rs --
mod inner;
-- crates/a/src/z/inner.rs --
use super::super::y as why;
fn f() { h!(1, why::g(), |x: &crate::x::X| x.0) }
";
    assert_eq!(arrows(files, &[]), ["x z", "y lib", "y x", "z x", "z y"]);
}

#[test]
fn an_opened_module_has_submodules_and_a_facade() {
    let files = "
-- crates/a/src/x.rs --
use crate::z;
use crate::z::{A, B};
fn f() -> z::C {}
-- crates/a/src/y.rs --
use crate::z::Own;
-- crates/a/src/z/mod.rs --
mod a;
mod b;
pub use self::a::A;
pub use b::B;
use crate::x::X;
pub struct Own;
pub(crate) use b::C;
-- crates/a/src/z/a.rs --
use super::b::B;
use super::X;
-- crates/a/src/z/b/mod.rs --
mod deep;
-- crates/a/src/z/b/deep.rs --
use super::super::a::A;
";
    let expected = ["x z::a", "x z::b", "y z", "z x", "z::a x", "z::a z::b", "z::b z::a"];
    assert_eq!(arrows(files, &["z"]), expected);
    assert_eq!(arrows(files, &[]), ["x z", "y z", "z x"]);
}

#[test]
fn tests_docs_and_visibilities_are_no_arrows() {
    let files = "
-- crates/a/src/x.rs --
//! Uses [`crate::y::Y`].
/// As [`Y`](crate::y::Y).
pub(in crate::z) struct X;
#[cfg(test)]
use crate::y::Y;
#[cfg(test)]
mod inner;
#[cfg(test)]
mod tests {
    use crate::y::Y;
}
-- crates/a/src/x/inner.rs --
use crate::y::Y;
-- crates/a/src/x/tests.rs --
use crate::y::Y;
";
    assert_eq!(arrows(files, &[]), Vec::<String>::new());
}

#[test]
fn circles_are_found_with_a_shortest_way() {
    let files = "
-- crates/a/src/x.rs --
use crate::{y, z};
-- crates/a/src/y.rs --
use crate::z::Z;
-- crates/a/src/z.rs --
use crate::x::X;
";
    let tree = Fixture::default().overlay(LIB).overlay(files).tree;
    let arrows = Modules::of(&House::of(&tree), "a").arrows(&BTreeSet::new());
    let found = circles(&without_places(&arrows));
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].units.len(), found[0].arrows.len()), (3, 4));
    assert_eq!(found[0].path, ["x", "z", "x"]);
}
