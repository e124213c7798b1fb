//! Random calls: valid ones against f64, others that must be refused, files that are damaged.
//!
//! The seed is new each time and printed; `TILEWRIGHT_FUZZ_SEED` sets it, `TILEWRIGHT_FUZZ_SECONDS` how long it takes (8),
//! `TILEWRIGHT_FUZZ_KIND` runs one kind of call alone, by a part of its name, and `TILEWRIGHT_FUZZ_CASE` one case, as a failure says.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime};

use tilewright::{Arch, Device};
pub use tilewright_support::suite::Outcome;
use tilewright_support::suite::Suite;

use random::Random;

mod attention;
mod conv;
mod dequant;
mod files;
mod floats;
mod gemm;
mod grouped;
mod indexer;
mod int8;
mod mla;
mod place;
mod pointwise;
mod random;
mod reduce;
mod refused;
mod rows;
mod scaled;
mod selected;
mod sequences;
mod views;

/// What is called, for messages.
#[derive(Default)]
pub struct Call {
    text: String,
    refused: bool,
}

impl Call {
    /// Says what it is.
    pub fn set(&mut self, text: String) {
        self.text = text;
    }

    /// Says more.
    pub fn add(&mut self, text: String) {
        self.text += &text;
    }

    /// The call was refused by this error, as it may be: nothing was computed.
    pub fn refused(&mut self, error: tilewright::Error) -> Outcome {
        self.add(format!(", refused: {error}"));
        self.refused = true;
        Ok(())
    }
}

type Case = fn(&mut Random, &Device, &mut Call) -> Outcome;

/// Case number i is of kind i modulo their number.
const KINDS: [(&str, Case); 16] = [
    ("products", gemm::case),
    ("views", views::case),
    ("products with narrow weights", dequant::case),
    ("attention", attention::case),
    ("refused calls", refused::case),
    ("products of int8", int8::case),
    ("latent attention", mla::case),
    ("damaged files", files::case),
    ("pointwise operators", pointwise::case),
    ("rows", rows::case),
    ("reductions", reduce::case),
    ("convolutions", conv::case),
    ("scores of an indexer", indexer::case),
    ("selected blocks", selected::case),
    ("products of groups", grouped::case),
    ("products of 8 bits with scales", scaled::case),
];

/// Cases that are run at least, of each kind; more where a kind's first ones were all refused.
const ROUNDS: u64 = 100;

fn main() -> ExitCode {
    Suite::new().device(Arch::Sm80, "random calls are right or refused", fuzz).main()
}

/// An environment variable's number.
fn number<T: FromStr>(name: &str) -> Result<Option<T>, String> {
    let Ok(text) = std::env::var(name) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| format!("`{name}` was {text:?}; it must be a number"))
}

fn fuzz(device: &Device) -> Outcome {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos() as u64;
    let seed = number("TILEWRIGHT_FUZZ_SEED")?.unwrap_or(now % 1_000_000_000);
    let most = Duration::from_secs(number("TILEWRIGHT_FUZZ_SECONDS")?.unwrap_or(8));
    println!("TILEWRIGHT_FUZZ_SEED={seed}");
    if let Some(number) = number("TILEWRIGHT_FUZZ_CASE")? {
        let mut call = Call::default();
        let outcome = run(device, (seed, number), &mut call);
        println!("{}", call.text);
        return outcome;
    }
    let only = std::env::var("TILEWRIGHT_FUZZ_KIND").unwrap_or_default();
    let wanted = KINDS.map(|(kind, _)| kind.contains(&only));
    if wanted == [false; KINDS.len()] {
        let kinds = KINDS.map(|(kind, _)| kind).join(", ");
        return Err(format!("no kind is `{only}`; there are {kinds}").into());
    }
    let (start, mut ran, mut refused) = (Instant::now(), [0; KINDS.len()], 0);
    for number in 0.. {
        let (round, kind) = (number / KINDS.len() as u64, (number % KINDS.len() as u64) as usize);
        let all = ran.iter().zip(wanted).all(|(&count, wanted)| count > 0 || !wanted);
        if kind == 0 && round > 0 && start.elapsed() > most && (all || round >= ROUNDS) {
            break;
        }
        if !wanted[kind] {
            continue;
        }
        let mut call = Call::default();
        run(device, (seed, number), &mut call)?;
        match call.refused {
            true => refused += 1,
            false => ran[kind] += 1,
        }
    }
    for (at, (kind, _)) in KINDS.iter().enumerate().filter(|(at, _)| wanted[*at]) {
        let count = ran[at];
        println!("{count} cases of {kind}");
        assert!(count > 0, "no case of {kind} ran");
    }
    println!("{refused} cases for which there is no kernel");
    Ok(())
}

/// Runs a case; an error says how to run it again.
fn run(device: &Device, (seed, number): (u64, u64), call: &mut Call) -> Outcome {
    let (kind, case) = KINDS[(number % KINDS.len() as u64) as usize];
    let mut random = Random::new(seed, number);
    // Some cases run their warps in a random order.
    let reordered =
        random.one_in(4).then(|| Device::emulator_with_seed(seed)).filter(|_| device.is_emulator());
    let device = reordered.as_ref().unwrap_or(device);
    let outcome = catch_unwind(AssertUnwindSafe(|| case(&mut random, device, call)));
    let what = match outcome {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(failed)) => failed.message().unwrap_or("failed").to_owned(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            format!("panicked: {text}")
        }
    };
    let again = format!("TILEWRIGHT_FUZZ_SEED={seed} TILEWRIGHT_FUZZ_CASE={number}");
    Err(format!("{kind}: {what}\nin {} on {device:?}\nto run it alone: {again}", call.text).into())
}
