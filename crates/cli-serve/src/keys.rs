//! `weft keys`: the file of access keys of `weft serve --keys`.

use crate::args::{AddKey, Keys};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use weftwork::types::{BillingAccountId, OrgId, Principal, VirtualKeyId};
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Table, Terminal};
use weftwork_server::{AccessKey, KeyFile, TokenHash, new_token};

/// Minimum number of digits that name a key.
const ID_DIGITS_MIN: usize = 8;

pub fn keys(command: &Keys, terminal: &Terminal) -> Result<Exit, CliError> {
    match command {
        Keys::Add(args) => add_key(args, terminal)?,
        Keys::List { file, json } => list_keys(file, *json, terminal)?,
        Keys::Revoke { file, id } => revoke_key(file, id, terminal)?,
    }
    Ok(Exit::Done)
}

fn bad_input(reason: impl ToString) -> CliError {
    CliError::BadInput { reason: reason.to_string() }
}

fn add_key(args: &AddKey, terminal: &Terminal) -> Result<(), CliError> {
    let token = new_token();
    let principal = Principal::new(OrgId::new(&args.org)?, &args.subject);
    let key = AccessKey {
        hash: TokenHash::of(&token),
        principal: principal.with_rights(args.rights),
        billing_account: BillingAccountId::new(&args.account)?,
        virtual_key: VirtualKeyId::new(&args.virtual_key)?,
    };
    key.check().map_err(bad_input)?;
    change_file(&args.file, |mut text, _| {
        // Before the file is written: otherwise a key whose token was never shown would stay in it.
        terminal.line(token)?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text + &key.to_string() + "\n")
    })?;
    terminal.note(format_args!(
        "key {} of {} was added to {}; its token is shown this once",
        key.hash.id(),
        key.principal.subject,
        args.file.display()
    ));
    Ok(())
}

fn list_keys(file: &Path, as_json: bool, terminal: &Terminal) -> Result<(), CliError> {
    let keys = KeyFile::new(file).read().map_err(bad_input)?;
    if !as_json && keys.is_empty() {
        terminal.note("no keys");
        return Ok(());
    }
    let mut table =
        Table::new(&["ID", "ORGANISATION", "SUBJECT", "ACCOUNT", "VIRTUAL KEY", "RIGHTS"]);
    for AccessKey { hash, principal, billing_account, virtual_key } in keys {
        let Principal { org, subject, rights } = principal;
        if as_json {
            terminal.line(json!({
                "id": hash.id(),
                "org": org,
                "subject": subject,
                "billing_account": billing_account,
                "virtual_key": virtual_key,
                "rights": rights,
            }))?;
            continue;
        }
        table.row([
            hash.id(),
            org.to_string(),
            subject,
            billing_account.to_string(),
            virtual_key.to_string(),
            rights.to_string(),
        ]);
    }
    if as_json { Ok(()) } else { table.write(terminal) }
}

fn revoke_key(file: &Path, id: &str, terminal: &Terminal) -> Result<(), CliError> {
    let id = id.to_ascii_lowercase();
    if id.len() < ID_DIGITS_MIN || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(bad_input(format!(
            "`{id}` names no key; expected at least the first {ID_DIGITS_MIN} digits of its hash, as \
             `weft keys list` prints them"
        )));
    }
    let mut revoked = None;
    change_file(file, |text, keys| {
        let named = keys.iter().filter(|key| key.hash.to_string().starts_with(&id));
        let [key] = named.collect::<Vec<_>>()[..] else {
            let file = file.display();
            return Err(bad_input(format!(
                "{file} has no single key whose id begins with `{id}`; `weft keys list {file}` lists \
                 them"
            )));
        };
        let is_other =
            |line: &&str| !line.parse::<AccessKey>().is_ok_and(|of_line| of_line.hash == key.hash);
        revoked = Some(key.clone());
        Ok(text.split_inclusive('\n').filter(is_other).collect())
    })?;
    if let Some(key) = revoked {
        let AccessKey { hash, principal, .. } = key;
        terminal.note(format_args!("key {} of {} was revoked", hash.id(), principal.subject));
    }
    Ok(())
}

/// Replaces the text of a file of keys by another one, at once: a server reads the one or the other.
/// A lock on the folder keeps two commands from losing each other's change. A file that has lines
/// which are no keys is not changed.
fn change_file(
    path: &Path,
    edit: impl FnOnce(String, &[AccessKey]) -> Result<String, CliError>,
) -> Result<(), CliError> {
    let failed = |error: std::io::Error| {
        bad_input(format!("the file of keys {} cannot be changed: {error}", path.display()))
    };
    // A link stays a link.
    let exists = path.exists();
    let target = if exists { path.canonicalize().map_err(failed)? } else { path.to_owned() };
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let locked = File::open(&folder).map_err(failed)?;
    locked.lock().map_err(failed)?;
    let file = KeyFile::new(&target);
    let text = if target.exists() { file.text().map_err(bad_input)? } else { String::new() };
    let keys = file.keys_of(&text).map_err(bad_input)?;
    let text = edit(text, &keys)?;
    let write = || {
        // Temporary files are accessible by their owner only.
        let mut new = NamedTempFile::new_in(&folder)?;
        new.write_all(text.as_bytes())?;
        keep_owner(&target, new.as_file())?;
        new.as_file().sync_all()?;
        new.persist(&target)?;
        locked.sync_all()
    };
    write().map_err(failed)
}

/// Gives a new file the owner of the file that it replaces, so that the server can still read it if
/// another user changes it.
#[cfg(unix)]
fn keep_owner(old: &Path, new: &File) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, fchown};
    let Ok(old) = old.metadata() else { return Ok(()) };
    let made = new.metadata()?;
    if (old.uid(), old.gid()) == (made.uid(), made.gid()) {
        return Ok(());
    }
    fchown(new, Some(old.uid()), Some(old.gid()))
}

#[cfg(not(unix))]
fn keep_owner(_: &Path, _: &File) -> std::io::Result<()> {
    Ok(())
}
