//! The compiled GEMM kernels, each read off its type, with the function that launches it.

use std::collections::HashMap;
use std::sync::LazyLock;

use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernels::gemm::{GemmKernel, Visitor, visit};
use tilewright_device::layout::Element as _;
use tilewright_device::tile::{Activation, RasterOrder};

use super::problem::Matrices;
use crate::ops::KERNELS;
use crate::ops::frame::expect_mapped;
use crate::{Arch, Instance, Launch, Result, Stream};

/// Lines of a TMA box of A and C.
const BOX: u32 = 64;

/// One compiled kernel.
#[derive(Debug)]
pub struct Compiled {
    pub(super) name: &'static str,
    pub(super) arch: Arch,
    /// Rows, columns and depth of a tile.
    pub(super) tile: [u32; 3],
    pub(super) stages: u32,
    /// CTAs that divide a tile's depth.
    pub(super) split: u32,
    /// Which of A, B and C are row-major.
    pub(super) row_major: [bool; 3],
    /// Reads any strides, element by element.
    pub(super) any_strides: bool,
    pub(super) shared_bytes: u32,
    /// Launches it.
    pub(super) run: fn(&Matrices, &Call<'_>) -> Result<()>,
}

/// What a launch needs beside the matrices.
pub(super) struct Call<'a> {
    pub(super) stream: &'a Stream,
    pub(super) order: RasterOrder,
    /// alpha and beta.
    pub(super) scale: [f32; 2],
    /// L2 policies of A and B.
    pub(super) policies: [u64; 2],
    /// May start while the kernel in front of it still runs.
    pub(super) overlap: bool,
}

/// What a kernel is chosen by first: names of the input type, the output type and the activation.
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

struct Table(HashMap<Kind, Vec<Compiled>>);

impl Visitor for Table {
    fn kernel<K: GemmKernel + Instance + 'static>(&mut self) {
        let kind = (K::Input::NAME, K::Output::NAME, K::Activation::NAME);
        self.0.entry(kind).or_default().push(Compiled {
            name: K::NAME,
            arch: K::ARCH,
            tile: K::TILE,
            stages: K::STAGES,
            split: K::SPLIT,
            row_major: K::ROW_MAJOR,
            any_strides: K::ANY_STRIDES,
            shared_bytes: K::SHARED_BYTES,
            run: run::<K>,
        });
    }
}

fn run<K: GemmKernel + Instance>(matrices: &Matrices, call: &Call<'_>) -> Result<()> {
    let Matrices { device, a, b, c, bias, .. } = matrices;
    let kernel = device.kernel::<K>(&KERNELS)?;
    let backend = device.backend();
    let tma = K::ARCH == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let mut a: GlobalAbi<K::Input, 3> = a.arg(backend, K::ROW_MAJOR[0], lines(BOX))?;
    let mut b: GlobalAbi<K::Input, 3> = b.arg(backend, K::ROW_MAJOR[1], lines(K::BOX_B))?;
    [a.policy, b.policy] = call.policies;
    expect_mapped(K::NAME, K::ARCH, [a.tma, b.tma])?;
    let c: GlobalAbi<K::Output, 3> = c.arg(backend, K::ROW_MAJOR[2], lines(BOX))?;
    let bias = match bias {
        Some(bias) => bias.arg(backend, K::ROW_MAJOR[2], 0)?,
        None => GlobalAbi { map: TensorMap::NONE, shape: [0; 3], tma: 0, ..c },
    };
    let clusters = call.order.total().min(kernel.resident_ctas() / K::SPLIT).max(1);
    let launch = Launch::grid([clusters * K::SPLIT, 1, 1]).pdl(call.overlap && tma);
    let args = K::arguments(a, b, c, bias, call.order, call.scale);
    // SAFETY: the views that the matrices come from are borrowed by the caller, c exclusively, and reach no further than
    // their shapes, which the kernel keeps to. Programmatic launch only moves what precedes its wait for the kernel in front.
    unsafe { kernel.launch(call.stream, &launch, &args) }
}
