//! The launches of a row-wise operator, for tensors wherever they lie.

use tilewright_device::abi::{GlobalAbi, StridedAbi};
use tilewright_device::tile::RowOrder;

use super::choose::Compiled;
use super::matrices::Matrices;
use crate::ops::frame::Places;
use crate::ops::runs::{Run, launches, offsets};
use crate::tensor::alignment;
use crate::{AnyFunction, Launch, Result, Stream};

/// All that the launches of a row-wise operator need but memory; of no elements, no launches.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Prepared<const N: usize>(Option<Launches<N>>);

#[derive(Clone, Debug)]
struct Launches<const N: usize> {
    function: AnyFunction,
    launch: Launch,
    order: RowOrder,
    /// Of the first launch, at the places of the plan.
    operands: [Planned; N],
    /// Dimensions of which each index takes a launch, from the outermost.
    outer: Vec<Run<N>>,
    /// Bytes of an element.
    widths: [usize; N],
}

impl<const N: usize> Prepared<N> {
    /// Of operands at the places of a plan.
    pub(super) fn new(matrices: &Matrices<N>, kernel: &'static Compiled, overlap: bool) -> Result<Self> {
        if matrices.is_empty() {
            return Ok(Prepared(None));
        }
        let function = matrices.device.listed(&tilewright_rows::KERNELS, kernel)?;
        let (order, launch) = matrices.tiles(kernel, function.resident_ctas(), overlap)?;
        Ok(Prepared(Some(Launches {
            function,
            launch,
            order,
            operands: matrices.arguments()?.map(Planned::new),
            outer: matrices.outer().to_vec(),
            widths: matrices.operands.map(|operand| operand.tensor.dtype.bytes()),
        })))
    }

    /// CTAs of a launch: 0 if there are none.
    pub(in crate::ops) fn ctas(&self) -> u32 {
        self.0.as_ref().map_or(0, |all| all.launch.grid[0])
    }

    /// Queues the kernel as often as the rows need it, for tensors that lie so: `args` makes its arguments of the operands', the order of tiles, and the
    /// launch's number.
    ///
    /// # Safety
    /// `args` makes arguments of all kernels that were chosen from. The tensors that the operands come from are as the plan was made for, borrowed by the
    /// caller, exclusively where they are written, and the kernels keep to their shapes.
    pub(in crate::ops) unsafe fn run<A: Copy>(
        &self,
        stream: &Stream,
        places: &Places,
        args: impl Fn([Tensor; N], RowOrder, usize) -> A,
    ) -> Result<()> {
        let Some(all) = &self.0 else { return Ok(()) };
        let Launches { function, launch, order, outer, .. } = all;
        (0..launches(outer)).try_for_each(|number| {
            let args = args(all.placed(places, number), *order, number);
            // SAFETY: the caller's. Programmatic launch only moves what precedes the wait for the preceding grid.
            unsafe { function.launch_block(stream, launch, &args) }
        })
    }
}

impl<const N: usize> Launches<N> {
    /// The operands of a launch, where the tensors lie.
    fn placed(&self, places: &Places, number: usize) -> [Tensor; N] {
        if self.outer.is_empty() {
            return self.operands.each_ref().map(|operand| operand.at(places));
        }
        let at = offsets(&self.outer, number);
        std::array::from_fn(|i| {
            let bytes = (at[i] * self.widths[i]) as u64;
            let first = self.operands[i].at(places);
            // What lies there may be aligned to less.
            let align = first.align.min(alignment(bytes) as u32);
            Tensor { address: first.address + bytes, align, ..first }
        })
    }
}

/// The argument for a tensor, at the place of a plan.
#[derive(Clone, Copy, Debug)]
pub(in crate::ops) struct Planned(Tensor);

/// The argument for a tensor of rows.
pub(in crate::ops) type Tensor = StridedAbi<(), 3>;

impl Planned {
    /// Of an argument without a map.
    pub(in crate::ops) fn new(argument: GlobalAbi<(), 3>) -> Self {
        Planned(argument.into())
    }

    /// The argument for the tensor where it lies.
    pub(in crate::ops) fn at(&self, places: &Places) -> Tensor {
        Tensor { address: places.at(self.0.address), ..self.0 }
    }
}
