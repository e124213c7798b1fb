//! Copies of operands whose lines no fast kernel reads.

use tilewright_device::kernel::Listed;
use tilewright_gemm::{COPIES, CopyKernel, CopyLinesArgs, KERNELS, TILE};

use super::problem::Matrices;
use crate::kernel::has;
use crate::ops::frame::{Copies, Operand, PLANNED_ROOM, Places, absent};
use crate::tensor::{Layout, Untyped};
use crate::{AnyFunction, Arch, Device, Error, Launch, Result, Stream};

/// Bytes to whose multiples lines of a copy are rounded up: the lines of L2.
const LINE: usize = 128;
/// The most matrices of a batch: a dimension of the grid.
const MOST: usize = 65535;

/// Copies of A, of B or of both.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    kernel: &'static Listed<CopyKernel>,
    /// Of each a view and its copy, \[batch, lines, elements\].
    of: [Option<[Untyped; 2]>; 2],
    overlap: bool,
    /// Bytes of the copies, at the beginning of the workspace.
    pub(super) bytes: usize,
}

impl Lines {
    /// What copies the operands of `matrices` that need it, by what is `known` of them in every run. None where none does, or a copy is larger than memory could be.
    pub(super) fn of(matrices: &Matrices, known: &Matrices, overlap: bool) -> Result<Option<Self>> {
        let device = &matrices.device;
        // The kernels that copy have elements of 2 bytes.
        if matrices.a.dtype.bytes() != 2 {
            return Ok(None);
        }
        // A build may leave an architecture out: then its products have no fast kernels of that either.
        let able = |kernel: &&Listed<CopyKernel>| device.runs(kernel.arch) && has(&KERNELS, kernel.arch);
        let Some(kernel) = COPIES.iter().find(able) else { return Ok(None) };
        let wanted = [!is_read(known, &known.a, kernel.arch)?, !is_read(known, &known.b, kernel.arch)?];
        if wanted == [false; 2] || matrices.size.batch > MOST {
            return Ok(None);
        }
        let overlap = overlap && kernel.arch == Arch::Sm90a;
        let mut lines = Lines { kernel, of: [None; 2], overlap, bytes: 0 };
        for (i, operand) in [matrices.a, matrices.b].into_iter().enumerate() {
            if wanted[i] && operand.layout.len() > 0 {
                let view = if by_rows(i, &operand) { operand } else { operand.t()? };
                let Some(copy) = lines.copy(&view)? else { return Ok(None) };
                lines.of[i] = Some([view, copy]);
            }
        }
        Ok((lines.bytes > 0).then_some(lines))
    }

    /// The matrices with the copies in place of what they are of.
    pub(super) fn applied(&self, matrices: &Matrices) -> Result<Matrices> {
        let with = |i: usize, operand: Untyped| match self.of[i] {
            None => Ok(operand),
            Some([_, copy]) if by_rows(i, &operand) => Ok(copy),
            Some([_, copy]) => copy.t(),
        };
        Ok(Matrices { a: with(0, matrices.a)?, b: with(1, matrices.b)?, ..matrices.clone() })
    }

    /// Where a copy of a view will lie.
    fn copy(&mut self, view: &Untyped) -> Result<Option<Untyped>> {
        let [batch, lines, elements] = view.layout.shape() else { return Ok(None) };
        let width = view.dtype.bytes();
        let line = (elements * width).next_multiple_of(LINE) / width;
        let Some(matrix) = line.checked_mul(*lines) else { return Ok(None) };
        // What serves the whole batch is copied once.
        let copies = if serves_all(view) { 1 } else { *batch };
        let Some(bytes) = matrix.checked_mul(copies).and_then(|all| all.checked_mul(width)) else {
            return Ok(None);
        };
        let strides = [if serves_all(view) { 0 } else { matrix }, line, 1];
        let layout = Layout::strided(view.layout.shape(), &strides)?;
        let address = PLANNED_ROOM + self.bytes as u64;
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(Some(Untyped { address, dtype: view.dtype, layout }))
    }

    /// Whether A and B are copied.
    pub(super) fn copied(&self) -> [bool; 2] {
        self.of.each_ref().map(Option::is_some)
    }

    /// What it takes: a launch, and 700 bytes a cycle (copies of 67 and 268 MB on an H200, 2026-11-28).
    pub(super) fn cycles(&self) -> u64 {
        3500 + self.bytes as u64 / 700
    }

    /// The kernel that makes the copies, loaded.
    pub(super) fn function(&self, device: &Device) -> Result<AnyFunction> {
        device.listed(&KERNELS, self.kernel)
    }

    /// Queues the copies of matrices at these places by that kernel.
    pub(super) fn run(&self, function: &AnyFunction, stream: &Stream, places: &Places) -> Result<()> {
        let backend = function.device().backend();
        let tiles = |[view, _]: &[Untyped; 2]| match view.layout.shape() {
            [_, lines, elements] => lines.div_ceil(TILE[0]).saturating_mul(elements.div_ceil(TILE[1])),
            _ => 0,
        };
        let [of_a, of_b] = self.of.each_ref().map(|of| of.as_ref().map_or(0, tiles));
        let too_many = |_| {
            Error::argument(
                "c",
                format!("of operands of {of_a} and {of_b} tiles"),
                "of operands of fewer tiles",
            )
        };
        let all = u32::try_from(of_a.saturating_add(of_b)).map_err(too_many)?;
        // A matrix that serves the whole batch is one.
        let once = |of: Untyped| {
            let layout = if serves_all(&of) { of.layout.narrow(0, 0, 1)?.0 } else { of.layout };
            places.of(&Untyped { layout, ..of }).arg::<(), 3>(backend, true, 0)
        };
        let [[a, a_to], [b, b_to]] = [0, 1].map(|i| match self.of[i] {
            Some(of) => of.map(once),
            None => [Ok(absent()), Ok(absent())],
        });
        let args = CopyLinesArgs { a: a?, a_to: a_to?, b: b?, b_to: b_to?, tiles_of_a: of_a as u32 };
        let batch = |[view, _]: &[Untyped; 2]| if serves_all(view) { 1 } else { view.layout.shape()[0] };
        let matrices = self.of.iter().flatten().map(batch).max().unwrap_or(0) as u32;
        let launch = Launch::grid([all, 1, matrices]).pdl(self.overlap);
        // SAFETY: the arguments are those of `copy_lines`, of elements of 2 bytes. Views that the matrices come from are borrowed by the caller, who lends the
        // workspace that the copies lie in. Programmatic launch only moves what precedes its wait for the preceding grid.
        unsafe { function.launch_block(stream, &launch, &args) }
    }
}

/// Whether one matrix is that of the whole batch.
fn serves_all(of: &Untyped) -> bool {
    of.layout.strides()[0] == 0
}

/// Whether the lines of A, or of B, are rows: as they lie, or the depth where they lie anyhow.
fn by_rows(i: usize, operand: &Untyped) -> bool {
    match operand.layout.strides() {
        [.., 1, columns] if *columns != 1 => false,
        [.., 1] => true,
        _ => i == 0,
    }
}

/// Whether fast kernels of an architecture read it, by rows or by columns.
fn is_read(matrices: &Matrices, operand: &Untyped, arch: Arch) -> Result<bool> {
    let backend = matrices.device.backend();
    for row_major in [false, true] {
        let reading = operand.reading(backend, row_major)?;
        let line = operand.layout.shape()[if row_major { 2 } else { 1 }];
        let as_it_lies = Operand { name: "A or B", reading, row_major, line };
        if as_it_lies.check(Copies::of(arch)).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}
