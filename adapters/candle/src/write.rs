//! Tensors that a call writes in place.

use std::cell::RefCell;

use candle_core::{CpuStorage, CudaStorage, InplaceOp1, Layout, Result, Storage, Tensor};

use crate::call::{Call, Held, Outcome, refuse};
use crate::element::Native;
use crate::memory::Edited;

/// Lends `f` the addresses of two tensors that it queues the writing of. They are contiguous, and share no storage with each other nor with
/// what is held: candle locks a storage that is written.
pub(crate) fn write_in_place<T: Native>(
    call: &Call<'_>,
    held: &[Held<'_>],
    [first, second]: [(&'static str, &Tensor); 2],
    f: impl FnOnce([u64; 2]) -> Outcome<()>,
) -> Outcome<()> {
    let storage = |tensor: &Tensor| -> *const Storage { &raw const *tensor.storage_and_layout().0 };
    let [one, other] = [first, second].map(|(_, tensor)| storage(tensor));
    for (name, pointer) in [(first.0, one), (second.0, other)] {
        if let Some(shared) = held.iter().find(|held| held.is_of(pointer)) {
            return refuse(
                name,
                format!("in one storage with `{}`", shared.name()),
                "in a storage of its own",
            );
        }
    }
    if one == other {
        return refuse(second.0, format!("in one storage with `{}`", first.0), "in a storage of its own");
    }
    lend::<T, _>(call, first, |a| lend::<T, _>(call, second, |b| f([a, b])))
}

fn lend<T: Native, F: FnOnce(u64) -> Outcome<()>>(
    call: &Call<'_>,
    (name, tensor): (&'static str, &Tensor),
    f: F,
) -> Outcome<()> {
    if tensor.dtype() != <T as candle_core::WithDType>::DTYPE {
        let wanted = <T as candle_core::WithDType>::DTYPE.as_str();
        return refuse(name, format!("of {}", tensor.dtype().as_str()), format!("of {wanted}"));
    }
    let outcome = RefCell::new(Ok(()));
    let writing = Writing::<T, F> {
        call,
        outcome: &outcome,
        f: RefCell::new(Some(f)),
        element: std::marker::PhantomData,
    };
    tensor.inplace_op1(&writing)?;
    outcome.into_inner()
}

/// An operation of candle's that lends a tensor's memory.
struct Writing<'a, 't, T, F> {
    call: &'a Call<'t>,
    outcome: &'a RefCell<Outcome<()>>,
    f: RefCell<Option<F>>,
    element: std::marker::PhantomData<T>,
}

impl<T: Native, F: FnOnce(u64) -> Outcome<()>> Writing<'_, '_, T, F> {
    fn run(&self, edited: Outcome<Edited<'_, T>>) -> Outcome<()> {
        let edited = edited?;
        let f = self.f.borrow_mut().take();
        f.map_or(Ok(()), |f| f(edited.address()))?;
        edited.finish(self.call.stream())
    }
}

impl<T: Native, F: FnOnce(u64) -> Outcome<()>> InplaceOp1 for Writing<'_, '_, T, F> {
    fn name(&self) -> &'static str {
        "write_in_place"
    }
    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        *self.outcome.borrow_mut() = self.run(self.call.place().edit_cpu(storage, layout));
        Ok(())
    }
    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        *self.outcome.borrow_mut() = self.run(self.call.place().edit_cuda(storage, layout));
        Ok(())
    }
    #[cfg(not(feature = "cuda"))]
    fn cuda_fwd(&self, _: &mut CudaStorage, _: &Layout) -> Result<()> {
        Err(candle_core::Error::Msg("a CUDA device takes the feature `cuda` of tilewright-candle".into()))
    }
}
