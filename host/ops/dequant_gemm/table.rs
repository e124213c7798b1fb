//! The compiled kernels, and their launches.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use tilewright_dequant_gemm::{
    CHUNK, DequantGemmArgs, DequantInt8Kernel, DequantKernel, DequantStreamArgs, DequantStreamKernel,
    KERNELS, SLAB, STREAM, Shares, WEIGHTS, WIDEN, WIDEN_DEPTH, WidenKernel,
};
use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernel::Listed;
use tilewright_device::tile::{Activation, EpilogueAbi, StreamOrder, WeightsAbi};

use super::problem::Problem;
use super::{DeviceWeights, int8};
use crate::Stream;
use crate::ops::HalfElement;
use crate::ops::frame::Table;
use crate::quant::{Order, Zeros};
use crate::{AnyFunction, Arch, Device, Error, Launch, Result};

/// One compiled kernel.
#[derive(Clone, Copy, Debug)]
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
    pub(super) gated: bool,
    way: Way,
}

/// Which list a kernel is of.
#[derive(Clone, Copy, Debug)]
enum Way {
    Tiles(&'static Listed<DequantKernel>),
    Stream(&'static Listed<DequantStreamKernel>),
    Int8(&'static Listed<DequantInt8Kernel>),
    Widen(&'static Listed<WidenKernel>),
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

impl Reads {
    pub(super) fn of(arch: Arch, any_strides: bool) -> Self {
        match (any_strides, arch) {
            (true, _) => Reads::Elements,
            (_, Arch::Sm90a) => Reads::Boxes,
            _ => Reads::Pieces,
        }
    }
}

impl Compiled {
    fn tiles(kernel: &'static Listed<DequantKernel>) -> Self {
        let &Listed { name, arch, cluster: [cluster, ..], .. } = kernel;
        let DequantKernel { tile, stages, sums, consumers, any_strides, .. } = kernel.description;
        let reads = Reads::of(arch, any_strides);
        let way = Way::Tiles(kernel);
        let shared_bytes = KERNELS.shared_bytes(kernel);
        Compiled {
            name,
            arch,
            cluster,
            tile,
            stages,
            reads,
            sums,
            consumers,
            shared_bytes,
            gated: false,
            way,
        }
    }

    fn stream(kernel: &'static Listed<DequantStreamKernel>) -> Self {
        let &Listed { name, arch, threads, .. } = kernel;
        Compiled {
            name,
            arch,
            cluster: 1,
            tile: [SLAB, kernel.rows, kernel.ahead * threads / 32 * CHUNK],
            stages: kernel.ahead,
            reads: Reads::Stream,
            sums: true,
            consumers: threads,
            shared_bytes: KERNELS.shared_bytes(kernel),
            gated: kernel.gated,
            way: Way::Stream(kernel),
        }
    }

    fn widen(kernel: &'static Listed<WidenKernel>) -> Self {
        let &Listed { name, arch, threads, .. } = kernel;
        let WidenKernel { rows, stages, .. } = kernel.description;
        Compiled {
            name,
            arch,
            cluster: 1,
            tile: [rows, 0, WIDEN_DEPTH],
            stages,
            reads: Reads::Elements,
            sums: false,
            consumers: threads,
            shared_bytes: KERNELS.shared_bytes(kernel),
            gated: false,
            way: Way::Widen(kernel),
        }
    }

    /// The kernel that makes weights wide for a product of these, if it is one.
    pub(super) fn widens(&self) -> Option<&'static Listed<WidenKernel>> {
        if let Way::Widen(kernel) = self.way { Some(kernel) } else { None }
    }

    pub(super) fn int8(kernel: &'static Listed<DequantInt8Kernel>) -> Self {
        let &Listed { name, arch, .. } = kernel;
        let DequantInt8Kernel { tile, stages, consumers, .. } = kernel.description;
        let (reads, way) = (Reads::of(arch, false), Way::Int8(kernel));
        let shared_bytes = KERNELS.shared_bytes(kernel);
        Compiled {
            name,
            arch,
            cluster: 1,
            tile,
            stages,
            reads,
            sums: false,
            consumers,
            shared_bytes,
            gated: false,
            way,
        }
    }

    /// Loads it.
    pub(super) fn function(&self, device: &Device) -> Result<AnyFunction> {
        match self.way {
            Way::Tiles(kernel) => device.listed(&KERNELS, kernel),
            Way::Stream(kernel) => device.listed(&KERNELS, kernel),
            Way::Int8(kernel) => device.listed(&KERNELS, kernel),
            Way::Widen(kernel) => device.listed(&KERNELS, kernel),
        }
    }

    /// Clusters that the device holds at a time.
    pub(super) fn resident(&self, function: &AnyFunction) -> u32 {
        function.resident_ctas() / self.cluster
    }

    /// Launches it.
    pub(super) fn run(&self, function: &AnyFunction, problem: &Problem, call: &Call<'_>) -> Result<()> {
        match self.way {
            Way::Tiles(kernel) => run(kernel, function, problem, call),
            Way::Stream(kernel) => run_stream(kernel, function, problem, call),
            Way::Int8(kernel) => int8::table::run(kernel, function, problem, call),
            // Plans of these have products.
            Way::Widen(kernel) => Err(Error::KernelMissing {
                kernel: kernel.name,
                arch: kernel.arch,
                reason: "it makes weights wide, and multiplies nothing".to_owned(),
            }),
        }
    }
}

/// What a launch needs beside the tensors.
pub(super) struct Call<'a> {
    pub(super) stream: &'a Stream,
    pub(super) weights: WeightsAbi,
    pub(super) order: StreamOrder,
    pub(super) ctas: u32,
    pub(super) activation: Activation,
    pub(super) alpha: f32,
    /// May start while the preceding grid still runs.
    pub(super) overlap: bool,
}

/// What a kernel is chosen by first: names of the element type, the format and the mode of zeros.
pub(super) type Kind = (&'static str, &'static str, &'static str);

static TABLE: LazyLock<Table<Kind, Compiled>> = LazyLock::new(|| {
    let tiles = WEIGHTS.iter().map(|k| ((k.element, k.format, k.zeros), Compiled::tiles(k)));
    let stream = STREAM.iter().map(|k| ((k.element, k.format, k.zeros), Compiled::stream(k)));
    let widen = WIDEN.iter().map(|k| ((k.element, k.format, k.zeros), Compiled::widen(k)));
    Table::new(tiles.chain(stream).chain(widen))
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.kernels(&kind)
}

/// What kernels are chosen by for activations of `T`.
pub(super) fn kind<T: HalfElement>(w: &DeviceWeights) -> Result<Kind> {
    kind_in::<T, _>(&TABLE, w)
}

/// The same, of the kernels of a table.
pub(super) fn kind_in<T: HalfElement, K>(table: &Table<Kind, K>, w: &DeviceWeights) -> Result<Kind> {
    let scheme = w.scheme();
    if w.order() != Order::B16 {
        return Err(w.error("order", "b8".to_owned(), "b16, for activations of f16 and bf16".to_owned()));
    }
    if scheme.scales != T::HALF {
        let was = scheme.scales.dtype().name().to_owned();
        return Err(w.error("scales", was, format!("{}, the activations' type", T::DTYPE.name())));
    }
    let zeros = match scheme.zeros {
        Zeros::None => "none",
        Zeros::Original | Zeros::Packed => "original",
        Zeros::Rescaled => "rescaled",
    };
    let (element, format) = (T::DTYPE.name(), scheme.format.name());
    if !table.kernels(&(element, format, zeros)).is_empty() {
        return Ok((element, format, zeros));
    }
    let listed = |of: &dyn Fn(&Kind) -> Option<&'static str>| {
        let names: BTreeSet<_> = table.kinds().filter(|kind| kind.0 == element).filter_map(of).collect();
        Vec::from_iter(names).join(", ")
    };
    let modes = listed(&|kind| (kind.1 == format).then_some(kind.2));
    if modes.is_empty() {
        return Err(w.error("format", format.to_owned(), format!("one of {}", listed(&|kind| Some(kind.1)))));
    }
    let was = format!("{zeros}, for activations of {element}");
    Err(w.error("zeros", was, format!("one of {modes}")))
}

impl Call<'_> {
    /// The epilogue as kernels take it: a bias without rows if there is none.
    fn epilogue(&self, problem: &Problem, c: &GlobalAbi<(), 2>) -> Result<EpilogueAbi<GlobalAbi<(), 2>>> {
        let bias = match &problem.bias {
            Some(bias) => bias.arg(problem.device.backend(), false, 0)?,
            None => GlobalAbi { map: TensorMap::NONE, shape: [0; 2], tma: 0, ..*c },
        };
        let &Call { alpha, activation, .. } = self;
        Ok(EpilogueAbi {
            bias,
            residual: (),
            row_scales: (),
            column_scales: (),
            alpha,
            beta: 0.0,
            activation,
        })
    }
}

fn run(
    kernel: &Listed<DequantKernel>,
    function: &AnyFunction,
    problem: &Problem,
    call: &Call<'_>,
) -> Result<()> {
    let Problem { device, a, c, .. } = problem;
    let backend = device.backend();
    let tma = kernel.arch == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let a: GlobalAbi<(), 2> = a.arg(backend, true, lines(kernel.tile[1]))?;
    let c: GlobalAbi<(), 2> = c.t()?.arg(backend, false, lines(kernel.box_c))?;
    let epilogue = call.epilogue(problem, &c)?;
    let launch = Launch::grid([call.ctas * kernel.cluster[0], 1, 1]).pdl(call.overlap && tma);
    let &Call { weights: w, order, .. } = call;
    let args = DequantGemmArgs { w, a, c, order, epilogue };
    // SAFETY: the arguments are those of `dequant_gemm`. The caller borrows the views and weights, c exclusively, and the
    // workspace that the order names; the kernel keeps to their shapes. Programmatic launch only moves what precedes its wait
    // for the preceding grid.
    unsafe { function.launch_block(call.stream, &launch, &args) }
}

fn run_stream(
    kernel: &Listed<DequantStreamKernel>,
    function: &AnyFunction,
    problem: &Problem,
    call: &Call<'_>,
) -> Result<()> {
    let Problem { device, a, c, size: [m, n, _], gated, .. } = problem;
    let backend = device.backend();
    let a: GlobalAbi<(), 2> = a.arg(backend, true, 0)?;
    let c: GlobalAbi<(), 2> = c.t()?.arg(backend, false, 0)?;
    let epilogue = call.epilogue(problem, &c)?;
    // Sizes are below 2^31, and a kernel for more tiles of A than a grid has is not possible.
    let (slabs, across) = (n.div_ceil(SLAB as usize) as u32, m.div_ceil(kernel.rows as usize) as u32);
    let launch = Launch::grid([call.ctas, across, 1]).pdl(call.overlap);
    let shares = Shares::new(slabs, call.ctas);
    let args = DequantStreamArgs { w: call.weights, a, c, shares, epilogue, gated: u32::from(*gated) };
    // SAFETY: the arguments are those of `dequant_stream`. The caller borrows the views and weights, c exclusively; the kernel
    // keeps to their shapes. Programmatic launch only moves what precedes its wait for the preceding grid: reads of the
    // weights, which no kernel writes.
    unsafe { function.launch_block(call.stream, &launch, &args) }
}
