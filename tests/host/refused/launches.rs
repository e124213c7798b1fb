//! Launches that do not compile, each with what is expected of its error: `//~ TEXT` is on the line that it points at.

use tilewright::{Arguments, Device, Instance, KernelSet, Result, SafeKernel, Stream, Takes, Tensor};
use tilewright::{TensorView, TensorViewMut, f16};
use tilewright_device::kernel;
use tilewright_device::tile::{Global, GlobalMut, InPlace, List, RowMajor};

#[kernel(threads = 128)]
pub fn scale(x: Global<f16, 2>, mut y: GlobalMut<f16, 2>, by: f32) {
    let _ = (x, &mut y, by);
}

#[kernel(threads = 128)]
pub fn gather(
    x: Global<f16, 3>,
    w: Global<f16, 3, RowMajor, 0>,
    bias: InPlace<Global<f32, 2>>,
    at: List,
    mut y: GlobalMut<f16, 3>,
    mut z: GlobalMut<f16, 3>,
    rows: u32,
    by: f32,
) {
    let _ = (x, w, bias, at, &mut y, &mut z, rows, by);
}

/// What is passed.
pub struct Passed<'a, 'b> {
    half: &'a TensorView<'a, f16>,
    single: &'a TensorView<'a, f32>,
    indices: &'a TensorView<'a, u32>,
    out: &'a mut TensorViewMut<'b, f16>,
    own: Tensor<f16>,
}

pub fn small(on: &Device, set: &'static KernelSet, passed: Passed<'_, '_>) -> Result<()> {
    let Passed { half, single, out, own, .. } = passed;
    let (f, s, grid) = (on.kernel::<scale>(set)?, on.default_stream(), [8, 1, 1]);
    f.launch(&s, grid, (half, out.reborrow(), 0.5))?;
    f.launch(&s, grid, (single, out.reborrow(), 0.5))?; //~ `&TensorView<'_, f32>` cannot be passed for a kernel's parameter of type `
    f.launch(&s, grid, (half, half, 0.5))?; //~ a `GlobalMut` a `TensorViewMut` (`y.view_mut()`)
    f.launch(&s, grid, (half, &out.reborrow(), 0.5))?; //~ cannot be passed for a kernel's parameter of type `GlobalMut<
    f.launch(&s, grid, (out.reborrow(), out.reborrow(), 0.5))?; //~ a `Global` takes a `TensorView` of its element type (`x.view()`)
    f.launch(&s, grid, (half, out.reborrow(), 1))?; //~ `{integer}` cannot be passed for a kernel's parameter of type `f32`
    f.launch(&s, grid, (half, out.reborrow(), 1_u32))?; //~ `u32` cannot be passed for a kernel's parameter of type `f32`
    f.launch(&s, grid, (half, 0.5, 0.5))?; //~ `{float}` cannot be passed for a kernel's parameter of type `GlobalMut<
    f.launch(&s, grid, (own, out.reborrow(), 0.5))?; //~ `x.view()`
    f.launch(&s, grid, (half, out.reborrow()))?; //~ expected a tuple with 3 elements, found one with 2 elements
    f.launch(&s, grid, (half, out.reborrow(), 0.5, 3))?; //~ expected a tuple with 3 elements, found one with 4 elements
    f.launch(&s, grid, half) //~ expected `(_, _, _)`, found `&TensorView<'_, f16>`
}

pub fn large(on: &Device, set: &'static KernelSet, passed: Passed<'_, '_>) -> Result<()> {
    let Passed { half, single, indices, out, .. } = passed;
    let (f, s, grid) = (on.kernel::<gather>(set)?, on.default_stream(), [8, 1, 1]);
    f.launch(&s, grid, (half, half, single, indices, half, out, 7, 0.5))?; //~ of type `GlobalMut<tilewright::f16, 3>`
    f.launch(&s, grid, (half, half, half, indices, out.reborrow(), out.reborrow(), 7, 0.5))?; //~ of type `InPlace<
    f.launch(&s, grid, (half, half, single, half, out.reborrow(), out.reborrow(), 7, 0.5)) //~ of type `List`
}

pub fn generic<K, A>(on: &Device, s: &Stream, set: &'static KernelSet, arguments: A) -> Result<()>
where
    K: Instance + SafeKernel + Takes<A>,
    A: Arguments<K>,
{
    on.kernel::<K>(set)?.launch(s, [8, 1, 1], arguments)
}

fn main() {}
