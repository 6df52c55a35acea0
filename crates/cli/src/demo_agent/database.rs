//! The shop's database: orders and refunds.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weftwork::tools::ToolError;

/// Maximum wait for a lock of another process.
const PATIENCE: Duration = Duration::from_secs(5);

/// Schema and sample orders of a new database. Amounts are in cents.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS orders (
  order_id TEXT PRIMARY KEY, item TEXT NOT NULL, status TEXT NOT NULL, total_cents INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS refunds (
  refund_id INTEGER PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders, amount_cents INTEGER NOT NULL,
  idempotency_key TEXT NOT NULL UNIQUE
) STRICT;
INSERT OR IGNORE INTO orders VALUES
  ('A1001', 'desk lamp, brass', 'on its way, arrives on Friday', 7990),
  ('A1002', 'reading lamp, oak', 'delivered on Monday', 12900),
  ('A1003', 'lantern, blue', 'being packed', 3450),
  ('A1004', 'ceiling lamp, white', 'cancelled', 24900),
  ('A1005', 'light bulbs, ten', 'delivered on Tuesday', 1990);
";

/// An order.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct Order {
    pub(super) order_id: String,
    pub(super) item: String,
    pub(super) status: String,
    /// In euros.
    pub(super) total: f64,
    /// In euros.
    pub(super) refunded: f64,
}

/// A refund.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(super) struct Refund {
    pub(super) order_id: String,
    /// In euros.
    pub(super) amount: f64,
    pub(super) status: &'static str,
}

/// The desk's database, which is created and opened on first use.
#[derive(Debug)]
pub(crate) struct OrderDatabase {
    /// The database file; `None` for a database in memory.
    file: Option<PathBuf>,
    open: Mutex<Option<Connection>>,
}

impl OrderDatabase {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, open: Mutex::new(None) }
    }

    /// Finds an order.
    pub(super) fn order(&self, order_id: &str) -> Result<Order, ToolError> {
        self.with_connection(|conn| Ok(find_order(conn, order_id)?))?
            .ok_or_else(|| ToolError::failed(format_args!("there is no order `{order_id}`")))
    }

    /// Makes a refund, at most once per key.
    pub(super) fn refund(
        &self,
        order_id: &str,
        amount: f64,
        key: &str,
    ) -> Result<Refund, ToolError> {
        let cents = cents_of_euros(amount);
        self.with_connection(|conn| {
            let behavior = TransactionBehavior::Immediate;
            let transaction = rusqlite::Transaction::new_unchecked(conn, behavior)?;
            let Some(order) = find_order(&transaction, order_id)? else {
                return Err(ToolError::failed(format_args!("there is no order `{order_id}`")));
            };
            let known = "SELECT 1 FROM refunds WHERE idempotency_key = ?1";
            let done = transaction.query_row(known, [key], |_| Ok(())).optional()?.is_some();
            let left = order.total - order.refunded;
            if !done && (cents <= 0 || cents > cents_of_euros(left)) {
                return Err(ToolError::failed(format_args!(
                    "`{amount}` cannot be refunded for order `{order_id}`: up to {left:.2} can"
                )));
            }
            // A repeated key changes nothing.
            let sql = "INSERT OR IGNORE INTO refunds (order_id, amount_cents, idempotency_key)
                       VALUES (?1, ?2, ?3)";
            transaction.execute(sql, params![order.order_id, cents, key])?;
            transaction.commit()?;
            Ok(Refund {
                order_id: order.order_id,
                amount: euros_of_cents(cents),
                status: "refunded",
            })
        })
    }

    /// Returns the number of refunds of an order, and their sum in cents.
    pub(crate) fn refunds(&self, order_id: &str) -> Result<(u64, i64), String> {
        let sql =
            "SELECT count(*), coalesce(sum(amount_cents), 0) FROM refunds WHERE order_id = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let counted = self.with_connection(|conn| Ok(conn.query_row(sql, [order_id], read)?));
        counted.map_err(|error| error.message().to_owned())
    }

    fn with_connection<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let mut open = self.lock_connection()?;
        match open.as_mut() {
            Some(conn) => work(conn),
            None => Err(ToolError::unavailable("the desk's database is not open")),
        }
    }

    fn lock_connection(&self) -> Result<MutexGuard<'_, Option<Connection>>, ToolError> {
        // SQLite rolls back a transaction that a panic interrupted, so the connection stays valid.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_none() {
            let unavailable = |error: &dyn std::fmt::Display| {
                let place = self.file.as_ref().map(|file| file.display().to_string());
                let place = place.unwrap_or_else(|| "memory".to_owned());
                ToolError::unavailable(format_args!("the desk's database `{place}`: {error}"))
            };
            if let Some(file) = &self.file {
                make_private(file).map_err(|error| unavailable(&error))?;
            }
            *open = Some(self.create_database().map_err(|error| unavailable(&error))?);
        }
        Ok(open)
    }

    fn create_database(&self) -> rusqlite::Result<Connection> {
        let conn = match &self.file {
            Some(file) => Connection::open(file)?,
            None => Connection::open_in_memory()?,
        };
        conn.busy_timeout(PATIENCE)?;
        conn.pragma_update(None, "foreign_keys", true)?;
        conn.execute_batch(&format!("BEGIN IMMEDIATE;{SCHEMA}COMMIT;"))?;
        Ok(conn)
    }
}

/// Creates a file and its folder for the owner alone, where they are missing. The folder is that of
/// the store if the store is a file, which has made it.
fn make_private(file: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    {
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        builder.create(folder)?;
    }
    options.open(file).map(drop)
}

fn find_order(conn: &Connection, order_id: &str) -> rusqlite::Result<Option<Order>> {
    let sql = "SELECT order_id, item, status, total_cents,
                 (SELECT coalesce(sum(amount_cents), 0) FROM refunds r WHERE r.order_id = o.order_id)
               FROM orders o WHERE order_id = upper(trim(?1))";
    conn.query_row(sql, [order_id], |row| {
        Ok(Order {
            order_id: row.get(0)?,
            item: row.get(1)?,
            status: row.get(2)?,
            total: euros_of_cents(row.get(3)?),
            refunded: euros_of_cents(row.get(4)?),
        })
    })
    .optional()
}

#[expect(clippy::cast_precision_loss, reason = "amounts of a shop have few digits")]
fn euros_of_cents(cents: i64) -> f64 {
    cents as f64 / 100.0
}

#[expect(clippy::cast_possible_truncation, reason = "the schema of the tool bounds the amount")]
fn cents_of_euros(euros: f64) -> i64 {
    (euros * 100.0).round() as i64
}

#[cfg(test)]
mod tests {
    use super::OrderDatabase;

    #[test]
    fn a_refund_is_given_once_for_each_key_and_never_more_than_was_paid() {
        let orders = OrderDatabase::new(None);
        let first = orders.refund("a1001", 25.0, "k1").expect("refunded");
        assert_eq!(orders.refund("A1001", 25.0, "k1").expect("the same"), first);
        assert_eq!(orders.refunds("A1001"), Ok((1, 2_500)));
        orders.refund("A1001", 54.9, "k2").expect("the rest");
        let error = orders.refund("A1001", 0.01, "k3").expect_err("nothing is left");
        assert_eq!(error.message(), "`0.01` cannot be refunded for order `A1001`: up to 0.00 can");
        assert_eq!(orders.order("A1001").expect("an order").refunded, 79.9);
    }

    #[test]
    fn its_file_and_folder_are_made_for_the_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("data/weftwork/desk.db");
        let orders = OrderDatabase::new(Some(file.clone()));
        assert_eq!(orders.order("A1001").expect("an order").refunded, 0.0);
        for (path, mode) in [(file.as_path(), 0o600), (file.parent().expect("a folder"), 0o700)] {
            let found = std::fs::metadata(path).expect("is there").permissions().mode();
            assert_eq!(found & 0o777, mode, "{}", path.display());
        }
    }

    #[test]
    fn an_order_that_does_not_exist_is_an_error() {
        let orders = OrderDatabase::new(None);
        assert_eq!(orders.order("B1").expect_err("no order").message(), "there is no order `B1`");
        assert!(orders.refund("B1", 1.0, "k").is_err());
    }
}
