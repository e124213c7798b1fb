//! Which kernels compute the gradients of an attention.

use std::fmt;
use std::sync::LazyLock;

use tilewright_attention::gradient::{
    BIAS, BiasKernel, GRADIENT, GradientKernel, ROUNDING, RoundingKernel, STATS, StatsKernel,
};
use tilewright_device::kernel::Listed;

use super::problem::Problem;
use crate::ops::attention::problem::Size;
use crate::ops::frame::{Choice, Copies, Cycles, Rated, Rejection, Table};
use crate::{Arch, Device, KernelSet};

/// Steps that a tile is behind the one before it where both add in turn: an addition is counted a step later, and a wait for it takes part of the next one.
const BEHIND: u64 = 3;

/// One compiled kernel.
pub type Compiled = Listed<GradientKernel>;

impl Rated for GradientKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &tilewright_attention::KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.tile[0], self.tile[1], self.stages]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GradientKernel { tile: [m, n], columns: [d, _], stages, adds, .. } = self;
        write!(f, "tiles of {m} keys, blocks of {n} queries, head dimensions up to {d}, {stages} stages")?;
        if *adds { f.write_str(", dQ by additions") } else { Ok(()) }
    }
}

/// By element type, what gradients of keys begin with.
static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(GRADIENT.iter().filter(|k| k.of_scores_of_keys()).map(|k| (k.element, *k))));

trait OfKeys {
    /// It computes dK, with others or alone.
    fn of_scores_of_keys(&self) -> bool;
}

impl OfKeys for GradientKernel {
    fn of_scores_of_keys(&self) -> bool {
        self.of_keys && self.wanted != "values"
    }
}

/// The cycles of a step of a tile, on an H200, guessed from products alone: of each step's 5, 7 or 8 products 4096 multiplications and additions take a cycle of
/// `wgmma`; `mma.sync` is taken to have a quarter of that rate, element-wise loads a sixteenth.
pub(super) fn cycles_of_step(kernel: &Compiled) -> u64 {
    let products = match kernel.wanted {
        // Its S and dP wait for shared memory more than for products.
        "all" if kernel.divides_columns => 6,
        "all" => 5,
        "keys_values" => 7,
        _ => 8,
    };
    let slowness = match (kernel.arch, kernel.any_strides) {
        (Arch::Sm90a, _) => 1,
        (Arch::Sm80, false) => 4,
        (Arch::Sm80, true) => 16,
    };
    let [m, n] = kernel.tile.map(u64::from);
    m * n * u64::from(kernel.columns[0]) / 2048 * products * slowness
}

/// The kernels of an element type.
pub(super) fn kernels(element: &'static str) -> &'static [Compiled] {
    TABLE.kernels(&element)
}

/// What computes the rest: dV where the kernel does not, and dQ where it does not add it up.
pub(super) fn others(kernel: &Compiled) -> [Option<&'static Compiled>; 2] {
    let like = |wanted: &'static str| {
        GRADIENT.iter().find(|k| {
            (k.wanted, k.arch, k.element, k.columns[0], k.any_strides)
                == (wanted, kernel.arch, kernel.element, kernel.columns[0], kernel.any_strides)
        })
    };
    match kernel.wanted {
        "all" => [None, None],
        "keys_values" => [None, like("queries")],
        _ => [like("values"), like("queries")],
    }
}

/// What computes the gradient by a bias beside a kernel: it reads as that does.
pub(super) fn of_bias(kernel: &Compiled) -> Option<&'static Listed<BiasKernel>> {
    let alike = |k: &&Listed<BiasKernel>| {
        (k.element, k.arch, k.any_strides) == (kernel.element, kernel.arch, kernel.any_strides)
            && k.columns >= kernel.columns[0]
    };
    BIAS.iter().find(alike)
}

/// What computes the statistics of queries in front of a kernel, of heads of at most so many columns: in tiles that these fill best.
pub(super) fn stats(kernel: &Compiled, columns: usize) -> Option<&'static Listed<StatsKernel>> {
    let alike = STATS.iter().filter(|k| (k.element, k.arch) == (kernel.element, kernel.arch));
    let width = |k: &&Listed<StatsKernel>| k.tile[1] as usize;
    let wide_enough = alike.clone().filter(|k| width(k) >= columns).min_by_key(width);
    wide_enough.or_else(|| alike.max_by_key(width))
}

/// What rounds the dQ that a kernel adds up.
pub(super) fn rounding(kernel: &Compiled) -> Option<&'static Listed<RoundingKernel>> {
    let tile = [kernel.tile[1], kernel.columns[0]];
    ROUNDING.iter().find(|k| kernel.adds && (k.element, k.tile) == (kernel.element, tile))
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        self.kernels
    }
    fn what(&self) -> String {
        format!("gradients of {}", self.inputs[0].dtype.name())
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let Size { batch, kv_heads, queries, keys, columns, .. } = self.size;
        if self.adds() && kernel.adds {
            return Err(Rejection::Because("it adds nothing to scores"));
        }
        if self.scales.cap != 0.0 && !kernel.caps {
            return Err(Rejection::Because("it caps no scores"));
        }
        if self.adds() && self.scales.cap != 0.0 && !kernel.adds_to_capped {
            return Err(Rejection::Because("it adds nothing to scores that are capped"));
        }
        let [most, _] = kernel.columns;
        if columns.into_iter().any(|columns| columns > most as usize) {
            return Err(Rejection::AtMost { what: "a head dimension", most });
        }
        if self.splits.is_some_and(|splits| splits > 1) && !kernel.adds {
            return Err(Rejection::Because("it does not divide walks"));
        }
        if queries > 0 && keys > 0 && !kernel.any_strides {
            self.operands.iter().try_for_each(|operand| operand.check(Copies::of(kernel.arch)))?;
        }
        let [m, n] = kernel.tile.map(u64::from);
        let (shared, parts) = (u64::from(self.ranges.shared_by), u64::from(self.parts(kernel)));
        let (blocks, keys) = ((queries as u64).div_ceil(n) * shared, (keys as u64).div_ceil(m));
        let sms = u64::from(self.device.sm_count()).max(1);
        let tiles = ((batch * kv_heads) as u64).saturating_mul(parts).saturating_mul(keys);
        let blocks = blocks.div_ceil(parts);
        let step = cycles_of_step(kernel);
        // A tile that adds in its turn is some steps behind the one before it, of its head's that are at work with it, where all begin together.
        let beside = sms.div_ceil(self.together(kernel).max(1) as u64).min(keys).max(1) - 1;
        // Where halves of dQ are added, tiles are further behind at their beginning, and under a mask.
        let (each, behind) = match (self.in_turn(kernel), kernel.divides_columns) {
            (false, _) => (blocks, 0),
            (true, false) => (blocks, beside * BEHIND),
            (true, true) => (blocks + 2, beside * BEHIND * if self.uneven { 2 } else { 1 }),
        };
        let steps = tiles.div_ceil(sms).saturating_mul(each).saturating_add(behind);
        let cycles = steps.saturating_mul(step);
        Ok(Cycles(cycles.saturating_add(4 * Cycles::of_launch(kernel.arch))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_and_behind_a_kernel_is_of_its_architecture() {
        for kernel in GRADIENT.iter() {
            for (columns, width) in [(1, 64), (64, 64), (65, 128), (128, 128), (256, 128)] {
                let stats = stats(kernel, columns).expect(kernel.name);
                // Ampere has the wide tiles alone.
                let width = if kernel.arch == Arch::Sm90a { width } else { 128 };
                let found = (stats.element, stats.arch, stats.tile[1]);
                assert_eq!(found, (kernel.element, kernel.arch, width), "{} {columns}", kernel.name);
            }
            assert_eq!(
                rounding(kernel).map(|k| k.arch),
                kernel.adds.then_some(kernel.arch),
                "{}",
                kernel.name
            );
        }
    }

    #[test]
    fn capped_scores_of_narrow_heads_take_the_wider_kernel() {
        for kernel in GRADIENT.iter() {
            assert_eq!(kernel.caps, !(kernel.adds && kernel.columns[0] == 64), "{}", kernel.name);
            let wider =
                |k: &&Compiled| k.element == kernel.element && k.adds && k.caps && k.columns[0] == 128;
            assert_eq!(GRADIENT.iter().filter(wider).count(), 1, "{}", kernel.element);
        }
    }
}
