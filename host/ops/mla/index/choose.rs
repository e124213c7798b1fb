//! Which kernel computes an indexer's scores: by the products that it computes, those of heads that are not there among them.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_mla::{INDEX, IndexKernel, KERNELS};

use super::Problem;
use crate::ops::frame::{Choice, Cycles, Rated, Rejection, Table, UNIT};
use crate::{Arch, Device, KernelSet};

/// One compiled kernel.
pub type Compiled = Listed<IndexKernel>;

static TABLE: LazyLock<Table<&'static str, Compiled>> =
    LazyLock::new(|| Table::new(INDEX.iter().map(|k| (k.element, *k))));

impl Rated for IndexKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.tile[0], self.tile[1], self.columns]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IndexKernel { tile: [keys, heads], columns, .. } = self;
        write!(f, "tiles of {keys} keys and {heads} heads, {} bytes of columns", *columns as usize * UNIT)
    }
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.element)
    }
    fn what(&self) -> String {
        self.element.to_owned()
    }

    /// The constants are of an H200, e4m3: a query's 64 heads take 1270 cycles, 32 take 970. `mma.sync` is taken to have a quarter of that rate.
    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        if self.q.layout.shape()[3] > kernel.columns as usize {
            return Err(Rejection::AtMost { what: "columns of 16 bits", most: kernel.columns });
        }
        let [keys, heads] = kernel.tile.map(|n| n as usize);
        let steps = self.batch.saturating_mul(self.queries).saturating_mul(self.keys.div_ceil(keys));
        let steps = steps.saturating_mul(self.heads.div_ceil(heads)) as u64;
        let step = (670 + 75 * heads as u64 / 8) * if kernel.arch == Arch::Sm90a { 1 } else { 4 };
        let all = steps.saturating_mul(step) / u64::from(self.device.sm_count()).max(1);
        Ok(Cycles(all.saturating_add(Cycles::of_launch(kernel.arch))))
    }
}
