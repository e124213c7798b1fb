//! The launches of a pointwise operator, for tensors wherever they lie.

use tilewright_pointwise::{PieceOrder, Strided};

use super::choose::{Compiled, launch};
use super::pieces::Pieces;
use crate::ops::frame::Places;
use crate::{AnyFunction, Device, Launch, Result, Stream};

/// All that the launches of a pointwise operator need but memory; of no elements, no launches.
#[derive(Clone, Debug)]
pub(in crate::ops) struct Prepared<const N: usize>(Option<Launches<N>>);

#[derive(Clone, Debug)]
struct Launches<const N: usize> {
    function: AnyFunction,
    launch: Launch,
    order: PieceOrder,
    /// At the places of the plan.
    pieces: Pieces<N>,
}

impl<const N: usize> Prepared<N> {
    /// Of pieces at the places of a plan.
    pub(in crate::ops) fn new(
        device: &Device,
        pieces: Pieces<N>,
        kernel: &'static Compiled,
        overlap: bool,
    ) -> Result<Self> {
        if pieces.elements() == 0 {
            return Ok(Prepared(None));
        }
        // Where rows will begin, a plan does not know.
        let skew = if kernel.anywhere { kernel.piece - 1 } else { 0 };
        let order = pieces.order(kernel.piece, skew)?;
        let (function, launch) = launch(device, kernel, (order.total(), kernel.each), overlap)?;
        Ok(Prepared(Some(Launches { function, launch, order, pieces })))
    }

    /// Queues the kernel as often as the pieces need it, for tensors that lie so: `args` makes its arguments of the tensors and the order of pieces.
    ///
    /// # Safety
    /// `args` makes arguments of all kernels that were chosen from. The tensors that the pieces come from are as the plan was made for, borrowed by the
    /// caller, exclusively where they are written, and the kernels keep to the elements that the order counts.
    pub(in crate::ops) unsafe fn run<A: Copy>(
        &self,
        stream: &Stream,
        places: &Places,
        args: impl Fn([Strided<3>; N], PieceOrder) -> A,
    ) -> Result<()> {
        let Some(Launches { function, launch, order, pieces }) = &self.0 else { return Ok(()) };
        (0..pieces.launches()).try_for_each(|number| {
            let args = args(pieces.arguments(number).map(|tensor| placed(places, tensor)), *order);
            // SAFETY: the caller's. Programmatic launch only moves what precedes the wait for the preceding grid.
            unsafe { function.launch_block(stream, launch, &args) }
        })
    }
}

/// The tensor of a plan where it lies; what a call does not have stays so.
pub(in crate::ops) fn placed<const RANK: usize>(places: &Places, tensor: Strided<RANK>) -> Strided<RANK> {
    Strided { address: places.at(tensor.address), ..tensor }
}
