use crate::conn::{Ask, Conn, Value, ask};
use crate::error::Done;
use crate::pool::Before;
use crate::row::{At, int, json, text, word};
use crate::store::PostgresStore;
use crate::table::{commit, threads};
use tokio_postgres::Row;
use weftwork_store::table::{JournalRead, JournalWrite, Result};
use weftwork_store::{Claim, NewCall, OpenedCall, rule};
use weftwork_types::port::{CallKey, CallRecord, CallResult, CallState};
use weftwork_types::tool::Effect;
use weftwork_types::{BoxFuture, OrgId, Principal, ThreadId, Timestamp};

/// A query for whole rows.
macro_rules! whole {
    ($rest:literal) => {
        concat!(
            "SELECT key, kind, name, node, step, effect, state, result, made, possibly_paid,
                    reused, mark, opened_at, settled_at FROM calls ",
            $rest
        )
    };
}

impl JournalRead for PostgresStore {
    fn calls<'a>(
        &'a self,
        who: &'a Principal,
        thread: &'a ThreadId,
    ) -> BoxFuture<'a, Result<Vec<CallRecord>>> {
        self.run((who.org.clone(), thread.clone()), |conn, (org, thread), _| {
            Box::pin(async move {
                let rows = threads::read_of(conn, org, thread, of_thread(org, thread)).await?;
                rows.iter().map(|row| Ok(read(row, thread)?)).collect()
            })
        })
    }
}

impl JournalWrite for PostgresStore {
    fn open_call<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        call: NewCall,
    ) -> BoxFuture<'a, Result<OpenedCall>> {
        let args = (who.org.clone(), claim.clone(), call, self.mark());
        self.run(args, |conn, (org, claim, call, mark), before| {
            Box::pin(open(conn, (org, claim), call, mark, before))
        })
    }

    fn settle_call<'a>(
        &'a self,
        who: &'a Principal,
        claim: &'a Claim,
        key: CallKey,
        result: CallResult,
        at: Timestamp,
    ) -> BoxFuture<'a, Result<()>> {
        let args = (who.org.clone(), claim.clone(), key, result, at);
        self.run(args, |conn, (org, claim, key, result, at), _| {
            Box::pin(async move {
                if settled(conn, (org, claim), *key, (result, *at)).await? {
                    return Ok(());
                }
                let found = find(conn, org, claim, *key).await?;
                // It was settled before, and keeps its first result, or it was never announced.
                found.first().ok_or_else(|| rule::missing("call", key.0))?;
                Ok(())
            })
        })
    }
}

/// Finds the calls of a thread, the first announced first; see [`read`].
pub(crate) fn of_thread(org: &OrgId, thread: &ThreadId) -> Ask {
    let sql = whole!("WHERE org = $1 AND thread = $2 ORDER BY number");
    ask!(sql, text(org), text(thread))
}

/// Puts a whole record in.
pub(crate) fn put(org: &OrgId, thread: &ThreadId, call: &CallRecord, mark: &[u8]) -> Result<Ask> {
    let sql = "INSERT INTO calls (org, thread, key, kind, name, node, step, effect, state, result,
                   made, possibly_paid, reused, mark, opened_at, settled_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
    Ok(ask!(
        sql,
        text(org),
        text(thread),
        call.key.0.0.to_vec(),
        word(&call.kind)?,
        call.name.clone(),
        call.node.clone(),
        call.step,
        word(&call.effect)?,
        word(&call.state)?,
        call.result.as_ref().map(json).transpose()?,
        int(call.made),
        int(call.possibly_paid),
        int(call.reused),
        mark.to_vec(),
        call.opened_at.0,
        call.settled_at.map(|at| at.0),
    ))
}

async fn open(
    conn: &mut Conn,
    (org, claim): (&OrgId, &Claim),
    call: &NewCall,
    mark: &[u8],
    before: Before,
) -> Done<OpenedCall> {
    let thread = &claim.at.thread;
    let announcement = || announce(org, claim, call, mark);
    if before == Before::Nothing {
        let written = conn.write(vec![announcement()?]).await;
        let rows = commit::checked(conn, org, claim, written).await?;
        if rows.iter().any(|rows| !rows.is_empty()) {
            return Ok(OpenedCall::New);
        }
    }
    let found = find(conn, org, claim, call.key).await?;
    let Some(row) = found.first() else {
        // The try before this one did not get as far as the database.
        conn.commit(vec![announcement()?]).await?;
        return Ok(OpenedCall::New);
    };
    let mut known = read(row, thread)?;
    let last: &[u8] = At::new("calls", &thread).plain(row, "mark")?;
    if before == Before::Doubt && last == mark {
        return Ok(as_opened(known));
    }
    let opened = rule::reopen_call(&mut known);
    conn.commit(vec![count(org, thread, &known, mark)]).await?;
    Ok(opened)
}

/// What the last announcement of a call learned, by the record it left.
fn as_opened(record: CallRecord) -> OpenedCall {
    if record.state == CallState::Settled {
        return OpenedCall::Settled(record);
    }
    match (record.possibly_paid, record.effect) {
        (0, _) => OpenedCall::New,
        (_, Effect::ReadOnly) => OpenedCall::Again,
        _ => OpenedCall::Unknown(record),
    }
}

/// Begins a transaction for a claim that is the newest, with what is known of a call.
async fn find(conn: &mut Conn, org: &OrgId, claim: &Claim, key: CallKey) -> Done<Vec<Row>> {
    let sql = whole!("WHERE org = $1 AND thread = $2 AND key = $3");
    let thread = text(&claim.at.thread);
    let asks = vec![commit::hold(org, claim), ask!(sql, text(org), thread, key.0.0.to_vec())];
    let begun = conn.begin(asks).await;
    let mut found = commit::checked(conn, org, claim, begun).await?;
    Ok(found.pop().unwrap_or_default())
}

/// Announces a call that nobody has announced before, and returns a row if it did. One statement:
/// what is usual takes one round trip.
fn announce(org: &OrgId, claim: &Claim, call: &NewCall, mark: &[u8]) -> Result<Ask> {
    let sql = "INSERT INTO calls (org, thread, key, kind, name, node, step, effect, state, made,
                   possibly_paid, reused, mark, opened_at)
               SELECT $1, $2, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17
               FROM hold($1, $2, $3, $4, $5)
               ON CONFLICT (org, thread, key) DO NOTHING RETURNING 1";
    let record = rule::first_call(call.clone());
    let mut values = commit::holding(org, claim);
    let more: [Value; 12] = [
        Box::new(record.key.0.0.to_vec()),
        Box::new(word(&record.kind)?),
        Box::new(record.name),
        Box::new(record.node),
        Box::new(record.step),
        Box::new(word(&record.effect)?),
        Box::new(word(&record.state)?),
        Box::new(int(record.made)),
        Box::new(int(record.possibly_paid)),
        Box::new(int(record.reused)),
        Box::new(mark.to_vec()),
        Box::new(record.opened_at.0),
    ];
    values.extend(more);
    Ok(Ask::new(sql, values))
}

/// Settles a call that is announced and open; says whether it did.
async fn settled(
    conn: &mut Conn,
    (org, claim): (&OrgId, &Claim),
    key: CallKey,
    (result, at): (&CallResult, Timestamp),
) -> Done<bool> {
    let sql = "UPDATE calls c SET state = $7, result = $8, settled_at = $9
               FROM hold($1, $2, $3, $4, $5)
               WHERE c.org = $1 AND c.thread = $2 AND c.key = $6 AND c.state <> $7 RETURNING 1";
    let mut values = commit::holding(org, claim);
    let more: [Value; 4] = [
        Box::new(key.0.0.to_vec()),
        Box::new(word(&CallState::Settled)?),
        Box::new(json(result)?),
        Box::new(at.0),
    ];
    values.extend(more);
    let written = conn.write(vec![Ask::new(sql, values)]).await;
    let rows = commit::checked(conn, org, claim, written).await?;
    Ok(rows.iter().any(|rows| !rows.is_empty()))
}

fn count(org: &OrgId, thread: &ThreadId, call: &CallRecord, mark: &[u8]) -> Ask {
    let sql = "UPDATE calls SET made = $4, possibly_paid = $5, reused = $6, mark = $7
               WHERE org = $1 AND thread = $2 AND key = $3";
    let (made, paid, reused) = (int(call.made), int(call.possibly_paid), int(call.reused));
    let key = call.key.0.0.to_vec();
    ask!(sql, text(org), text(thread), key, made, paid, reused, mark.to_vec())
}

pub(crate) fn read(row: &Row, thread: &ThreadId) -> Result<CallRecord> {
    let name = format!("thread `{thread}`");
    let key = At::new("calls", &name).hash(row, "key")?;
    let name = format!("thread `{thread}`, call `{key}`");
    let at = At::new("calls", &name);
    Ok(CallRecord {
        key: CallKey(key),
        kind: at.word(row, "kind")?,
        name: at.plain(row, "name")?,
        node: at.plain(row, "node")?,
        step: at.plain(row, "step")?,
        effect: at.word(row, "effect")?,
        state: at.word(row, "state")?,
        result: at.maybe_json(row, "result")?,
        made: at.count(row, "made")?,
        possibly_paid: at.count(row, "possibly_paid")?,
        reused: at.count(row, "reused")?,
        opened_at: Timestamp(at.plain(row, "opened_at")?),
        settled_at: at.plain::<Option<i64>>(row, "settled_at")?.map(Timestamp),
    })
}
