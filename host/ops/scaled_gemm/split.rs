//! f32 operands as parts of tf32: where they lie, and what makes them.

use tilewright_device::abi::StridedAbi;
use tilewright_device::kernel::Listed;
use tilewright_scaled_gemm::{KERNELS, PARTS, SPLIT, SplitKernel, SplitRowsArgs};

use crate::ops::frame::{PLANNED_ROOM, Places, UNIT};
use crate::tensor::{Layout, Untyped};
use crate::{AnyFunction, DType, Device, Error, Launch, Result, Stream};

/// Bytes to whose multiples the lines of parts are rounded up: the lines of L2.
const LINE: usize = 128;
/// Bytes of an element.
const ELEMENT: usize = 4;
/// The most tiles along the depth: CTAs of a grid's second dimension.
const MOST_TILES: usize = 65535;
/// The number of the part that is what the nearest numbers leave: A's and B's differ, so that their product has each part's product with the other's nearest numbers, and of these with
/// themselves.
const LOW: [u32; 2] = [1, 0];

/// A and B in parts, in the workspace.
#[derive(Clone, Debug)]
pub(super) struct Split {
    of: [Operand; 2],
    /// Elements of f32 of both.
    pub(super) len: usize,
}

/// An operand: as its kernel reads it, its parts, \[parts, lines, depth\], and these as the product's lines.
#[derive(Clone, Copy, Debug)]
struct Operand {
    kernel: &'static Listed<SplitKernel>,
    view: Untyped,
    parts: Untyped,
    units: Untyped,
}

/// The kernels of both operands, loaded.
#[derive(Clone, Debug)]
pub(super) struct Splitting {
    split: Split,
    functions: [AnyFunction; 2],
    overlap: bool,
}

impl Split {
    /// Of A \[M, K\] and B \[N, K\] of any strides.
    pub(super) fn new(a: Untyped, b: Untyped) -> Result<Self> {
        let depth = a.layout.shape()[1].next_multiple_of(LINE / ELEMENT);
        let mut len = 0usize;
        let mut operand = |name: &'static str, operand: Untyped| {
            let lines = operand.layout.shape()[0];
            let too_many = || {
                let was = format!("of shape {:?}", operand.layout.shape());
                Error::argument(name, was, "of fewer elements: each is written three times")
            };
            let line = depth.checked_mul(PARTS as usize).ok_or_else(too_many)?;
            let units = line.checked_mul(ELEMENT / UNIT).ok_or_else(too_many)?;
            let of_units = Layout::strided(&[lines, units], &[units, 1]).map_err(|_| too_many())?;
            let of_parts = Layout::strided(&[PARTS as usize, lines, depth], &[depth, line, 1])
                .map_err(|_| too_many())?;
            let by_columns = operand.layout.strides()[1] != 1 && operand.layout.strides()[0] == 1;
            let kernel = SPLIT.iter().find(|kernel| kernel.by_columns == by_columns);
            let kernel = kernel.expect("there is a kernel for rows and one for columns");
            let most = MOST_TILES * kernel.tile[1] as usize;
            if depth > most {
                let allowed = format!("of at most {most} columns, where it is split");
                return Err(Error::argument(name, format!("of shape {:?}", operand.layout.shape()), allowed));
            }
            let address = PLANNED_ROOM + (len * ELEMENT) as u64;
            len += line * lines;
            Ok(Operand {
                kernel,
                view: if by_columns { operand.t()? } else { operand },
                parts: Untyped { address, dtype: DType::F32, layout: of_parts },
                units: Untyped { address, dtype: DType::F16, layout: of_units },
            })
        };
        let of = [operand("a", a)?, operand("b", b)?];
        Ok(Split { of, len })
    }

    /// Both operands' parts, one behind the other along the depth, in units of 16 bits.
    pub(super) fn units(&self) -> [Untyped; 2] {
        self.of.map(|operand| operand.units)
    }

    /// The depth of the product of the parts.
    pub(super) fn depth(&self) -> usize {
        self.of[0].units.layout.shape()[1]
    }

    /// With the kernels loaded.
    pub(super) fn load(self, device: &Device, overlap: bool) -> Result<Splitting> {
        let [a, b] = self.of.map(|operand| device.listed(&KERNELS, operand.kernel));
        Ok(Splitting { split: self, functions: [a?, b?], overlap })
    }
}

impl Splitting {
    /// Elements of f32 of the workspace.
    pub(super) fn len(&self) -> usize {
        self.split.len
    }

    /// Queues the kernels, for operands at these places.
    pub(super) fn run(&self, stream: &Stream, places: &Places) -> Result<()> {
        for ((operand, function), low) in self.split.of.iter().zip(&self.functions).zip(LOW) {
            let Operand { kernel, view, parts, .. } = operand;
            let backend = function.device().backend();
            let x: StridedAbi<(), 2> = places.of(view).arg(backend, true, 0)?.into();
            let parts: StridedAbi<(), 3> = places.of(parts).arg(backend, true, 0)?.into();
            let [lines, elements] = kernel.tile;
            let [_, of_lines, of_elements] = parts.shape;
            let grid = [of_lines.div_ceil(lines), of_elements.div_ceil(elements), 1];
            let args = SplitRowsArgs { x, parts, low };
            // SAFETY: the arguments are those of `split_rows`, and of `split_columns`, which has the same. The operand is borrowed by the caller, who lends the workspace that its
            // parts lie in. Programmatic launch only moves what precedes the wait for the preceding grid.
            unsafe { function.launch_block(stream, &Launch::grid(grid).pdl(self.overlap), &args)? }
        }
        Ok(())
    }
}
