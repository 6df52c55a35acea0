//! Tests that the database itself refuses rows of the bill that must not be, and that several processes
//! move each fact once.

use crate::support::{Schema, address, block_on};
use tokio_postgres::NoTls;
use weftwork_store::{Receipt, WriteBill as _, WriteUsage as _, move_all_usage};
use weftwork_store_conformance::{bill_of_a_run, facts_of_a_run};
use weftwork_types::{OrgId, Principal};

/// Runs a statement, bypassing the store. Returns the error of the database, if it refuses it.
fn execute(schema: &Schema, sql: &str) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let (client, connection) =
            tokio_postgres::connect(&address(), NoTls).await.expect("connects");
        let served = tokio::spawn(connection);
        let path = format!("SET search_path TO {}", schema.name);
        client.batch_execute(&path).await.expect("sets");
        let done = client.execute(sql, &[]).await;
        drop(client);
        served.await.expect("no panic").expect("ends well");
        done.map_err(|error| error.as_db_error().expect("of the database").message().to_owned())
    })
}

#[test]
fn the_database_refuses_rows_that_the_bill_must_not_have() {
    let schema = Schema::new("bill_refuses");
    let store = schema.open();
    block_on(facts_of_a_run(&store));
    assert_eq!(block_on(store.move_usage(9)), Ok(2));
    let refused = |sql: &str| execute(&schema, sql).expect_err(sql);
    for table in ["model_calls", "receipts"] {
        let error = refused(&format!("INSERT INTO {table} SELECT * FROM {table} LIMIT 1"));
        assert!(error.contains("duplicate key value"), "{error}");
    }
    for column in ["run", "graph", "graph_version"] {
        let error = refused(&format!("UPDATE model_calls SET {column} = NULL"));
        assert!(error.contains("violates check constraint"), "{column}: {error}");
    }
    for column in ["source", "subject", "attempt", "unit", "account", "key", "request"] {
        let error = refused(&format!("UPDATE receipts SET {column} = NULL"));
        assert!(error.contains("violates not-null constraint"), "{column}: {error}");
    }
    let other = "UPDATE model_calls SET run = NULL, graph = NULL, graph_version = NULL";
    assert_eq!(execute(&schema, other), Ok(2));
}

#[test]
fn several_processes_move_each_fact_once() {
    let schema = Schema::new("bill_movers");
    let store = schema.open();
    block_on(facts_of_a_run(&store));
    let us = Principal::new(OrgId::new("us").expect("an id"), "someone");
    let rows = block_on(weftwork_store::ReadUsage::usage_of_run(
        &store,
        &us,
        &"r".parse().expect("an id"),
    ));
    let like = rows.expect("reads").pop().expect("a fact");
    for n in 0..98 {
        let mut row = like.clone();
        row.fact.invocation_id = format!("i{n}").parse().expect("an id");
        block_on(store.record_usage(&us, row)).expect("records");
    }
    let moved: usize = std::thread::scope(|scope| {
        let movers: Vec<_> = (0..4)
            .map(|_| {
                let schema = &schema;
                scope.spawn(move || {
                    let store = schema.open();
                    let mut moved = 0;
                    while let some @ 1.. = block_on(store.move_usage(7)).expect("moves") {
                        moved += some;
                    }
                    moved
                })
            })
            .collect();
        movers.into_iter().map(|mover| mover.join().expect("no panic")).sum()
    });
    assert_eq!(moved, 100);
    block_on(bill_of_a_run(&store, 100));
    assert_eq!(block_on(move_all_usage(&store)), Ok(0));
    assert!(Receipt::of(&like).is_some());
}
