//! `ops::grouped_gemm` and what goes with it against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod case;
mod combine;
mod errors;
mod gated;
mod k_grouped;
#[cfg(all(feature = "pointwise", feature = "reduce", feature = "rows"))]
mod moe;
mod numbers;
mod order;
mod reuse;
mod sizes;

fn main() -> ExitCode {
    let suite = Suite::new()
        .device(Arch::Sm80, "groups of uneven sizes, one behind the other", sizes::offsets)
        .device(Arch::Sm80, "groups with matrices of their own", sizes::counts)
        .device(Arch::Sm80, "one group to 256, all rows in one of them", sizes::groups)
        .device(Arch::Sm80, "products without rows, columns, groups or depth", sizes::nothing)
        .device(Arch::Sm80, "tensors lie anywhere", sizes::anywhere)
        .device(Arch::Sm80, "numbers of every type", numbers::types)
        .device(Arch::Sm80, "numbers that are not as they must be", numbers::wrong)
        .device(Arch::Sm80, "sums of exact products are exact", numbers::exact)
        .device(Arch::Sm80, "NaN stays in its row and its group", numbers::not_a_number)
        .device(Arch::Sm80, "schedules of other seeds", reuse::seeds)
        .device(Arch::Sm80, "a graph replays with the numbers of the moment", reuse::replayed)
        .device(Arch::Sm80, "a plan runs on other tensors", reuse::planned)
        .device(Arch::Sm80, "gated units of the products", gated::units)
        .device(Arch::Sm80, "gated units of one group to 256", gated::groups)
        .device(Arch::Sm80, "gated units lie anywhere", gated::anywhere)
        .device(Arch::Sm80, "gated units of nothing", gated::nothing)
        .device(Arch::Sm80, "NaN stays in its row and its unit", gated::not_a_number)
        .device(Arch::Sm80, "gated units, in schedules of other seeds", gated::seeds)
        .device(Arch::Sm80, "a plan of gated units runs on other tensors", gated::planned)
        .device(Arch::Sm80, "refused gated units", gated::refused)
        .device(Arch::Sm80, "rows in the order of groups", order::ordered)
        .device(Arch::Sm80, "entries without a group", order::left_out)
        .device(Arch::Sm80, "weighted sums of rows", combine::combined)
        .device(Arch::Sm80, "products over groups' rows", k_grouped::sizes)
        .device(Arch::Sm80, "products over groups' rows, added to what is there", k_grouped::added)
        .device(Arch::Sm80, "products over the rows of one group to 256", k_grouped::groups)
        .device(Arch::Sm80, "products over groups' rows that lie anywhere", k_grouped::anywhere)
        .device(Arch::Sm80, "products over no rows, and of no elements", k_grouped::nothing)
        .device(Arch::Sm80, "NaN in a group's row stays in its product", k_grouped::not_a_number)
        .device(Arch::Sm80, "a graph replays products over the rows of the moment", k_grouped::replayed)
        .device(Arch::Sm80, "products over groups' rows, in schedules of other seeds", k_grouped::seeds)
        .device(Arch::Sm80, "refused products over groups' rows", k_grouped::refused)
        .device(Arch::Sm80, "refused calls leave everything alone", errors::refused)
        .device(Arch::Sm80, "refused orders and sums", errors::refused_orders);
    // Its steps are operators of other features.
    #[cfg(all(feature = "pointwise", feature = "reduce", feature = "rows"))]
    let suite = suite
        .device(Arch::Sm80, "layers of experts", moe::layers)
        .device(Arch::Sm80, "layers of experts whose product stores units", moe::fused)
        .device(Arch::Sm80, "NaN among logits stays in its row", moe::not_a_number)
        .device(Arch::Sm80, "refused layers", moe::refused);
    #[cfg(all(feature = "dequant_gemm", feature = "pointwise", feature = "reduce", feature = "rows"))]
    let suite = suite.device(Arch::Sm80, "layers of experts of narrow weights", moe::narrow_weights);
    suite.main()
}
