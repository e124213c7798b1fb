//! What stands between a kernel and a function that is safe to call: a launch for each level.

use std::f32::consts::LOG2_E;

use ladder_device::attention::{Ampere, D, Hopper, QUERIES};
use ladder_device::{
    gemm_f16 as f16s, gemm_naive as naive, gemm_pipelined as pipelined, gemm_registers as registers,
    gemm_shared as shared, gemm_tf32 as tf32, gemm_vectors as vectors, gemm_warp_specialised as specialised,
    row_softmax as softmax, vector_add as add,
};
use tilewright::ops::frame::{Named, check, of_shape};
use tilewright::{Element, Error, Instance, Launch, Result, Stream, TensorView, TensorViewMut, f16};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::tile::{self, ColMajor, Global, GlobalMut, Major, RasterOrder, RowMajor};

use crate::KERNELS;

/// Rows of tiles that are computed side by side, so that CTAs share operands in the L2 cache.
const PANEL: u32 = 16;

/// Queues a kernel, unless there is nothing to do.
///
/// # Safety
/// The arguments are of views that the caller has checked, what is written borrowed exclusively; the kernel keeps to their shapes.
unsafe fn queue<K: Instance>(stream: &Stream, grid: [usize; 3], args: &K::Args) -> Result<()> {
    if grid.contains(&0) {
        return Ok(());
    }
    let function = stream.device().kernel::<K>(&KERNELS)?;
    // SAFETY: the caller's.
    unsafe { function.launch(stream, &Launch::grid(grid.map(|ctas| ctas as u32)), args) }
}

fn expect(argument: &'static str, was: &[usize], shape: &[usize]) -> Result<()> {
    if was == shape { Ok(()) } else { Err(Error::argument(argument, of_shape(was), of_shape(shape))) }
}

/// z = x + y.
pub fn vector_add(
    stream: &Stream,
    x: &TensorView<'_, f32>,
    y: &TensorView<'_, f32>,
    z: &mut TensorViewMut<'_, f32>,
) -> Result<()> {
    let n = z.len();
    expect("x", x.shape(), &[n])?;
    expect("y", y.shape(), &[n])?;
    check(stream.device(), [Named::read("x", x), Named::read("y", y), Named::written("z", z)])?;
    let [x, y] = [x.arg::<2, Global<f32, 2>>()?, y.arg::<2, Global<f32, 2>>()?];
    let args = add::vector_add::args(x, y, z.arg::<2, GlobalMut<f32, 2>>()?);
    // SAFETY: the views are of one length, and checked.
    unsafe { queue::<add::vector_add>(stream, [n.div_ceil(add::TILE), 1, 1], &args) }
}

/// y = softmax(x) over the rows of a matrix.
pub fn row_softmax(stream: &Stream, x: &TensorView<'_, f32>, y: &mut TensorViewMut<'_, f32>) -> Result<()> {
    let &[rows, cols @ ..=softmax::COLS] = x.shape() else {
        let allowed = format!("a matrix of at most {} columns", softmax::COLS);
        return Err(Error::argument("x", of_shape(x.shape()), allowed));
    };
    expect("y", y.shape(), &[rows, cols])?;
    check(stream.device(), [Named::read("x", x), Named::written("y", y)])?;
    let args = softmax::row_softmax::args(x.arg::<2, Global<f32, 2>>()?, y.arg::<2, GlobalMut<f32, 2>>()?);
    // SAFETY: the views are of one shape, and checked.
    unsafe { queue::<softmax::row_softmax>(stream, [rows.div_ceil(softmax::ROWS), 1, 1], &args) }
}

/// What a kernel asks of the lines of its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// Nothing.
    Any,
    /// They begin and end at multiples of 16 bytes, as `cp.async` reads them.
    Aligned,
    /// The same, on a device with a TMA unit.
    Tma,
}

/// A, B and C of a product as arguments, and how many tiles C has along M and N.
struct Product<T> {
    args: [GlobalAbi<T, 2>; 3],
    tiles: [usize; 2],
}

/// Checks the operands of C = A B.
fn product<T: Element + tile::Element, O: Major>(
    stream: &Stream,
    [a, b]: [&TensorView<'_, T>; 2],
    c: &mut TensorViewMut<'_, T>,
    lines: Lines,
    tile: [usize; 2],
) -> Result<Product<T>> {
    let &[m, n] = c.shape() else { return Err(Error::argument("c", of_shape(c.shape()), "a matrix")) };
    let k = a.shape().last().copied().unwrap_or(0);
    expect("a", a.shape(), &[m, k])?;
    expect("b", b.shape(), &[k, n])?;
    check(stream.device(), [Named::read("a", a), Named::read("b", b), Named::written("c", c)])?;
    let [a, b] = [a.arg::<2, Global<T, 2>>()?, b.arg::<2, Global<T, 2, O>>()?];
    for (name, matrix, length) in [("a", &a, k), ("b", &b, if O::ROW_MAJOR { n } else { k })] {
        let whole = matrix.align == 16 && (length * T::BYTES).is_multiple_of(16);
        if lines != Lines::Any && !whole || lines == Lines::Tma && matrix.tma == 0 {
            let was = format!("of lines of {length} elements");
            return Err(Error::argument(name, was, "of lines that begin and end at multiples of 16 bytes"));
        }
    }
    let tiles = [m.div_ceil(tile[0]), n.div_ceil(tile[1])];
    Ok(Product { args: [a, b, c.arg::<2, GlobalMut<T, 2>>()?], tiles })
}

/// A launch of a level whose CTAs take a tile of C each.
macro_rules! product {
    ($(#[$doc:meta])* $name:ident: $kernel:ident, $t:ty, $order:ty, $lines:ident, $tile:expr) => {
        $(#[$doc])*
        pub fn $name(
            stream: &Stream,
            a: &TensorView<'_, $t>,
            b: &TensorView<'_, $t>,
            c: &mut TensorViewMut<'_, $t>,
        ) -> Result<()> {
            let Product { args: [a, b, c], tiles: [m, n] } =
                product::<$t, $order>(stream, [a, b], c, Lines::$lines, $tile)?;
            // SAFETY: the views' shapes fit, and are checked.
            unsafe { queue::<$kernel::$name>(stream, [n, m, 1], &$kernel::$name::args(a, b, c)) }
        }
    };
}

product! {
    /// C = A B, a thread for each element of C.
    gemm_naive: naive, f32, RowMajor, Any, [naive::TILE; 2]
}
product! {
    /// C = A B, tiled in shared memory.
    gemm_shared: shared, f32, RowMajor, Any, [shared::TILE; 2]
}
product! {
    /// C = A B, register-tiled.
    gemm_registers: registers, f32, RowMajor, Any, [registers::BM, registers::BN]
}
product! {
    /// C = A B, with accesses of 16 bytes.
    gemm_vectors: vectors, f32, RowMajor, Any, [vectors::BM, vectors::BN]
}
product! {
    /// C = A B, pipelined.
    gemm_pipelined: pipelined, f32, RowMajor, Aligned, [pipelined::BM, pipelined::BN]
}
product! {
    /// C = A B of tf32, B column-major.
    gemm_tf32: tf32, f32, ColMajor, Aligned, [tf32::BM, tf32::BN]
}
product! {
    /// C = A B of f16, B column-major.
    gemm_f16: f16s, f16, ColMajor, Aligned, [f16s::BM, f16s::BN]
}

/// C = A B of f16, B column-major, warp-specialised: CTAs stay and take one tile after the other.
pub fn gemm_warp_specialised(
    stream: &Stream,
    a: &TensorView<'_, f16>,
    b: &TensorView<'_, f16>,
    c: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    type Kernel = specialised::gemm_warp_specialised;
    let Product { args: [a, b, c], tiles } =
        product::<f16, ColMajor>(stream, [a, b], c, Lines::Tma, [specialised::BM, specialised::BN])?;
    let [m, n] = tiles.map(|tiles| tiles as u32);
    let order = RasterOrder::new(1, m, n, PANEL)
        .ok_or_else(|| Error::argument("c", format!("of {m} x {n} tiles"), "of fewer"))?;
    let ctas = stream.device().kernel::<Kernel>(&KERNELS)?.resident_ctas().min(order.total());
    // SAFETY: the views' shapes fit, and are checked; the order is that of C's tiles.
    unsafe { queue::<Kernel>(stream, [ctas as usize, 1, 1], &Kernel::args(a, b, c, order)) }
}

type HeadsArgs = [GlobalAbi<f16, 3>; 4];

/// Checks Q, K, V and O, \[heads, length, D\].
fn heads(
    stream: &Stream,
    [q, k, v]: [&TensorView<'_, f16>; 3],
    o: &mut TensorViewMut<'_, f16>,
) -> Result<HeadsArgs> {
    let &[heads, keys, D] = k.shape() else {
        return Err(Error::argument("k", of_shape(k.shape()), format!("[heads, keys, {D}]")));
    };
    expect("q", q.shape(), &[heads, o.shape().get(1).copied().unwrap_or(0), D])?;
    expect("v", v.shape(), &[heads, keys, D])?;
    expect("o", o.shape(), q.shape())?;
    let inputs = [Named::read("q", q), Named::read("k", k), Named::read("v", v)];
    check(stream.device(), inputs.into_iter().chain([Named::written("o", o)]))?;
    let arg = |x: &TensorView<'_, f16>| x.arg::<3, Global<f16, 3>>();
    let args = [arg(q)?, arg(k)?, arg(v)?, o.arg::<3, GlobalMut<f16, 3>>()?];
    match args[..3].iter().zip(["q", "k", "v"]).find(|(x, _)| x.align < 16) {
        Some((_, name)) => Err(Error::argument(name, "of unaligned lines", "aligned to 16 bytes")),
        None => Ok(args),
    }
}

/// log2(e) over the root of `D`: exponentials are of base 2.
fn scale() -> f32 {
    LOG2_E / (D as f32).sqrt()
}

/// O = softmax(Q Kᵀ / √D) V for everything since Ampere.
pub fn attention_ampere(
    stream: &Stream,
    inputs: [&TensorView<'_, f16>; 3],
    o: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    let [q, k, v, o] = heads(stream, inputs, o)?;
    let grid = [(o.shape[1] as usize).div_ceil(QUERIES[1]), o.shape[0] as usize, 1];
    // SAFETY: the views' shapes fit, and are checked.
    unsafe { queue::<Ampere>(stream, grid, &Ampere::args(q, k, v, o, scale())) }
}

/// The same for Hopper.
pub fn attention_hopper(
    stream: &Stream,
    inputs: [&TensorView<'_, f16>; 3],
    o: &mut TensorViewMut<'_, f16>,
) -> Result<()> {
    let [q, k, v, o] = heads(stream, inputs, o)?;
    let grid = [(o.shape[1] as usize).div_ceil(QUERIES[0]), o.shape[0] as usize, 1];
    // SAFETY: as above.
    unsafe { queue::<Hopper>(stream, grid, &Hopper::args(q, k, v, o, scale())) }
}
