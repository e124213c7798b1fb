//! Tensors that a call writes in place.

use std::cell::RefCell;
use std::marker::PhantomData;

use candle_core::{CpuStorage, CudaStorage, InplaceOp1, Layout, Result, Storage, Tensor, WithDType};

use crate::call::{Call, Held, Outcome, refuse};
use crate::element::Native;
use crate::memory::{Edited, Trouble};

/// Lends `f` the addresses of two tensors that it queues the writing of. They are contiguous, and share no storage with each other nor with
/// what is held: candle locks a storage that is written.
pub(crate) fn write_in_place<T: Native>(
    call: &Call<'_>,
    held: &[Held<'_>],
    [first, second]: [(&'static str, &Tensor); 2],
    f: impl FnOnce([u64; 2]) -> Outcome<()>,
) -> Outcome<()> {
    let [one, other] = [first, second].map(|(_, tensor)| storage_of(tensor));
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
    lend::<T, _, _>(call, first, |a| lend::<T, _, _>(call, second, |b| f([a, b])))
}

/// Where a tensor's storage is: what tells storages apart.
pub(crate) fn storage_of(tensor: &Tensor) -> *const Storage {
    &raw const *tensor.storage_and_layout().0
}

/// Lends `f` the address of a contiguous tensor, to queue the writing of it. Nothing may hold the tensor's storage.
pub(crate) fn lend<T: Native, R, F: FnOnce(u64) -> Outcome<R>>(
    call: &Call<'_>,
    (name, tensor): (&'static str, &Tensor),
    f: F,
) -> Outcome<R> {
    let (was, wanted) = (tensor.dtype(), <T as WithDType>::DTYPE);
    if was != wanted {
        return refuse(name, format!("of {}", was.as_str()), format!("of {}", wanted.as_str()));
    }
    let state = RefCell::new(State::Asked(f));
    tensor.inplace_op1(&Writing::<T, R, F> { call, state: &state, element: PhantomData })?;
    match state.into_inner() {
        State::Done(outcome) => outcome,
        State::Asked(_) => Err(Trouble::Candle(candle_core::Error::Msg(format!("`{name}` was not lent")))),
    }
}

/// What is to be done with the address, and what came of it.
enum State<R, F> {
    Asked(F),
    Done(Outcome<R>),
}

/// An operation of candle's that lends a tensor's memory.
struct Writing<'a, 't, T, R, F> {
    call: &'a Call<'t>,
    state: &'a RefCell<State<R, F>>,
    element: PhantomData<T>,
}

impl<T: Native, R, F: FnOnce(u64) -> Outcome<R>> Writing<'_, '_, T, R, F> {
    fn run(&self, edited: Outcome<Edited<'_, T>>) {
        let waiting = Err(Trouble::Candle(candle_core::Error::Msg("a tensor is lent already".into())));
        let State::Asked(f) = self.state.replace(State::Done(waiting)) else { return };
        let outcome = edited.and_then(|edited| {
            let result = f(edited.address())?;
            edited.finish(self.call.stream())?;
            Ok(result)
        });
        self.state.replace(State::Done(outcome));
    }
}

impl<T: Native, R, F: FnOnce(u64) -> Outcome<R>> InplaceOp1 for Writing<'_, '_, T, R, F> {
    fn name(&self) -> &'static str {
        "write_in_place"
    }
    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        self.run(self.call.place().edit_cpu(storage, layout));
        Ok(())
    }
    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, storage: &mut CudaStorage, layout: &Layout) -> Result<()> {
        self.run(self.call.place().edit_cuda(storage, layout));
        Ok(())
    }
    #[cfg(not(feature = "cuda"))]
    fn cuda_fwd(&self, _: &mut CudaStorage, _: &Layout) -> Result<()> {
        Err(candle_core::Error::Msg("a CUDA device takes the feature `cuda` of tilewright-candle".into()))
    }
}
