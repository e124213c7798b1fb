//! Which kernel computes a product of int8 activations: an estimate of each one's time.

use super::super::choose::operand;
use super::super::problem::Problem;
use super::super::table::Compiled;
use super::table::{Kind, kernels};
use crate::ops::frame::{Choice, Copies, Cycles, Operand, Rejection};
use crate::{Arch, Device, Result};

/// Depth that the estimate counts in.
const STEP: u64 = 128;

/// A product of int8 activations, as far as it decides between kernels.
pub(super) struct Selection<'a> {
    problem: &'a Problem,
    kind: Kind,
    /// In pairs.
    a: Operand,
}

impl<'a> Selection<'a> {
    pub(super) fn new(problem: &'a Problem, kind: Kind) -> Result<Self> {
        Ok(Selection { problem, kind, a: operand(problem)? })
    }
}

impl Choice for Selection<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.problem.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(self.kind)
    }
    fn what(&self) -> String {
        let (_, format, zeros, groups) = self.kind;
        let scales = if groups { "groups" } else { "rows" };
        format!("{format} weights, zeros {zeros}, scales of {scales}, and int8 activations")
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let Problem { device, size, .. } = self.problem;
        self.a.check(Copies::of(kernel.arch))?;
        Ok(Cycles(estimate(kernel, self.kind.3, *size, device.sm_count())))
    }
}

/// The time of a persistent kernel whose steps are shared evenly.
///
/// The constants are of an H200: each step of 128 takes 60 cycles, 2.6 for a row of weights to decode, and one for each 23 of the
/// tile's elements to multiply, 14 where groups' sums are scaled; sums of parts are read at 15 elements a cycle; a launch takes
/// 9000. `mma.sync` and `cp.async` take four times as long.
fn estimate(kernel: &Compiled, groups: bool, [m, n, k]: [usize; 3], sms: u32) -> u64 {
    let [rows, columns, _] = kernel.tile.map(u64::from);
    let tiles = (n as u64).div_ceil(rows).saturating_mul((m as u64).div_ceil(columns));
    let steps = tiles.saturating_mul((k as u64).div_ceil(STEP)).div_ceil(u64::from(sms).max(1));
    let slowness = if kernel.arch == Arch::Sm90a { 1 } else { 4 };
    let step = 60 + rows * 26 / 10 + rows * columns / if groups { 14 } else { 23 };
    let parts = u64::from(sms).div_ceil(tiles.max(1));
    let sums = if parts > 1 { parts * rows * columns / 15 } else { 0 };
    steps.saturating_mul(step * slowness).saturating_add(sums + 9000)
}
