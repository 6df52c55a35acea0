//! `weft explain`: shows the page of an error code.

use crate::args::Explain;
use weftwork::config::nearest;
use weftwork_cli_base::CliError;
use weftwork_cli_base::exit::Exit;
use weftwork_cli_base::terminal::{Style, Table, Terminal};
use weftwork_cli_serve::pages;

pub(crate) fn explain(args: &Explain, terminal: &Terminal) -> Result<Exit, CliError> {
    let Some(code) = &args.code else {
        let mut table = Table::new(&["CODE", "ERROR"]);
        pages::page_titles()
            .for_each(|(code, title)| table.row([code.to_owned(), title.to_owned()]));
        table.write(terminal)?;
        return Ok(Exit::Done);
    };
    let wanted = code.trim().to_uppercase();
    let Some(page) = pages::find_page(&wanted) else {
        let near = nearest(&wanted, pages::page_titles().map(|(code, _)| code));
        return Err(CliError::UnknownCode {
            found: code.clone(),
            hint: match near {
                Some(near) => format!("did you mean `{near}`? `weft explain` lists all"),
                None => "codes look like `W0302`; `weft explain` lists all".to_owned(),
            },
        });
    };
    for line in page.trim_end().lines() {
        match line.strip_prefix("# ").or_else(|| line.strip_prefix("## ")) {
            Some(title) => terminal.line(terminal.paint(Style::Strong, title))?,
            None => terminal.line(line)?,
        }
    }
    Ok(Exit::Done)
}
