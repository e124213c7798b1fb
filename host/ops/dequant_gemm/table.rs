//! The compiled kernels, each read off its type, with the function that launches it.

use std::collections::HashMap;
use std::sync::LazyLock;

use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernels::dequant_gemm::{DequantGemmKernel, Visitor, visit};
use tilewright_device::layout::Element as _;
use tilewright_device::tile::{StreamOrder, WeightsAbi};

use super::problem::Problem;
use crate::ops::KERNELS;
use crate::{Arch, Device, Instance, Launch, Result, Stream};

/// One compiled kernel.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) name: &'static str,
    pub(super) arch: Arch,
    /// Rows of W, rows of A and depth of a tile.
    pub(super) tile: [u32; 3],
    pub(super) stages: u32,
    /// Reads any strides, element by element.
    pub(super) any_strides: bool,
    /// Threads that hold a tile's sums.
    pub(super) consumers: u32,
    pub(super) shared_bytes: u32,
    /// CTAs that the device holds at a time.
    pub(super) resident: fn(&Device) -> Result<u32>,
    /// Launches it.
    pub(super) run: fn(&Problem, &Call<'_>) -> Result<()>,
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
    visit(&mut table);
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

impl Visitor for Table {
    fn kernel<K: DequantGemmKernel + Instance + 'static>(&mut self) {
        let kind = (K::Element::NAME, K::FORMAT, K::ZEROS);
        self.0.entry(kind).or_default().push(Compiled {
            name: K::NAME,
            arch: K::ARCH,
            tile: K::TILE,
            stages: K::STAGES,
            any_strides: K::ANY_STRIDES,
            consumers: K::CONSUMERS,
            shared_bytes: K::SHARED_BYTES,
            resident: |device| Ok(device.kernel::<K>(&KERNELS)?.resident_ctas()),
            run: run::<K>,
        });
    }
}

fn run<K: DequantGemmKernel + Instance>(problem: &Problem, call: &Call<'_>) -> Result<()> {
    let Problem { device, a, c, bias, .. } = problem;
    let kernel = device.kernel::<K>(&KERNELS)?;
    let backend = device.backend();
    let tma = K::ARCH == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let a: GlobalAbi<K::Element, 2> = a.arg(backend, true, lines(K::TILE[1]))?;
    let c: GlobalAbi<K::Element, 2> = c.t()?.arg(backend, false, lines(K::BOX))?;
    let bias = match bias {
        Some(bias) => bias.arg(backend, false, 0)?,
        None => GlobalAbi { map: TensorMap::NONE, shape: [0; 2], tma: 0, ..c },
    };
    let launch = Launch::grid([call.ctas, 1, 1]).pdl(call.overlap && tma);
    let args = K::arguments(call.weights, a, c, bias, call.order, call.activation, call.alpha);
    // SAFETY: the caller borrows the views and weights, c exclusively, and the workspace that the order names; the kernel
    // keeps to their shapes. Programmatic launch only moves what precedes its wait for the kernel in front.
    unsafe { kernel.launch(call.stream, &launch, &args) }
}
