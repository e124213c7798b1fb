//! The compiled kernels, each read off its type, with the function that launches it.

use std::collections::HashMap;
use std::sync::LazyLock;

use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernels::dequant_gemm::{self, DequantGemmKernel};
use tilewright_device::kernels::dequant_stream::{self, DequantStreamKernel};
use tilewright_device::layout::Element;
use tilewright_device::tile::{CHUNK, SLAB, Shares, StreamOrder, WeightsAbi};

use super::problem::Problem;
use crate::ops::KERNELS;
use crate::{Arch, Device, Instance, Launch, Result, Stream};

/// One compiled kernel.
#[derive(Debug)]
pub struct Compiled {
    pub(super) name: &'static str,
    pub(super) arch: Arch,
    /// CTAs of a cluster, which take a tile together and count as one.
    pub(super) cluster: u32,
    /// Rows of W, rows of A and depth of a tile.
    pub(super) tile: [u32; 3],
    pub(super) stages: u32,
    pub(super) reads: Reads,
    /// Scales multiply sums, not weights: groups are multiples of [`CHUNK`], or whole rows.
    pub(super) sums: bool,
    /// Threads that hold a tile's sums.
    pub(super) consumers: u32,
    pub(super) shared_bytes: u32,
    /// CTAs that the device holds at a time.
    pub(super) resident: fn(&Device) -> Result<u32>,
    /// Launches it.
    pub(super) run: fn(&Problem, &Call<'_>) -> Result<()>,
}

/// How a kernel reads its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// Tiles of A by TMA.
    Boxes,
    /// Tiles of A in pieces of 16 bytes.
    Pieces,
    /// Tiles of A element by element, with any strides.
    Elements,
    /// All of A's depth in pieces of 16 bytes, and W straight from memory.
    Stream,
}

/// What a launch needs beside the tensors.
pub(super) struct Call<'a> {
    pub(super) stream: &'a Stream,
    pub(super) weights: WeightsAbi,
    pub(super) order: StreamOrder,
    pub(super) ctas: u32,
    pub(super) activation: u32,
    pub(super) alpha: f32,
    /// May start while the kernel in front of it still runs.
    pub(super) overlap: bool,
}

/// What a kernel is chosen by first: names of the element type, the format and the mode of zeros.
pub(super) type Kind = (&'static str, &'static str, &'static str);

static TABLE: LazyLock<HashMap<Kind, Vec<Compiled>>> = LazyLock::new(|| {
    let mut table = Table(HashMap::new());
    dequant_gemm::visit(&mut table);
    dequant_stream::visit(&mut table);
    table.0
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.get(&kind).map_or(&[], Vec::as_slice)
}

/// The modes of zeros that a format has kernels for.
pub(super) fn zeros_of(element: &str, format: &str) -> Vec<&'static str> {
    let mut zeros: Vec<_> =
        TABLE.keys().filter(|kind| (kind.0, kind.1) == (element, format)).map(|kind| kind.2).collect();
    zeros.sort_unstable();
    zeros
}

struct Table(HashMap<Kind, Vec<Compiled>>);

impl dequant_gemm::Visitor for Table {
    fn kernel<K: DequantGemmKernel + Instance + 'static>(&mut self) {
        let kind = (K::Element::NAME, K::FORMAT, K::ZEROS);
        self.0.entry(kind).or_default().push(Compiled {
            name: K::NAME,
            arch: K::ARCH,
            cluster: K::CLUSTER[0],
            tile: K::TILE,
            stages: K::STAGES,
            reads: match (K::ANY_STRIDES, K::ARCH) {
                (true, _) => Reads::Elements,
                (_, Arch::Sm90a) => Reads::Boxes,
                _ => Reads::Pieces,
            },
            sums: K::SUMS,
            consumers: K::CONSUMERS,
            shared_bytes: K::SHARED_BYTES,
            resident: |device| Ok(device.kernel::<K>(&KERNELS)?.resident_ctas() / K::CLUSTER[0]),
            run: run::<K>,
        });
    }
}

impl dequant_stream::Visitor for Table {
    fn stream_kernel<K: DequantStreamKernel + Instance + 'static>(&mut self) {
        let kind = (K::Element::NAME, K::FORMAT, K::ZEROS);
        self.0.entry(kind).or_default().push(Compiled {
            name: K::NAME,
            arch: K::ARCH,
            cluster: 1,
            tile: [SLAB, K::ROWS, K::AHEAD * K::THREADS / 32 * CHUNK],
            stages: K::AHEAD,
            reads: Reads::Stream,
            sums: true,
            consumers: K::THREADS,
            shared_bytes: K::SHARED_BYTES,
            resident: |device| Ok(device.kernel::<K>(&KERNELS)?.resident_ctas()),
            run: run_stream::<K>,
        });
    }
}

/// The bias as kernels take it: without rows if there is none.
fn bias_of<T: Element>(problem: &Problem, c: &GlobalAbi<T, 2>) -> Result<GlobalAbi<T, 2>> {
    match &problem.bias {
        Some(bias) => bias.arg(problem.device.backend(), false, 0),
        None => Ok(GlobalAbi { map: TensorMap::NONE, shape: [0; 2], tma: 0, ..*c }),
    }
}

fn run<K: DequantGemmKernel + Instance>(problem: &Problem, call: &Call<'_>) -> Result<()> {
    let Problem { device, a, c, .. } = problem;
    let kernel = device.kernel::<K>(&KERNELS)?;
    let backend = device.backend();
    let tma = K::ARCH == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let a: GlobalAbi<K::Element, 2> = a.arg(backend, true, lines(K::TILE[1]))?;
    let c: GlobalAbi<K::Element, 2> = c.t()?.arg(backend, false, lines(K::BOX))?;
    let bias = bias_of(problem, &c)?;
    let launch = Launch::grid([call.ctas * K::CLUSTER[0], 1, 1]).pdl(call.overlap && tma);
    let args = K::arguments(call.weights, a, c, bias, call.order, call.activation, call.alpha);
    // SAFETY: the caller borrows the views and weights, c exclusively, and the workspace that the order names; the kernel
    // keeps to their shapes. Programmatic launch only moves what precedes its wait for the kernel in front.
    unsafe { kernel.launch(call.stream, &launch, &args) }
}

fn run_stream<K: DequantStreamKernel + Instance>(problem: &Problem, call: &Call<'_>) -> Result<()> {
    let Problem { device, a, c, size: [m, n, _], .. } = problem;
    let kernel = device.kernel::<K>(&KERNELS)?;
    let backend = device.backend();
    let a: GlobalAbi<K::Element, 2> = a.arg(backend, true, 0)?;
    let c: GlobalAbi<K::Element, 2> = c.t()?.arg(backend, false, 0)?;
    let bias = bias_of(problem, &c)?;
    // Sizes are below 2^31, and a kernel for more tiles of A than a grid has is not possible.
    let (slabs, across) = (n.div_ceil(SLAB as usize) as u32, m.div_ceil(K::ROWS as usize) as u32);
    let launch = Launch::grid([call.ctas, across, 1]).pdl(call.overlap);
    let shares = Shares::new(slabs, call.ctas);
    let args = K::arguments(call.weights, a, c, bias, shares, call.activation, call.alpha);
    // SAFETY: the caller borrows the views and weights, c exclusively; the kernel keeps to their shapes. Programmatic launch
    // only moves what precedes its wait for the kernel in front: reads of the weights, which no kernel writes.
    unsafe { kernel.launch(call.stream, &launch, &args) }
}
