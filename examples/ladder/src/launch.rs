//! A launch for each level: its grid. What the kernels expect of shapes, they say themselves.

use std::f32::consts::LOG2_E;

use ladder_device::attention::{Ampere, D, Hopper, QUERIES};
use ladder_device::{
    gemm_f16 as f16s, gemm_naive as naive, gemm_pipelined as pipelined, gemm_registers as registers,
    gemm_shared as shared, gemm_tf32 as tf32, gemm_vectors as vectors, gemm_warp_specialised as specialised,
    row_softmax as softmax, vector_add as add,
};
use tilewright::{
    Arguments, Error, Instance, Result, SafeKernel, Stream, Takes, TensorView, TensorViewMut, f16,
};
use tilewright_device::tile::RasterOrder;

use crate::KERNELS;

/// Rows of tiles that are computed side by side, so that CTAs share operands in the L2 cache.
const PANEL: u32 = 16;

/// Queues a kernel, unless there is nothing to do.
fn queue<K: Instance + SafeKernel + Takes<A>, A: Arguments<K>>(
    stream: &Stream,
    grid: [usize; 3],
    arguments: A,
) -> Result<()> {
    if grid.contains(&0) {
        return Ok(());
    }
    stream.device().kernel::<K>(&KERNELS)?.launch(stream, grid.map(|ctas| ctas as u32), arguments)
}

/// How many tiles a matrix has along both dimensions.
fn tiles(name: &'static str, shape: &[usize], tile: [usize; 2]) -> Result<[usize; 2]> {
    match *shape {
        [rows, cols] => Ok([rows.div_ceil(tile[0]), cols.div_ceil(tile[1])]),
        _ => Err(Error::argument(name, format!("of shape {shape:?}"), "a matrix")),
    }
}

/// z = x + y.
pub fn vector_add(
    stream: &Stream,
    x: &TensorView<'_, f32>,
    y: &TensorView<'_, f32>,
    z: &mut TensorViewMut<'_, f32>,
) -> Result<()> {
    let ctas = z.len().div_ceil(add::TILE);
    // A kernel's tensors are matrices at least: these have one row.
    let [x, y] = [x, y].map(|x| x.clone().insert_dim(0));
    queue::<add::vector_add, _>(stream, [ctas, 1, 1], (x?, y?, z.reborrow().insert_dim(0)?))
}

/// y = softmax(x) over the rows of a matrix.
pub fn row_softmax(stream: &Stream, x: &TensorView<'_, f32>, y: &mut TensorViewMut<'_, f32>) -> Result<()> {
    let [m, _] = tiles("y", y.shape(), [softmax::ROWS, softmax::COLS])?;
    queue::<softmax::row_softmax, _>(stream, [m, 1, 1], (x, y))
}

/// A launch of a level whose CTAs take a tile of C each.
macro_rules! product {
    ($(#[$doc:meta])* $name:ident: $kernel:ident, $t:ty, $tile:expr) => {
        $(#[$doc])*
        pub fn $name(
            stream: &Stream,
            a: &TensorView<'_, $t>,
            b: &TensorView<'_, $t>,
            c: &mut TensorViewMut<'_, $t>,
        ) -> Result<()> {
            let [m, n] = tiles("c", c.shape(), $tile)?;
            queue::<$kernel::$name, _>(stream, [n, m, 1], (a, b, c))
        }
    };
}

product! {
    /// C = A B, a thread for each element of C.
    gemm_naive: naive, f32, [naive::TILE; 2]
}
product! {
    /// C = A B, tiled in shared memory.
    gemm_shared: shared, f32, [shared::TILE; 2]
}
product! {
    /// C = A B, register-tiled.
    gemm_registers: registers, f32, [registers::BM, registers::BN]
}
product! {
    /// C = A B, with accesses of 16 bytes.
    gemm_vectors: vectors, f32, [vectors::BM, vectors::BN]
}
product! {
    /// C = A B, pipelined. Lines begin and end at multiples of 16 bytes, here and below.
    gemm_pipelined: pipelined, f32, [pipelined::BM, pipelined::BN]
}
product! {
    /// C = A B of tf32, B column-major.
    gemm_tf32: tf32, f32, [tf32::BM, tf32::BN]
}
product! {
    /// C = A B of f16, B column-major.
    gemm_f16: f16s, f16, [f16s::BM, f16s::BN]
}

/// C = A B of f16, B column-major, warp-specialised: CTAs stay and take one tile after the other.
pub fn gemm_warp_specialised(
    stream: &Stream,
    a: &TensorView<'_, f16>,
    b: &TensorView<'_, f16>,
    c: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    type Kernel = specialised::gemm_warp_specialised;
    let [m, n] = tiles("c", c.shape(), [specialised::BM, specialised::BN])?.map(|tiles| tiles as u32);
    let order = RasterOrder::new(1, m, n, PANEL)
        .ok_or_else(|| Error::argument("c", format!("of {m} x {n} tiles"), "of fewer"))?;
    let ctas = stream.device().kernel::<Kernel>(&KERNELS)?.resident_ctas().min(order.total());
    queue::<Kernel, _>(stream, [ctas as usize, 1, 1], (a, b, c, order))
}

/// Tiles of `rows` queries of each head, and log2(e) over the root of `D`: exponentials are of base 2.
fn heads(o: &TensorViewMut<'_, f16>, rows: usize) -> Result<([usize; 3], f32)> {
    match *o.shape() {
        [heads, queries, _] => Ok(([queries.div_ceil(rows), heads, 1], LOG2_E / (D as f32).sqrt())),
        ref shape => Err(Error::argument("o", format!("of shape {shape:?}"), "of three dimensions")),
    }
}

/// O = softmax(Q Kᵀ / √D) V for everything since Ampere.
pub fn attention_ampere(
    stream: &Stream,
    [q, k, v]: [&TensorView<'_, f16>; 3],
    o: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    let (grid, scale) = heads(o, QUERIES[1])?;
    queue::<Ampere, _>(stream, grid, (q, k, v, o, scale))
}

/// The same for Hopper.
pub fn attention_hopper(
    stream: &Stream,
    [q, k, v]: [&TensorView<'_, f16>; 3],
    o: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    let (grid, scale) = heads(o, QUERIES[0])?;
    queue::<Hopper, _>(stream, grid, (q, k, v, o, scale))
}
