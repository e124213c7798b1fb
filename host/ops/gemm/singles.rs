//! The time of a kernel for f32, which multiplies by ordinary instructions.

use super::choose::Estimate;
use super::estimate::{STEP, Tiles, of_memory};
use super::parts::{Divisible, Shares};
use super::problem::Size;
use super::table::Compiled;

/// Rows of tiles for many rows, at least.
pub(super) const MANY: u32 = 64;

/// The time of steps, in which an SM multiplies for the CTAs that it holds, or of the bytes that memory brings, and that of parts of tiles that are handed over.
///
/// The constants are of ten products on an H200 (2026-11-28), in cycles of 1.755 GHz: 128 products a cycle, of which tiles for many rows reach 0.7, those for few 0.57 and those of
/// any strides 0.41 to 0.53. An SM holds two CTAs of large tiles, three of small ones.
pub(super) fn estimate(
    kernel: &Compiled,
    size: Size,
    transposed: bool,
    memory_rate: u64,
    sms: u32,
    memory: bool,
) -> Estimate {
    let Tiles { m, n, tiles, .. } = Tiles::of(kernel, size);
    let sms = u64::from(sms).max(1);
    let steps = (size.k as u64).div_ceil(STEP);
    let least = |x: u64| u32::try_from(x).unwrap_or(u32::MAX);
    let divisible = Divisible::of(kernel, STEP as u32, memory);
    let few = m < u64::from(MANY);
    let resident = least(sms * if few { 3 } else { 2 });
    let (steps, shares) = Shares::padded(least(tiles), least(steps), resident, divisible);
    let steps = u64::from(steps);
    let ctas = u64::from(shares.ctas).min(tiles.saturating_mul(steps)).max(1);
    let waves = u64::from(shares.whole).div_ceil(ctas);
    let products = match (kernel.any_strides, few) {
        (true, _) => m * n * 9 / 8,
        (_, true) => m * n * 7 / 8,
        _ => m * n * 5 / 7,
    };
    // One CTA alone has nearly all of an SM's rate.
    let beside = ctas.div_ceil(sms);
    let in_all = waves.saturating_mul(steps).saturating_add(shares.steps);
    let main = in_all.saturating_mul(products).saturating_mul(beside);
    let parts = shares.parts(steps);
    let each = if few { 400 } else { 1500 + m * n * 4 / 40 };
    let handed = if parts == 1 { 0 } else { parts * each };
    let waves = waves + u64::from(shares.steps > 0);
    let epilogues = waves.saturating_mul(m * n / 8);
    let read = of_memory(size, memory_rate as u32).saturating_mul(2);
    let cycles = main.max(read).saturating_add(epilogues).saturating_add(handed + 5500);
    Estimate { ctas, waves, cycles, transposed, copied: [false; 2] }
}
