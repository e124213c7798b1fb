//! `ops::mla` on a GPU or the emulator, against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod cache;
mod capture;
mod case;
mod codes;
mod decode;
mod errors;
mod index;
mod reuse;

fn main() -> ExitCode {
    let suite = Suite::new()
        .device(Arch::Sm80, "a single wrong weight is found", case::finds_what_is_wrong)
        .device(Arch::Sm80, "every kernel computes sequences of mixed lengths", decode::kernels)
        .device(Arch::Sm80, "every kernel takes several items a CTA", decode::several_items_a_cta)
        .device(Arch::Sm80, "NaN behind the mask stays in its column", decode::behind_the_mask)
        .device(Arch::Sm80, "1 to 128 heads", decode::heads)
        .device(Arch::Sm80, "batches of 1 to 130", decode::batches)
        .device(Arch::Sm80, "caches in shuffled pages", decode::pages)
        .device(Arch::Sm80, "1 to 64 positions, causal and not", decode::positions)
        .device(Arch::Sm80, "prompts of more positions than 64", decode::prompts)
        .device(Arch::Sm80, "any number of parts of the keys", decode::splits)
        .device(Arch::Sm80, "parts give the very same where nothing is rounded", decode::exact_splits)
        .device(Arch::Sm80, "large scores", decode::heat)
        .device(Arch::Sm80, "pages that do not exist are zeros", decode::missing_pages)
        .device(Arch::Sm80, "one operator for many steps", decode::steps)
        .device(Arch::Sm80, "a plan for the layers of a model", capture::plan)
        .device(Arch::Sm80, "a workspace given, owned and too small", capture::workspace)
        .device(Arch::Sm80, "one operator on two devices", reuse::on_two_devices)
        .device(Arch::Sm80, "plans and own memory are not captured", reuse::plans_and_memory_in_a_capture)
        .device(Arch::Sm80, "a graph replays a step", capture::replay)
        .device(Arch::Sm90a, "caches of 8 bits: sequences and pages", codes::sequences)
        .device(Arch::Sm90a, "caches of 8 bits: positions, parts, scores, NaN", codes::options)
        .device(Arch::Sm90a, "caches of 8 bits: two tiles of rows in a cluster", codes::clusters)
        .device(Arch::Sm90a, "caches of 8 bits: lists of tokens", codes::lists)
        .device(Arch::Sm90a, "caches of 8 bits: refused calls", codes::errors)
        .device(Arch::Sm90a, "caches of 8 bits: tokens are appended", codes::append)
        .device(Arch::Sm90a, "caches of 8 bits: what is not appended", codes::append_errors)
        .device(Arch::Sm80, "an indexer's scores", index::scores)
        .device(Arch::Sm80, "an indexer's scores: views, NaN, nothing", index::views)
        .device(Arch::Sm80, "an indexer's scores: refused calls", index::errors)
        .device(Arch::Sm80, "refused calls leave everything alone", errors::leave_everything_alone);
    #[cfg(feature = "reduce")]
    let suite = suite.device(Arch::Sm90a, "keys that an indexer chose", index::chosen);
    suite.main()
}
