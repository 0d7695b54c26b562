//! `decklog mcp`

use decklog::Durability;
use decklog::mcp::{Server, Tools};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::log;

/// Serve the log to an MCP client, over standard input and output
///
/// A client such as Claude Code starts it. Its agent then writes and reads its own log with these
/// tools, resources and prompts. Other processes may use the log at the same time.
/// 'decklog serve' offers the same at /mcp.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  claude mcp add decklog -- decklog mcp
  decklog mcp --tools default,inbox_claim,inbox_done,inbox_fail
  decklog mcp --read-only --tools log_search,conversation_get")]
pub struct Args {
    /// Offer only tools that read
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    tools: Offered,
    /// When a record is acknowledged
    #[arg(long, value_enum, default_value_t)]
    durability: Durability,
}

/// The tools to offer.
#[derive(Debug, clap::Args)]
pub struct Offered {
    /// Tools to offer over MCP: names separated by commas, 'default' for the common tools, 'all' for
    /// every tool
    #[arg(
        long = "tools",
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "default"
    )]
    names: Vec<String>,
}

impl Offered {
    pub fn of(&self, tools: &Tools) -> decklog::Result<Tools> {
        tools.only(self.names.iter().map(|name| name.trim()))
    }
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    log::start("warn", context.json);
    let all = Tools::all();
    let tools = args
        .tools
        .of(&if args.read_only { all.read_only() } else { all })?;
    if args.read_only {
        Server::new(context.open_to_read()?, tools).serve_stdio()?;
        return Ok(Exit::Ok);
    }
    let store = context.open_to_write(args.durability)?;
    let options = context.options().durability(args.durability);
    let path = context.store_path()?;
    // A full disk may have space again.
    let open_anew = move || options.clone().open(&path);
    Server::new(store, tools)
        .opening_anew(open_anew)
        .serve_stdio()?;
    Ok(Exit::Ok)
}
