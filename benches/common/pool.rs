//! Memory for inputs and outputs.

use std::cell::{OnceCell, RefCell};

use tilewright::{DType, Device, Result, Tensor, TensorView, TensorViewMut, bf16, f16};
use tilewright_support::Real;
use tilewright_support::random::normal;

/// A pool for each element type.
pub struct Pools<'a> {
    device: &'a Device,
    f16: Place<f16>,
    bf16: Place<bf16>,
    f32: Place<f32>,
}

/// A pool once it was asked for.
pub struct Place<T> {
    /// The most elements of inputs and outputs that a case needs.
    most: [usize; 2],
    pool: OnceCell<Pool<T>>,
}

impl<'a> Pools<'a> {
    /// Pools for cases of types that need so many elements of inputs and outputs.
    pub fn new(device: &'a Device, needs: impl IntoIterator<Item = (DType, [usize; 2])>) -> Self {
        let (mut f16, mut bf16, mut f32) = (Place::new(), Place::new(), Place::new());
        for (dtype, needed) in needs {
            let most = match dtype {
                DType::F16 => &mut f16.most,
                DType::F32 => &mut f32.most,
                _ => &mut bf16.most,
            };
            *most = [most[0].max(needed[0]), most[1].max(needed[1])];
        }
        Self { device, f16, bf16, f32 }
    }

    /// The pool of a type.
    pub fn of<T: Pooled>(&self) -> Result<&Pool<T>> {
        T::place(self).made(self.device)
    }
}

/// Element types that there are pools of.
pub trait Pooled: Real {
    #[doc(hidden)]
    fn place<'p>(pools: &'p Pools<'_>) -> &'p Place<Self>;
}

macro_rules! pooled {
    ($($t:ident)*) => { $(
        impl Pooled for $t {
            fn place<'p>(pools: &'p Pools<'_>) -> &'p Place<$t> {
                &pools.$t
            }
        }
    )* };
}
pooled!(f16 bf16 f32);

impl<T: Real> Place<T> {
    fn new() -> Self {
        Self { most: [0; 2], pool: OnceCell::new() }
    }

    fn made(&self, device: &Device) -> Result<&Pool<T>> {
        if self.pool.get().is_none() {
            // Another one cannot be there by now.
            let _ = self.pool.set(Pool::new(device, self.most)?);
        }
        Ok(self.pool.get().expect("a pool was just made"))
    }
}

/// Memory that all cases of a type share, since filling it takes longer than measuring.
pub struct Pool<T> {
    /// Random data.
    inputs: Tensor<T>,
    outputs: RefCell<Tensor<T>>,
}

impl<T: Real> Pool<T> {
    fn new(device: &Device, [inputs, outputs]: [usize; 2]) -> Result<Self> {
        // The data repeats; an odd period keeps tensors from being equal.
        let random = normal::<T>(1, inputs.min((1 << 26) - 77));
        let random = Tensor::from_slice(device, &random, &[random.len()])?;
        let mut all = Tensor::uninit(device, &[inputs])?;
        let stream = device.default_stream();
        for start in (0..inputs).step_by(random.len().max(1)) {
            let len = random.len().min(inputs - start);
            let mut part = all.view_mut().narrow(0, start, len)?;
            part.copy_from(&stream, &random.view().narrow(0, 0, len)?)?;
        }
        stream.synchronize()?;
        Ok(Self { inputs: all, outputs: RefCell::new(Tensor::uninit(device, &[outputs])?) })
    }

    /// Inputs of this shape from an element on.
    pub fn input(&self, start: usize, shape: &[usize]) -> Result<TensorView<'_, T>> {
        self.inputs.view().narrow(0, start, shape.iter().product())?.reshape(shape)
    }

    /// Does something with an output of this shape from an element on.
    pub fn with_output<R>(
        &self,
        start: usize,
        shape: &[usize],
        f: impl FnOnce(TensorViewMut<'_, T>) -> Result<R>,
    ) -> Result<R> {
        let mut outputs = self.outputs.borrow_mut();
        f(outputs.view_mut().narrow(0, start, shape.iter().product())?.reshape(shape)?)
    }
}

/// Elements that tensors of these take, since they begin at addresses that are as well aligned as allocations.
pub fn aligned<const N: usize>(elements: [usize; N]) -> [usize; N] {
    elements.map(|elements| elements.next_multiple_of(256))
}
