//! `decklog check-proof`

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use decklog::ErrorKind;
use decklog::seal::{Proof, Seal};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};

/// The longest proof: a line of 16 MiB with every byte escaped, and its seal.
const PROOF_BYTES_MAX: u64 = 128 << 20;
/// The longest line of `seals.jsonl`, and more than any head.
pub const SEAL_BYTES_MAX: u64 = 16 << 20;

/// Check a proof that `decklog prove` printed; needs no log
///
/// Exits with 0 only if the proof is valid.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog check-proof proof.json --seal seal.json\n\nWithout --seal, the proof is checked against its own seal: compare the hash of that seal with a\ntrusted copy."
)]
pub struct Args {
    /// The proof; - for standard input
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// A file with the trusted line of seals.jsonl
    #[arg(long, value_name = "FILE")]
    seal: Option<PathBuf>,
}

#[derive(Serialize)]
struct Verdict<'a> {
    holds: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    file: &'a str,
    line: u64,
    seal: u64,
    seal_hash: String,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let proof: Proof = read(&args.proof, PROOF_BYTES_MAX)?;
    let seal = args.seal.as_deref().map(|path| read(path, SEAL_BYTES_MAX));
    let seal: Option<Seal> = seal.transpose()?;
    let reason = match proof.check(seal.as_ref()) {
        Ok(()) => None,
        Err(e) if e.kind() == ErrorKind::Damaged => Some(e.to_string()),
        Err(e) => return Err(e.into()),
    };
    let verdict = Verdict {
        holds: reason.is_none(),
        reason,
        file: &proof.seal.file,
        line: proof.index.saturating_add(1),
        seal: proof.seal.seal,
        seal_hash: proof.seal.hash.to_string(),
    };
    let text = match &verdict.reason {
        Some(reason) => format!("not valid: {}", one_line(reason)),
        None => format!(
            "valid: seal {2} covers line {0} of {1} and has hash {3}",
            verdict.line,
            one_line(verdict.file),
            verdict.seal,
            verdict.seal_hash
        ),
    };
    context.print(&verdict, &text)?;
    Ok(Exit::with_findings(!verdict.holds))
}

/// Reads a JSON object of at most `bytes_max` bytes from a file, or from standard input if that is
/// `-`.
pub fn read<T: DeserializeOwned>(path: &Path, bytes_max: u64) -> Result<T, Failure> {
    let mut text = String::new();
    let mut whole = |from: &mut dyn Read| from.take(bytes_max + 1).read_to_string(&mut text);
    let read = if path == Path::new("-") {
        whole(&mut io::stdin().lock())
    } else {
        File::open(path).and_then(|mut file| whole(&mut file))
    };
    let shown = path.display().to_string();
    let shown = one_line(&shown);
    let read = read.map_err(|e| Failure::store(format!("cannot read {shown}: {e}")))?;
    if read as u64 > bytes_max {
        return Err(Failure::usage(format!(
            "{shown} has the wrong format: it is longer than {bytes_max} bytes"
        )));
    }
    serde_json::from_str(&text)
        .map_err(|e| Failure::usage(format!("{shown} has the wrong format: {e}")))
}
