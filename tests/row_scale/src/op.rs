//! The operator: its checks, its estimate, its launch.

use std::fmt;

use tilewright::ops::frame::{Choice, Cycles, Descriptor, Named, Plan, Rated, Rejection, check, of_shape};
use tilewright::{
    Device, Element, Error, KernelSet, Launch, Listed, Result, Stream, TensorView, TensorViewMut,
};
use tilewright_device::tile::{self, Global, GlobalMut};

use crate::kernel::{ROW_SCALE, ROWS, RowScaleArgs, RowScaleKernel};

static KERNELS: KernelSet = tilewright::include_kernels!();

impl Rated for RowScaleKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;
    fn size(&self) -> [u32; 3] {
        [ROWS as u32, self.columns, 1]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tiles of {ROWS} x {}", self.columns)
    }
}

/// y = x · s for x and y \[rows, columns\] of `T` and s \[rows, 1\], by any kernel or one that is forced by name.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowScale<'a> {
    pub kernel: Option<&'a str>,
}

/// A call, as far as it decides between kernels.
struct Call<'a> {
    device: &'a Device,
    element: &'static str,
    shape: [usize; 2],
}

impl Choice for Call<'_> {
    type Kernel = Listed<RowScaleKernel>;
    fn device(&self) -> &Device {
        self.device
    }
    fn kernels(&self) -> &'static [Self::Kernel] {
        ROW_SCALE
    }
    fn what(&self) -> String {
        self.element.to_owned()
    }
    fn rate(&self, kernel: &Self::Kernel) -> Result<Cycles, Rejection> {
        if kernel.element != self.element {
            return Err(Rejection::Because("it is for another element type"));
        }
        let [m, n] = [self.shape[0].div_ceil(ROWS), self.shape[1].div_ceil(kernel.columns as usize)];
        Ok(Cycles(m as u64 * n as u64 * u64::from(500 + kernel.columns)))
    }
}

impl RowScale<'_> {
    /// Queues it on `stream`, and says what was chosen.
    pub fn run<T: Element + tile::Element>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        s: &TensorView<'_, f32>,
        y: &mut TensorViewMut<'_, T>,
    ) -> Result<Plan<Listed<RowScaleKernel>>> {
        let &[rows, cols] = y.shape() else {
            return Err(Error::argument("y", of_shape(y.shape()), "of 2 dimensions"));
        };
        for (name, shape, wanted) in [("x", x.shape(), [rows, cols]), ("s", s.shape(), [rows, 1])] {
            if shape != wanted {
                return Err(Error::argument(name, of_shape(shape), of_shape(&wanted)));
            }
        }
        check(y.device(), [Named::read("x", x), Named::read("s", s), Named::written("y", y)])?;
        let plan =
            Call { device: y.device(), element: T::DTYPE.name(), shape: [rows, cols] }.choose(self.kernel)?;
        let (kernel, [_, columns, _]) = (plan.descriptor(), plan.descriptor().size());
        let grid = [rows.div_ceil(ROWS) as u32, cols.div_ceil(columns as usize) as u32, 1];
        if grid.contains(&0) {
            return Ok(plan);
        }
        let args = RowScaleArgs {
            x: x.arg::<2, Global<T, 2>>()?,
            s: s.arg::<2, Global<f32, 2>>()?,
            y: y.arg::<2, GlobalMut<T, 2>>()?,
        };
        let function = y.device().listed(&KERNELS, kernel)?;
        // SAFETY: the arguments are those of `row_scale` for this element type; the views are borrowed, y exclusively.
        unsafe { function.launch(stream, &Launch::grid(grid), &args)? };
        Ok(plan)
    }
}
