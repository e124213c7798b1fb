//! `ops::scaled_gemm` against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod bytes;
mod case;
mod errors;
mod grouped;
mod numbers;
mod precise;
mod scales;
mod sizes;

fn main() -> ExitCode {
    Suite::new()
        .device(Arch::Sm90a, "every kernel of 8-bit floats, partial, whole and many tiles", sizes::floats)
        .device(Arch::Sm90a, "every kernel of tf32", sizes::tf32)
        .device(Arch::Sm80, "every kernel of int8, exactly", sizes::integers)
        .device(Arch::Sm80, "products without elements or depth", sizes::nothing)
        .device(Arch::Sm90a, "C and its bias lie anywhere", sizes::anywhere)
        .device(Arch::Sm90a, "scales of tensors, rows and blocks", scales::of_floats)
        .device(Arch::Sm80, "scales of int8", scales::of_integers)
        .device(Arch::Sm90a, "scales of zero, infinity and NaN", scales::not_numbers)
        .device(Arch::Sm90a, "all codes of 8-bit floats", numbers::codes)
        .device(Arch::Sm90a, "sums that f16 does not hold become infinite", numbers::overflow)
        .device(Arch::Sm90a, "sums of exact products are exact", numbers::exact)
        .device(Arch::Sm90a, "a plan runs on other tensors", sizes::planned)
        .device(Arch::Sm90a, "all CTAs divide tiles, where they have a workspace", bytes::streamed)
        .device(Arch::Sm90a, "C of e4m3, on every kernel, anywhere", bytes::sizes)
        .device(
            Arch::Sm90a,
            "C of e4m3 is scaled and rounded, and its largest magnitude found, exactly",
            bytes::exact,
        )
        .device(Arch::Sm90a, "C of e4m3 saturates; amax of infinities and NaN", bytes::not_numbers)
        .device(Arch::Sm90a, "amax over several products, without elements, without depth", bytes::collected)
        .device(Arch::Sm90a, "plans and graphs with scale_c and amax", bytes::planned)
        .device(Arch::Sm90a, "what is refused about C of e4m3", bytes::refused)
        .device(Arch::Sm90a, "precise products of f32, of any strides", precise::sizes)
        .device(Arch::Sm90a, "precise products of extreme numbers", precise::extremes)
        .device(Arch::Sm90a, "plans of precise products have workspaces", precise::planned)
        .device(Arch::Sm90a, "precise products of other types are refused", precise::refused)
        .device(Arch::Sm80, "refused calls leave everything alone", errors::refused)
        .device(Arch::Sm90a, "groups of uneven sizes, with scales of blocks", grouped::sizes)
        .device(Arch::Sm90a, "one group to 64, without rows or depth", grouped::groups)
        .device(Arch::Sm90a, "groups in schedules of other seeds", grouped::seeds)
        .device(Arch::Sm90a, "a graph replays groups with the numbers of the moment", grouped::replayed)
        .device(Arch::Sm90a, "refused products of groups leave everything alone", grouped::refused)
        .main()
}
