//! Conformance cases for databases that implement [`Rows`], by name. A store over them,
//! [`RowStore`](weftwork_store::RowStore), is checked by the cases of stores besides.
//!
//! ```
//! use std::sync::Arc;
//! use weftwork_store::rows::{MemoryRows, Rows};
//! use weftwork_store_conformance::rows::{CASES, run_case};
//!
//! async fn fresh() -> Arc<dyn Rows> {
//!     Arc::new(MemoryRows::default())
//! }
//!
//! async fn memory_rows_conform() {
//!     for case in CASES {
//!         run_case(case.name, fresh).await;
//!     }
//! }
//! ```

use std::sync::Arc;
use weftwork_store::rows::{Batch, Key, KeyRange, Order, Rows, Value, Written};
use weftwork_types::BoxFuture;

/// A property that every database of rows must have.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Name of the case.
    pub name: &'static str,
    /// Checks the property on a database without rows; panics if it does not hold.
    pub run: fn(Arc<dyn Rows>) -> BoxFuture<'static, ()>,
}

/// Runs a case by name on a database created by `fresh`.
///
/// # Panics
/// Panics if the database fails the case, or if there is no case of this name.
pub async fn run_case<F: Future<Output = Arc<dyn Rows>>>(name: &str, fresh: impl Fn() -> F) {
    let case = CASES.iter().find(|case| case.name == name);
    let case = case.expect("the name is that of a case");
    (case.run)(fresh().await).await;
}

macro_rules! cases {
    ($d:tt $($name:ident,)*) => {
        /// All cases.
        pub const CASES: &[Case] = &[$(
            Case { name: stringify!($name), run: |rows| Box::pin($name(rows)) },
        )*];

        /// Generates one test per case. Takes the path of a `fn(case: &str)` that runs the case.
        #[macro_export]
        macro_rules! rows_conformance_tests {
            ($d run:path) => {$(
                #[test]
                fn $name() {
                    $d run(stringify!($name));
                }
            )*};
        }
    };
}

cases! { $
    rows_are_read_as_written,
    a_scan_is_a_part_of_the_order_of_bytes,
    a_batch_is_written_completely_or_not_at_all,
    a_missing_row_differs_from_an_empty_one,
    of_equal_batches_one_is_written,
}

fn key(bytes: &[u8]) -> Key {
    Key::from(bytes.to_vec())
}

fn expect(rows: &[(&[u8], Option<&[u8]>)]) -> Vec<(Key, Option<Value>)> {
    rows.iter().map(|(name, value)| (key(name), value.map(<[u8]>::to_vec))).collect()
}

async fn put(rows: &dyn Rows, writes: &[(&[u8], Option<&[u8]>)]) {
    let batch = Batch { expected: Vec::new(), writes: expect(writes) };
    assert_eq!(rows.write(batch).await, Ok(Written::Done));
}

async fn get(rows: &dyn Rows, names: &[&[u8]]) -> Vec<Option<Value>> {
    rows.get(names.iter().map(|name| key(name)).collect()).await.expect("reads")
}

async fn rows_are_read_as_written(rows: Arc<dyn Rows>) {
    let all: Vec<u8> = (0..=255).collect();
    let long = all.repeat(4_096);
    put(&*rows, &[(&all, Some(&long)), (b"a", Some(b"")), (b"b", Some(b"1"))]).await;
    let found = get(&*rows, &[b"b", b"none", &all, b"a", b"b"]).await;
    let expected = [Some(b"1".to_vec()), None, Some(long), Some(Vec::new()), Some(b"1".to_vec())];
    assert_eq!(found, expected, "in the order of the keys");
    put(&*rows, &[(b"b", Some(b"2")), (b"a", None), (b"none", None)]).await;
    assert_eq!(get(&*rows, &[b"b", b"a"]).await, [Some(b"2".to_vec()), None]);
    assert_eq!(get(&*rows, &[]).await, Vec::<Option<Value>>::new());
}

async fn a_scan_is_a_part_of_the_order_of_bytes(rows: Arc<dyn Rows>) {
    let names: [&[u8]; 8] = [b"\0", b"A", b"a", b"a\0", b"a\0\x01", b"a\x7f", b"a\xff\xff", b"b"];
    let writes: Vec<_> = names.iter().rev().map(|name| (*name, Some(*name))).collect();
    put(&*rows, &writes).await;
    let scan = async |first: &[u8], end: &[u8], order, limit| -> Vec<Vec<u8>> {
        let range = KeyRange { first: key(first), end: key(end) };
        let found = rows.scan(range, order, limit).await.expect("reads");
        assert!(found.iter().all(|(key, value)| key.as_bytes() == value));
        found.into_iter().map(|(_, value)| value).collect()
    };
    assert_eq!(scan(b"", b"\xff", Order::Ascending, 99).await, names);
    assert_eq!(scan(b"a", b"b", Order::Ascending, 99).await, names[2..7], "without the end");
    assert_eq!(scan(b"a", b"b", Order::Ascending, 2).await, names[2..4]);
    let reversed: Vec<&[u8]> = names[5..7].iter().rev().copied().collect();
    assert_eq!(scan(b"a", b"b", Order::Descending, 2).await, reversed, "the last ones");
    assert_eq!(scan(b"a\0\x02", b"a\x7f", Order::Ascending, 9).await, Vec::<Vec<u8>>::new());
    assert_eq!(scan(b"a", b"b", Order::Descending, 0).await, Vec::<Vec<u8>>::new());
}

async fn a_batch_is_written_completely_or_not_at_all(rows: Arc<dyn Rows>) {
    put(&*rows, &[(b"a", Some(b"1")), (b"b", Some(b"1"))]).await;
    let writes = expect(&[(b"a", None), (b"b", Some(b"2")), (b"c", Some(b"2"))]);
    for refused in [(b"b", Some(b"2".as_slice())), (b"b", None), (b"c", Some(b"1"))] {
        // The first expectation holds, and a write is not compared with writes of its batch.
        let (name, value) = refused;
        let expected = expect(&[(b"a", Some(b"1")), (name, value)]);
        let batch = Batch { expected, writes: writes.clone() };
        assert_eq!(rows.write(batch).await, Ok(Written::Conflict), "{refused:?}");
        let one = Some(b"1".to_vec());
        assert_eq!(get(&*rows, &[b"a", b"b", b"c"]).await, [one.clone(), one, None]);
    }
    let expected = expect(&[(b"a", Some(b"1")), (b"c", None)]);
    assert_eq!(rows.write(Batch { expected, writes }).await, Ok(Written::Done));
    let two = Some(b"2".to_vec());
    assert_eq!(get(&*rows, &[b"a", b"b", b"c"]).await, [None, two.clone(), two]);
}

async fn a_missing_row_differs_from_an_empty_one(rows: Arc<dyn Rows>) {
    put(&*rows, &[(b"a", Some(b""))]).await;
    for (name, value) in [(b"a", None), (b"b", Some(b"".as_slice()))] {
        let writes = expect(&[(b"c", Some(b""))]);
        let batch = Batch { expected: expect(&[(name, value)]), writes };
        assert_eq!(rows.write(batch).await, Ok(Written::Conflict));
    }
    assert_eq!(get(&*rows, &[b"a", b"b", b"c"]).await, [Some(Vec::new()), None, None]);
}

async fn of_equal_batches_one_is_written(rows: Arc<dyn Rows>) {
    let batch = |before: Option<&[u8]>, after: &[u8]| Batch {
        expected: expect(&[(b"a", before)]),
        writes: expect(&[(b"a", Some(after))]),
    };
    for (before, after) in [(None, b"1"), (Some(b"1".as_slice()), b"2")] {
        assert_eq!(rows.write(batch(before, after)).await, Ok(Written::Done));
        assert_eq!(rows.write(batch(before, after)).await, Ok(Written::Conflict));
    }
    assert_eq!(get(&*rows, &[b"a"]).await, [Some(b"2".to_vec())]);
}
