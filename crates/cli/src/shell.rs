//! The program with its flags, in commands that people copy.

use crate::args::Cli;
use std::fmt::Write;
use weftwork_cli_base::shell::quote_word;

/// Returns the beginning of a command that works on the same store, with the same agents, as this one:
/// `weft` with the flags that all commands have. A password of the store is left out.
pub(crate) fn weft_command(cli: &Cli) -> String {
    let store = cli.store.as_deref().map(without_password);
    let config = cli.config.as_ref().map(|file| file.display().to_string());
    let flags = [
        ("--store", store),
        ("--config", config),
        ("--model", cli.model.clone()),
        ("--policy", cli.policy.clone()),
        ("--mcp", cli.mcp_file()),
        ("--thread-budget", cli.thread_budget.clone()),
    ];
    let mut command = "weft".to_owned();
    for (flag, value) in flags {
        if let Some(value) = value {
            write!(command, " {flag} {}", quote_word(&value)).unwrap_or_default();
        }
    }
    command
}

/// Returns a store without its password, which is in the address or among its parameters.
fn without_password(store: &str) -> String {
    if !store.starts_with("postgres") {
        return store.to_owned();
    }
    if store.contains("password") {
        return "STORE".to_owned();
    }
    let open = || {
        let (scheme, rest) = store.split_once("://")?;
        let (who, place) = rest.rsplit_once('@')?;
        let user = who.split_once(':').map_or(who, |(user, _)| user);
        Some(format!("{scheme}://{user}@{place}"))
    };
    open().unwrap_or_else(|| store.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;

    #[test]
    fn commands_have_the_flags_that_this_one_was_given_and_no_password() {
        for (given, command) in [
            (&["weft", "chat"][..], "weft"),
            (&["weft", "chat", "--store", "sqlite:/a b/c.db"], "weft --store 'sqlite:/a b/c.db'"),
            (
                &["weft", "--model", "scripted", "runs", "list", "--policy", "p.toml"],
                "weft --model scripted --policy p.toml",
            ),
            (
                &["weft", "chat", "--store", "postgres://ada:s3:cr@t@db/x"],
                "weft --store postgres://ada@db/x",
            ),
            (&["weft", "chat", "--store", "postgres:host=h password=s"], "weft --store STORE"),
        ] {
            let cli = Cli::try_parse_from(given).expect("parses");
            assert_eq!(super::weft_command(&cli), command);
        }
    }
}
