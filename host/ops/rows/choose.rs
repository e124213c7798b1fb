//! Which kernel takes rows: an estimate of each one's time.

use std::cell::OnceCell;
use std::fmt;

use tilewright_device::kernel::Listed;
use tilewright_device::tile::RowOrder;
use tilewright_rows::RowsKernel;

use super::matrices::{Matrices, Operand};
use super::prepared::Prepared;
use crate::ops::frame::{Choice, Cycles, Plan, Rated, Rejection, Table};
use crate::{Arch, Device, Error, KernelSet, Launch, Result};

/// One compiled kernel.
pub type Compiled = Listed<RowsKernel>;

/// Bytes of an access.
const VECTOR: usize = 16;
/// Bytes of shared memory of an SM.
const SHARED: u64 = 227 << 10;

impl Rated for RowsKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &tilewright_rows::KERNELS;

    fn size(&self) -> [u32; 3] {
        let [rows, cols] = self.tile;
        [rows, cols, self.ctas]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, cols] = self.tile;
        match (self.any_length, self.ctas) {
            (false, 1) if self.places > 1 => write!(f, "rows held in {} parts of {cols}", self.places),
            (false, ctas) if self.places > 1 => {
                write!(f, "rows held in {} parts of {cols}, {ctas} CTAs each", self.places * ctas)
            }
            (true, _) => write!(f, "{rows} x {cols} at a time"),
            (false, 1) => write!(f, "tiles of {rows} x {cols}"),
            (false, ctas) => write!(f, "tiles of {rows} x {}, {ctas} CTAs each", cols * ctas),
        }
    }
}

/// A call, as far as it decides between kernels.
pub(in crate::ops) struct Selection<'a, const N: usize> {
    pub(in crate::ops) matrices: &'a Matrices<N>,
    /// Vectors that are one value for each column.
    pub(in crate::ops) columns: &'a [Operand],
    /// Whether a residual is added.
    pub(in crate::ops) residual: bool,
    /// The time of kernels that read rows again, in halves of what memory takes for one pass.
    pub(in crate::ops) reads_again: u64,
    pub(in crate::ops) kernels: &'static [Compiled],
    /// What its kernels are for.
    pub(in crate::ops) what: &'static str,
    /// Whether kernels can take its tensors in vectors: of whole rows, and of rows that begin anywhere.
    pub(in crate::ops) vectors: OnceCell<[Result<(), Rejection>; 2]>,
}

impl<'a, const N: usize> Selection<'a, N> {
    /// Of rows alone, by the kernels of the first operand's element type.
    pub(in crate::ops) fn of_rows(
        matrices: &'a Matrices<N>,
        table: &'static Table<&'static str, Compiled>,
    ) -> Self {
        let what = matrices.operands[0].tensor.dtype.name();
        let kernels = table.kernels(&what);
        let vectors = OnceCell::new();
        Selection { matrices, columns: &[], residual: false, reads_again: 3, kernels, what, vectors }
    }

    /// Whether kernels of vectors can take the tensors, but for those of one element a row.
    fn check_vectors(&self) -> [Result<(), Rejection>; 2] {
        let Matrices { operands, cols, .. } = self.matrices;
        let all = || operands.iter().chain(self.columns).filter(|operand| !operand.once);
        let whole = |operand: &Operand| {
            if operand.tensor.alignment().is_ok_and(|align| (align as usize) < VECTOR) {
                return Err(Rejection::Unaligned { operand: operand.name, row_major: true });
            }
            if !(cols * operand.tensor.dtype.bytes()).is_multiple_of(VECTOR) {
                return Err(Rejection::Ragged { operand: operand.name });
            }
            Ok(())
        };
        let anywhere = self.matrices.launches_are_aligned() && all().all(Operand::is_contiguous_and_aligned);
        let why = Rejection::Because("it takes contiguous tensors that are aligned to 16 bytes");
        [all().try_for_each(whole), anywhere.then_some(()).ok_or(why)]
    }

    /// The kernel that is chosen, or the one of this name, and its launches.
    pub(in crate::ops) fn prepare(
        &self,
        kernel: Option<&str>,
        overlap: bool,
    ) -> Result<(Plan<Compiled>, Prepared<N>)> {
        let choice = self.choose(kernel)?;
        Ok((choice, Prepared::new(self.matrices, choice.descriptor(), overlap)?))
    }
}

impl<const N: usize> Choice for Selection<'_, N> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.matrices.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        self.kernels
    }
    fn what(&self) -> String {
        self.what.to_owned()
    }

    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let Matrices { operands, cols, .. } = self.matrices;
        let vector = (VECTOR / operands[0].tensor.dtype.bytes().max(1)) as u32;
        let most = kernel.tile[1] * kernel.ctas * kernel.places - if kernel.ragged { vector - 1 } else { 0 };
        if !kernel.any_length && *cols > most as usize {
            return Err(Rejection::AtMost { what: "rows of elements", most });
        }
        if let Some(residual) = kernel.residual.filter(|&residual| residual != self.residual) {
            let why = if residual { "it adds a residual" } else { "it adds no residual" };
            return Err(Rejection::Because(why));
        }
        if kernel.vectors {
            // Of all of its kernels the same, and looked up once.
            let [whole, ragged] = *self.vectors.get_or_init(|| self.check_vectors());
            if kernel.ragged { ragged } else { whole }?;
        }
        let weighted = !self.columns.is_empty();
        let Cycles(cycles) = estimate(kernel, self.matrices, self.reads_again, weighted);
        let weights = if weighted { of_weights(kernel, cycles) } else { 0 };
        Ok(Cycles(cycles.saturating_add(weights)))
    }
}

/// What weights add to a kernel's time, on an H200: a CTA that takes one tile loads them behind the rows' reduction, and one that takes many
/// holds them, in registers that memory's speed then lacks.
fn of_weights(kernel: &Compiled, cycles: u64) -> u64 {
    match kernel.persistent {
        false => 800,
        true if kernel.tile[1] >= 1024 && kernel.places == 1 && !kernel.sums => cycles / 16,
        true => 0,
    }
}

/// The time of a kernel that is bound by memory, or by how long it takes for one tile behind the other.
///
/// The constants are of an H200: 36 bytes a cycle come to an SM or leave it; an SM has room for 768 threads with their tiles; a tile takes
/// some 1500 cycles, as many again for 64 KiB and 4 for each of a thread's elements, a cluster's barrier 800 and 100 for each CTA, and half as long
/// again where rows may begin anywhere. Where shared memory holds rows, a row takes its
/// part of memory's time and 700 cycles more, in a cluster 700 and 200 for each CTA, and the first one 3000: to ask for all that there is room for.
/// Of such rows in shared memory a warp computes for 5 cycles an element and 40 a row, while the SM's others do; of such tiles with weights, which each
/// thread shifts as it reads them, for 4 an element, or for 3 where it holds them, which takes 3000 cycles before the first row.
/// With sums for columns an SM has room for 512 threads, and a warp computes for 13 cycles an element and 40 a row, and for a quarter more where shared
/// memory holds rows. Element by element memory gives a third of its speed and a tile takes eight times as long, and rows that are read again come from the L2, if they are not more than it holds.
fn estimate<const N: usize>(
    kernel: &Compiled,
    matrices: &Matrices<N>,
    reads_again: u64,
    weighted: bool,
) -> Cycles {
    let [batch, rows] = matrices.size().map(|size| size as u64);
    let [tile_rows, tile_cols] = kernel.tile.map(u64::from);
    let (ctas, cols) = (u64::from(kernel.ctas), matrices.cols as u64);
    let width = matrices.operands[0].tensor.dtype.bytes() as u64;
    let sms = u64::from(matrices.device.sm_count()).max(1);
    let tiles = batch.saturating_mul(rows.div_ceil(tile_rows));
    let held = kernel.places > 1;
    let room = if held { SHARED / (u64::from(kernel.places) * tile_cols * width) } else { u64::MAX };
    let threads = u64::from(kernel.threads);
    // Of tiles of rows that begin anywhere an SM has two CTAs even where they are of 512 threads.
    let least = if kernel.ragged && !kernel.persistent { 2 } else { 1 };
    let resident = (if kernel.sums { 512 } else { 768 } / threads).max(least).min(room).max(1);
    let at_a_time = (sms * resident / ctas).max(1);
    let parts = if kernel.any_length { cols.div_ceil(tile_cols) * 2 } else { 1 };
    let slowness = if kernel.vectors { 1 } else { 3 };
    let tensors = matrices.operands.iter().filter(|operand| !operand.once).count() as u64;
    let cluster = match ctas {
        1 => 0,
        _ if held => 700 + 200 * ctas,
        _ => 800 + 100 * ctas,
    };
    let tile = if held {
        700 + cols.div_ceil(tile_cols * ctas) * tile_cols * width * tensors / 36 + cluster
    } else {
        1500 + tile_rows * tile_cols * width / 48 + tile_rows * tile_cols / threads * 4 + cluster
    };
    let warps = resident * threads / 32;
    let tile = match kernel.ragged {
        _ if kernel.sums => {
            let elements = if held { cols.div_ceil(threads * ctas) } else { tile_rows * tile_cols / threads };
            let quarters = if held { 5 } else { 4 };
            warps * (13 * elements + 40) * quarters / 4 + cluster
        }
        true if held => tile + warps * (cols.div_ceil(threads * ctas) + 8) * 5,
        true if weighted => {
            800 + warps * (tile_rows * tile_cols / threads) * if kernel.alike { 3 } else { 4 } + cluster
        }
        // Whose edges lie anywhere.
        true => tile * 3 / 2,
        false => tile,
    };
    let tile = if kernel.vectors { tile } else { 8 * tile };
    let turns = tiles.div_ceil(at_a_time).saturating_mul(tile * parts);
    let bytes = batch.saturating_mul(rows).saturating_mul(cols * width * tensors);
    let memory = bytes / (if kernel.ragged { 30 } else { 36 } * sms)
        * slowness
        * if kernel.any_length { reads_again } else { 2 }
        / 2;
    let launch = Cycles::of_launch(kernel.arch) + if held || kernel.alike { 3000 } else { 0 };
    // Of equals the one whose tiles the rows fill.
    let unfilled = (tile_cols * ctas).saturating_sub(cols) / if ctas > 1 { 64 } else { 8 };
    let unfilled = if held { 0 } else { unfilled };
    Cycles(turns.max(memory).saturating_add(launch + unfilled))
}

impl<const N: usize> Matrices<N> {
    /// The order of a kernel's tiles, and its launch on so many CTAs as the device holds at a time.
    pub(in crate::ops) fn tiles(
        &self,
        kernel: &Compiled,
        resident: u32,
        overlap: bool,
    ) -> Result<(RowOrder, Launch)> {
        let count = |size: usize| u32::try_from(size).ok();
        let [batch, rows] = self.size();
        let order = count(batch)
            .zip(count(rows))
            .and_then(|(batch, rows)| RowOrder::new(batch, rows, kernel.tile[0]))
            .ok_or_else(|| {
                let was = format!("of {batch} x {rows} rows");
                let most = RowOrder::MAX_TILES;
                Error::argument(self.operands[0].name, was, format!("of at most {most} rows"))
            })?;
        let launch = Launch::grid([self.clusters(kernel, &order, resident) * kernel.ctas, 1, 1]);
        Ok((order, launch.pdl(overlap && kernel.arch == Arch::Sm90a)))
    }

    /// The clusters of a launch: as many as there are tiles, or, of a persistent kernel, as fit the device at a time; where all rows of a cluster are
    /// to begin alike, as many of these that they do.
    pub(in crate::ops) fn clusters(&self, kernel: &Compiled, order: &RowOrder, resident: u32) -> u32 {
        let fit = if kernel.persistent { resident / kernel.ctas } else { u32::MAX }.max(1);
        if fit >= order.total() || !kernel.alike {
            return order.total().min(fit).max(1);
        }
        let bytes = kernel.tile[0] as usize * self.cols * self.operands[0].tensor.dtype.bytes();
        let alike = (1..VECTOR).find(|tiles| (tiles * bytes).is_multiple_of(VECTOR)).unwrap_or(VECTOR) as u32;
        // A device that holds fewer takes turns.
        (fit / alike).max(1) * alike
    }
}
