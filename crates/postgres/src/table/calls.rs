use crate::conn::{Ask, Conn, ask};
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
                let sql = whole!("WHERE org = $1 AND thread = $2 ORDER BY number");
                let ask = ask!(sql, text(org), text(thread));
                let rows = threads::read_of(conn, org, thread, ask).await?;
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
                let found = find(conn, org, claim, *key).await?;
                let row = found.first().ok_or_else(|| rule::missing("call", key.0))?;
                let mut record = read(row, &claim.at.thread)?;
                if rule::settle_call(&mut record, result.clone(), *at) {
                    conn.commit(vec![settle(org, &claim.at.thread, &record)?]).await?;
                }
                Ok(())
            })
        })
    }
}

async fn open(
    conn: &mut Conn,
    (org, claim): (&OrgId, &Claim),
    call: &NewCall,
    mark: &[u8],
    before: Before,
) -> Done<OpenedCall> {
    let thread = &claim.at.thread;
    let found = find(conn, org, claim, call.key).await?;
    let Some(row) = found.first() else {
        let record = rule::first_call(call.clone());
        conn.commit(vec![insert(org, thread, &record, mark)?]).await?;
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

fn insert(org: &OrgId, thread: &ThreadId, call: &CallRecord, mark: &[u8]) -> Result<Ask> {
    let sql = "INSERT INTO calls (org, thread, key, kind, name, node, step, effect, state, made,
                   possibly_paid, reused, mark, opened_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
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
        int(call.made),
        int(call.possibly_paid),
        int(call.reused),
        mark.to_vec(),
        call.opened_at.0,
    ))
}

fn count(org: &OrgId, thread: &ThreadId, call: &CallRecord, mark: &[u8]) -> Ask {
    let sql = "UPDATE calls SET made = $4, possibly_paid = $5, reused = $6, mark = $7
               WHERE org = $1 AND thread = $2 AND key = $3";
    let (made, paid, reused) = (int(call.made), int(call.possibly_paid), int(call.reused));
    let key = call.key.0.0.to_vec();
    ask!(sql, text(org), text(thread), key, made, paid, reused, mark.to_vec())
}

fn settle(org: &OrgId, thread: &ThreadId, call: &CallRecord) -> Result<Ask> {
    let sql = "UPDATE calls SET state = $4, result = $5, settled_at = $6
               WHERE org = $1 AND thread = $2 AND key = $3";
    let (key, state) = (call.key.0.0.to_vec(), word(&call.state)?);
    let result = call.result.as_ref().map(json).transpose()?;
    let settled_at = call.settled_at.map(|at| at.0);
    Ok(ask!(sql, text(org), text(thread), key, state, result, settled_at))
}

fn read(row: &Row, thread: &ThreadId) -> Result<CallRecord> {
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
