//! Logins at servers with OAuth.

use crate::args::McpLogin;
use weftwork::mcp::{LoginKind, LoginRequest, LoginScreen, LoginState, LoginStep, McpServers};
use weftwork::types::BoxFuture;
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::input::Lines;
use weftwork_cli_base::terminal::{Terminal, to_plain};

/// The person at the terminal.
struct Person<'a> {
    terminal: &'a Terminal,
    opens: bool,
}

impl LoginScreen for Person<'_> {
    fn show(&self, step: &LoginStep) {
        let terminal = self.terminal;
        let page = match step {
            LoginStep::Open { url } => {
                terminal.note(format_args!("open this address and log in:\n{}", to_plain(url)));
                if terminal.typed {
                    terminal.note(
                        "if the browser is on another machine, copy the address at which it ends \
                         (http://127.0.0.1…) to here",
                    );
                }
                url
            }
            LoginStep::Code { url, code, complete } => {
                let code = to_plain(code);
                terminal.note(format_args!("open {} and type the code {code}", to_plain(url)));
                complete.as_ref().unwrap_or(url)
            }
        };
        if self.opens {
            weftwork_cli_base::browser::open_page(page, terminal);
        }
    }

    fn pasted(&self) -> BoxFuture<'_, String> {
        let typed = self.terminal.typed;
        Box::pin(async move {
            let lines = typed.then(Lines::of_process).and_then(Result::ok);
            if let Some(mut lines) = lines {
                while let Ok(Some(line)) = lines.next().await {
                    if line.contains("code=") || line.contains("error=") {
                        return line;
                    }
                    self.terminal.note("this address has no `code`; copy all of it");
                }
            }
            std::future::pending().await
        })
    }
}

/// Logs in, and calls the server to see that it accepts the token.
pub(super) async fn log_in(
    servers: &McpServers,
    args: &McpLogin,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    let kind = if args.device { LoginKind::Device } else { LoginKind::Browser };
    let request = LoginRequest { kind, scopes: args.scopes.clone() };
    let person = Person { terminal, opens: !args.no_open };
    servers.log_in(&args.server, &request, &person).await?;
    let state = super::list::check_server(servers, &args.server).await?;
    terminal.note(format_args!("{}: {state}", args.server));
    Ok(Exit::Done)
}

pub(super) async fn log_out(
    servers: &McpServers,
    server: &str,
    terminal: &Terminal,
) -> Result<Exit, CliError> {
    terminal.note(match servers.log_out(server).await? {
        true => format!("{server}: logged out"),
        false => format!("{server}: there was no login"),
    });
    Ok(Exit::Done)
}

/// The state of a login in words.
pub(super) fn describe_login(login: &LoginState) -> String {
    let issuer = to_plain(&login.issuer);
    match login {
        LoginState { is_ended: true, .. } => format!("the login at {issuer} has ended"),
        LoginState { is_renewable: false, ends_at: Some(at), .. } => {
            format!(
                "logged in at {issuer} until {}",
                weftwork_cli_base::terminal::format_moment(*at)
            )
        }
        _ => format!("logged in at {issuer}"),
    }
}
