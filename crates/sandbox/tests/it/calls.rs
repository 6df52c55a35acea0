//! Calls of the host.

use crate::{Echo, run, script};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use weftwork_sandbox::{Host, HostError, LimitKind, NoHost, SandboxError, SandboxLimits, Script};
use weftwork_types::BoxFuture;

#[tokio::test]
async fn a_call_has_its_arguments_and_its_answer() {
    let code = "async function handler(input, ctx) {
        ctx.log('begin');
        const one = await ctx.tools('math/add', { a: 1 });
        const [two, three] = await Promise.all([ctx.store.get(['n'], 'k'), ctx.agents.call('x', {})]);
        return [one, two, three];
    }";
    let host = Echo::default();
    let found = run(&script(code), &host).await.expect("runs");
    let asked = host.0.lock().expect("not poisoned").clone();
    let members: Vec<&str> = asked.iter().map(|(member, _)| member.as_str()).collect();
    assert_eq!(members, ["log", "tools", "store.get", "agents.call"]);
    assert_eq!(found, json!([["math/add", {"a": 1}], [["n"], "k"], ["x", {}]]));
}

#[tokio::test]
async fn what_is_not_granted_is_refused_by_name_and_can_be_caught() {
    let code = "async function handler(input, ctx) {
        const names = [];
        const visit = async (of, path) => {
            for (const [name, member] of Object.entries(of ?? {})) {
                if (typeof member !== 'function') { await visit(member, [...path, name]); continue; }
                try { await member(); names.push('granted'); } catch (error) { names.push([error.code, error.message, error instanceof Error]); }
            }
        };
        await visit(ctx, []);
        return names;
    }";
    let found = run(&script(code), &NoHost).await.expect("runs");
    let refused = found.as_array().expect("a list");
    assert_eq!(refused.len(), 12);
    for one in refused {
        assert_eq!(one[0], "W1055");
        assert!(one[1].as_str().is_some_and(|text| text.ends_with("is not granted")), "{one}");
        assert_eq!(one[2], true);
    }
}

/// A host that answers its first call last.
#[derive(Debug, Default)]
struct Late {
    begun: AtomicUsize,
    second: tokio::sync::Notify,
}

impl Host for Late {
    fn call(&self, _: String, _: Value) -> BoxFuture<'_, Result<Value, HostError>> {
        Box::pin(async move {
            match self.begun.fetch_add(1, Ordering::SeqCst) {
                0 => self.second.notified().await,
                _ => self.second.notify_one(),
            }
            Ok(Value::Null)
        })
    }
}

/// Answers arrive in the order of the calls, so that code makes the same calls when it runs again.
#[tokio::test]
async fn calls_overlap_and_their_answers_keep_their_order() {
    let code = "async function handler(input, ctx) {
        const ended = [];
        await Promise.all([0, 1, 2].map((n) => ctx.tools('t').then(() => ended.push(n))));
        return ended;
    }";
    assert_eq!(run(&script(code), &Late::default()).await.expect("runs"), json!([0, 1, 2]));
}

#[tokio::test]
async fn calls_and_what_they_send_are_limited() {
    let flood = "async function handler(input, ctx) { for (;;) ctx.emit('x') }";
    let ended = run(&script(flood), &Echo::default()).await.expect_err("is stopped");
    assert!(matches!(ended, SandboxError::Limit { limit: LimitKind::Calls }), "{ended}");
    let large = "async function handler(input, ctx) { for (;;) ctx.emit('x'.repeat(1e6)) }";
    let ended = run(&script(large), &Echo::default()).await.expect_err("is stopped");
    assert!(matches!(ended, SandboxError::Limit { limit: LimitKind::Output }), "{ended}");
    let within = "async function handler(input, ctx) {
        for (let i = 0; i < 9999; i++) await ctx.emit(i);
        return 'done';
    }";
    assert_eq!(run(&script(within), &Echo::default()).await.expect("runs"), json!("done"));
}

/// A host whose calls end when they are told to, and which counts them.
#[derive(Debug, Default)]
struct Slow {
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Host for Slow {
    fn call(&self, _: String, _: Value) -> BoxFuture<'_, Result<Value, HostError>> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            self.ended.fetch_add(1, Ordering::SeqCst);
            Ok(Value::Null)
        })
    }
}

#[tokio::test]
async fn calls_that_have_begun_end_whatever_becomes_of_the_code() {
    let limits = SandboxLimits { timeout_ms: 300, ..SandboxLimits::default() };
    for (body, is_sound) in [
        ("ctx.tools('a'); ctx.tools('b'); return 1", true),
        ("ctx.tools('a'); ctx.tools('b'); throw new Error('no')", false),
        ("ctx.tools('a'); ctx.tools('b'); for (;;) {}", false),
    ] {
        let host = Slow::default();
        let code = format!("async function handler(input, ctx) {{ {body} }}");
        let ended = run(&Script { limits, ..script(code) }, &host).await;
        assert_eq!(ended.is_ok(), is_sound, "{body}: {ended:?}");
        let counts = [host.begun, host.ended].map(AtomicUsize::into_inner);
        assert_eq!(counts, [2, 2], "{body}");
    }
}

#[tokio::test]
async fn what_code_receives_is_limited() {
    let code = "async function handler(input, ctx) {
        const large = 'x'.repeat(1e6);
        for (let i = 0; i < 10; i++) { await Promise.all(Array.from({ length: 8 }, () => ctx.log('x'))); }
        return 'done';
    }";
    let found = run(&script(code), &Large).await.expect_err("is stopped");
    assert!(matches!(found, SandboxError::Limit { limit: LimitKind::Received }), "{found}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_sent_lets_the_other_calls_end() {
    let host = LargeFirst::default();
    let code = "async function handler(input, ctx) {
        await Promise.all([ctx.log('x'), ctx.tools('a'), ctx.tools('b')]);
    }";
    let found = run(&script(code), &host).await.expect_err("is stopped");
    assert!(matches!(found, SandboxError::Limit { limit: LimitKind::Received }), "{found}");
    let counts = [host.0.begun, host.0.ended].map(AtomicUsize::into_inner);
    assert_eq!(counts, [2, 2]);
}

/// A host that is slow, and whose answer to `log` exceeds a message.
#[derive(Debug, Default)]
struct LargeFirst(Slow);

impl Host for LargeFirst {
    fn call(&self, member: String, args: Value) -> BoxFuture<'_, Result<Value, HostError>> {
        if member != "log" {
            return self.0.call(member, args);
        }
        Box::pin(async {
            // The others have begun.
            while self.0.begun.load(Ordering::SeqCst) < 2 {
                tokio::task::yield_now().await;
            }
            Ok(Value::String("x".repeat(65 << 20)))
        })
    }
}

/// A host whose answers are large.
#[derive(Debug)]
struct Large;

impl Host for Large {
    fn call(&self, _: String, _: Value) -> BoxFuture<'_, Result<Value, HostError>> {
        Box::pin(async { Ok(Value::String("x".repeat(1 << 20))) })
    }
}
