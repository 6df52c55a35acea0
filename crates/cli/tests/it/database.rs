//! A separate Postgres database for each test, in the cluster of the suite.

use std::sync::atomic::{AtomicU32, Ordering};
use tokio_postgres::NoTls;

/// Creates an empty database and returns its URL. The database is removed with the cluster.
pub(crate) fn fresh() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let cluster = std::env::var("WEFT_TEST_POSTGRES").expect(
        "WEFT_TEST_POSTGRES names no database; run: scripts/postgres.sh with cargo nextest run -p weftwork-cli",
    );
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("weft_cli_{}_{count}", std::process::id());
    script(&cluster, &format!("CREATE DATABASE {name}"));
    let (server, _) = cluster.rsplit_once('/').expect("a URL with a database");
    format!("{server}/{name}")
}

/// Executes statements directly in the database.
pub(crate) fn script(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connects");
        let served = tokio::spawn(connection);
        client.batch_execute(sql).await.expect("the statements run");
        drop(client);
        served.await.expect("no panic").expect("ends well");
    });
}
