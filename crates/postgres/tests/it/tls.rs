//! Tests that encrypted connections verify the server as required.

use crate::support::{Login, Schema, address, begin, block_on, script, thread};
use std::io::{Read, Write};
use std::net::TcpListener;
use weftwork_postgres::{Options, PostgresStore};
use weftwork_store::ReadRuns;
use weftwork_store::{Store, StoreError};
use weftwork_types::Principal;

/// Returns the file with the server's self-signed certificate.
fn certificate() -> String {
    std::env::var("WEFT_TEST_POSTGRES_CERTIFICATE").expect(
        "WEFT_TEST_POSTGRES_CERTIFICATE names no file; run: scripts/postgres.sh with cargo nextest run -p weftwork-postgres",
    )
}

/// Returns an address of the test server under a given host name.
fn known_as(name: &str, settings: &str) -> String {
    let Login { user, password, port } = Login::read();
    format!(
        "host={name} hostaddr=127.0.0.1 port={port} user={user} password={password} dbname=postgres {settings}"
    )
}

fn refused(address: &str) -> String {
    let schema = Schema::new("tls_refused");
    let error = PostgresStore::open(address, &schema.options()).expect_err("is not trusted");
    let is_final = matches!(error, StoreError::Unavailable { retriable: false, .. });
    assert!(is_final, "it does not pass by itself: {error}");
    error.to_string()
}

#[test]
fn what_is_demanded_is_encrypted() {
    let certificate = certificate();
    for (number, demand) in ["require", "verify-full"].into_iter().enumerate() {
        let schema = Schema::new("tls");
        let program = format!("weft_tls_{number}");
        let url = format!(
            "{}?sslmode={demand}&sslrootcert={certificate}&application_name={program}",
            address()
        );
        let store = PostgresStore::open(&url, &schema.options()).expect("opens");
        assert!(!store.location().contains(&certificate), "{}", store.location());
        begin(&store, "t", "r");
        let runs = block_on(store.runs(&Principal::local(), &thread("t")));
        assert_eq!(runs.map(|runs| runs.len()), Ok(1));
        script(
            &address(),
            &format!(
                "DO $$ BEGIN
                     IF NOT (SELECT count(*) > 0 AND bool_and(ssl AND version LIKE 'TLSv1.%')
                             FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
                             WHERE application_name = '{program}') THEN
                         RAISE EXCEPTION 'not encrypted';
                     END IF;
                 END $$"
            ),
        );
    }
    let other = known_as("postgres.test", &format!("sslmode=require sslrootcert='{certificate}'"));
    let schema = Schema::new("tls_name");
    PostgresStore::open(&other, &schema.options()).expect("the certificate has this name, too");
}

#[test]
fn a_server_that_nobody_vouches_for_is_refused() {
    let told = refused(&format!("{}?sslmode=require", address()));
    assert!(told.contains("does not pass sslmode=require"), "{told}");
    assert!(told.contains("sslrootcert=FILE"), "{told}");
    assert!(told.starts_with("store `postgres://weft@127.0.0.1:"), "{told}");
}

#[test]
fn a_server_of_another_name_is_refused() {
    let settings = format!("sslmode=verify-full sslrootcert='{}'", certificate());
    let told = refused(&known_as("other.test", &settings));
    assert!(told.contains("does not pass sslmode=verify-full"), "{told}");
    assert!(told.contains("not valid for name"), "{told}");
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("its number").port();
    let schema = Schema::new("tls_silence");
    let options = Options { answer_ms: 50, ..schema.options() };
    for settings in [String::new(), format!("?sslmode=require&sslrootcert={}", certificate())] {
        let address = format!("postgres://weft:s3cret@127.0.0.1:{port}/db{settings}");
        let error = PostgresStore::open(&address, &options).expect_err("nobody answers");
        assert!(error.is_retriable() && error.to_string().contains("within 50 ms"), "{error}");
    }
}

#[test]
fn a_server_without_tls_is_refused() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("its number").port();
    let serves = std::thread::spawn(move || {
        let (mut socket, _) = server.accept().expect("somebody comes");
        let mut asked = [0; 8];
        socket.read_exact(&mut asked).expect("asks for TLS");
        socket.write_all(b"N").expect("hears that there is none");
        // The password is not sent.
        assert_eq!(socket.read(&mut asked).unwrap_or(0), 0);
    });
    let certificate = certificate();
    let told = refused(&format!(
        "postgres://weft:s3cret@127.0.0.1:{port}/db?sslmode=require&sslrootcert={certificate}"
    ));
    assert!(told.contains("server does not support TLS"), "{told}");
    assert!(told.contains("ssl = on"), "{told}");
    serves.join().expect("it was asked");
}
