//! `ops::attention` on a GPU or the emulator, against references in f64.

use std::process::ExitCode;

use tilewright::Arch;
use tilewright_support::suite::Suite;

mod cache;
mod capture;
mod case;
mod chunks;
mod codes;
mod decode;
mod errors;
mod gradient;
mod kernels;
mod lengths;
mod masks;
mod merge;
mod operand;
mod packed;
mod plan;
mod queue;
mod reuse;
mod scaled;
mod selected;
mod sparse;
mod terms;
mod values;
mod views;
mod wide;

fn main() -> ExitCode {
    Suite::new()
        .test("a single wrong weight is found", case::finds_what_is_wrong)
        .device(Arch::Sm80, "every kernel computes partial, whole and many tiles", kernels::each)
        .device(Arch::Sm80, "every kernel takes several tiles a CTA", kernels::several_tiles_a_cta)
        .device(Arch::Sm80, "all lengths from 1 to 4096", lengths::all)
        .device(Arch::Sm80, "lengths of 0", lengths::none)
        .device(Arch::Sm80, "head dimensions", lengths::head_dimensions)
        .device(Arch::Sm80, "head dimensions beyond 256", wide::lengths)
        .device(Arch::Sm80, "head dimensions beyond 256, caches", wide::decode)
        .device(Arch::Sm80, "head dimensions beyond 256, sequences one after the other", wide::sequences)
        .device(Arch::Sm80, "refused head dimensions", wide::errors)
        .device(Arch::Sm80, "heads that share keys and values", lengths::shared_heads)
        .device(Arch::Sm80, "causal, of unequal lengths", masks::causal)
        .device(Arch::Sm80, "windows", masks::windows)
        .device(Arch::Sm80, "tensors lie anywhere", views::everywhere)
        .device(Arch::Sm80, "a fused projection's parts", views::fused)
        .device(Arch::Sm80, "keys and values that repeat", views::repetition)
        .device(Arch::Sm80, "capped scores", values::capped)
        .device(Arch::Sm80, "large scores", values::large)
        .device(Arch::Sm80, "NaN and infinity stay in their rows", values::not_numbers)
        .device(Arch::Sm80, "NaN behind a mask stays in its tile's column", values::behind_the_mask)
        .device(Arch::Sm80, "sinks", terms::sinks)
        .device(Arch::Sm80, "ALiBi", terms::slopes)
        .device(Arch::Sm80, "a bias of scores", terms::bias)
        .device(Arch::Sm80, "sinks and slopes without keys, of any size", terms::extremes)
        .device(Arch::Sm80, "sparse: lists of blocks on every kernel", sparse::kernels)
        .device(Arch::Sm80, "sparse: several tiles a CTA", sparse::several_tiles_a_cta)
        .device(Arch::Sm80, "sparse: lists of all densities and lengths", sparse::lengths)
        .device(Arch::Sm80, "sparse: lists beside masks and sinks", sparse::masks)
        .device(
            Arch::Sm80,
            "sparse: lists with numbers that name no block, and twice the same",
            sparse::strays,
        )
        .device(Arch::Sm80, "sparse: what no list names", sparse::unlisted)
        .device(Arch::Sm80, "sparse: other lists in a graph, of all types", sparse::replay)
        .device(Arch::Sm80, "sparse: a queue of tiles gives the same bits", sparse::queued)
        .device(Arch::Sm80, "selected: lists of each query on every kernel", selected::kernels)
        .device(Arch::Sm80, "selected: lengths, blocks, masks and sinks", selected::lengths)
        .device(Arch::Sm80, "selected: tensors lie anywhere", selected::places)
        .device(Arch::Sm80, "selected: lists in parts", selected::splits)
        .device(Arch::Sm80, "selected: caches with lengths and pages", selected::caches)
        .device(
            Arch::Sm80,
            "selected: numbers that name no block, blocks twice, empty lists",
            selected::strays,
        )
        .device(Arch::Sm80, "selected: what no list names", selected::unlisted)
        .device(Arch::Sm80, "selected: other lists in a graph, of all types", selected::replay)
        .device(Arch::Sm80, "lengths of sequences, in a cache", decode::lengths)
        .device(Arch::Sm80, "caches in shuffled pages", decode::pages)
        .device(Arch::Sm80, "1 to 16 queries of heads that share keys", decode::queries)
        .device(Arch::Sm80, "any number of parts of the keys", decode::splits)
        .device(Arch::Sm80, "caches of 8 bits", codes::values)
        .device(Arch::Sm80, "caches of 8 bits, with all options", codes::options)
        .device(Arch::Sm90a, "wide caches of 8 bits", codes::wide)
        .device(Arch::Sm80, "every code of 8 bits", codes::every_code)
        .device(Arch::Sm80, "refused caches of 8 bits", codes::errors)
        .device(Arch::Sm80, "sequences one after the other", packed::lengths)
        .device(Arch::Sm80, "sinks and slopes of sequences one after the other", packed::terms)
        .device(Arch::Sm80, "packed queries over a cache of keys", chunks::pages)
        .device(Arch::Sm80, "sequences that overlap or are too long", packed::wrong_offsets)
        .device(Arch::Sm80, "a queue of packed sequences' tiles gives the same bits", queue::same_bits)
        .device(Arch::Sm80, "a queue of any number of sequences", queue::any_number)
        .device(Arch::Sm80, "a queue in random orders", queue::random_orders)
        .device(Arch::Sm80, "a queue in a graph, with other offsets", queue::replay)
        .device(Arch::Sm80, "a queue's workspace", queue::workspace)
        .device(Arch::Sm80, "a queue for several launches", queue::several_launches)
        .device(Arch::Sm80, "pages that do not exist are zeros", decode::missing_pages)
        .device(Arch::Sm80, "a workspace given, owned and too small", decode::workspace)
        .device(Arch::Sm80, "merged parts of the keys", merge::values)
        .device(
            Arch::Sm80,
            "merged attentions over a shared prefix and what follows",
            merge::of_a_shared_prefix,
        )
        .device(Arch::Sm80, "merges of what is no number", merge::not_numbers)
        .device(Arch::Sm80, "refused merges, and empty ones", merge::errors)
        .device(Arch::Sm80, "a plan of steps, numbers of all types", plan::steps)
        .device(Arch::Sm80, "offsets of all types", plan::offsets)
        .device(Arch::Sm80, "one operator on two devices", reuse::on_two_devices)
        .device(Arch::Sm80, "an operator's own memory is not captured", reuse::own_memory_in_a_capture)
        .device(Arch::Sm80, "a graph replays an attention", capture::replay)
        .gpu(Arch::Sm80, "calls take no memory", capture::memory)
        .device(Arch::Sm90a, "overlapping calls", capture::overlapping)
        .device(Arch::Sm80, "refused calls leave everything alone", errors::leave_everything_alone)
        .device(Arch::Sm90a, "8-bit floats on every kernel, of all sizes", scaled::sizes)
        .device(Arch::Sm90a, "8-bit floats with equal scores, exactly", scaled::means)
        .device(Arch::Sm90a, "8-bit floats whose weights are of all sizes", scaled::weights)
        .device(Arch::Sm90a, "8-bit floats that are NaN", scaled::not_numbers)
        .device(Arch::Sm90a, "8-bit floats without queries or keys", scaled::nothing)
        .device(Arch::Sm90a, "8-bit floats of keys that sequences share", scaled::repeated)
        .device(Arch::Sm90a, "plans and graphs of 8-bit floats", scaled::planned)
        .device(Arch::Sm90a, "refused attentions of 8-bit floats", scaled::errors)
        .device(Arch::Sm80, "gradients on every kernel", gradient::kernels)
        .device(Arch::Sm80, "gradients of all head dimensions, groups of heads and windows", gradient::sizes)
        .device(Arch::Sm80, "gradients of heads whose tiles go together", gradient::together)
        .device(Arch::Sm80, "gradients of sequences one after the other", gradient::packed)
        .device(Arch::Sm80, "gradients without queries or keys", gradient::none)
        .device(Arch::Sm80, "gradients of tensors that lie anywhere", gradient::places)
        .device(Arch::Sm80, "gradients of large scores", gradient::large)
        .device(Arch::Sm80, "gradients of small scores", gradient::small)
        .device(Arch::Sm80, "gradients beside NaN", gradient::not_numbers)
        .device(Arch::Sm80, "deterministic gradients", gradient::deterministic)
        .device(Arch::Sm90a, "gradients of walks that CTAs divide", gradient::divided)
        .device(Arch::Sm80, "gradients beside sinks, slopes and biases, and by them", gradient::added)
        .device(Arch::Sm80, "gradients by biases that heads or sequences share", gradient::shared_biases)
        .device(Arch::Sm80, "gradients by sinks and biases without sequences or heads", gradient::nobody)
        .device(Arch::Sm80, "plans of gradients by sinks and biases", gradient::planned)
        .device(Arch::Sm80, "refused gradients", gradient::errors)
        .device(Arch::Sm80, "refused gradients by sinks and biases", gradient::added_errors)
        .main()
}
