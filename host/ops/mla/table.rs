//! The compiled kernels, each read off its type, with the functions that launch them.

use std::collections::HashMap;
use std::f32::consts::LOG2_E;
use std::sync::LazyLock;

use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernels::mla::{Causal, MlaKernel};
use tilewright_device::kernels::{combine, mla};
use tilewright_device::layout::Element as _;
use tilewright_device::tile::{ListAbi, PageTable, PartialsAbi, PooledAbi};

use super::problem::Problem;
use crate::ops::KERNELS;
use crate::ops::frame::expect_mapped;
use crate::{Arch, Device, Instance, Launch, Result, Stream};

/// Lines of a TMA box of Q and O, and of a tile.
pub(super) const ROWS: u32 = 64;

/// One compiled kernel.
#[derive(Debug)]
pub struct Compiled {
    pub(super) name: &'static str,
    pub(super) arch: Arch,
    /// Of queries and keys, and of values and output.
    pub(super) columns: [u32; 2],
    /// Rows of the cache that one copy reads.
    pub(super) box_rows: u32,
    /// CTAs that divide the output's columns among themselves.
    pub(super) parts: u32,
    pub(super) shared_bytes: u32,
    /// CTAs that a device holds at a time.
    pub(super) resident: fn(&Device) -> Result<u32>,
    /// Launches it.
    pub(super) run: fn(&Problem, &Stream, &Run) -> Result<()>,
    /// Launches what puts the results of parts together.
    pub(super) combine: Combine,
}

/// Launches the combining kernel.
pub(super) type Combine = fn(&Problem, &Stream, &Run) -> Result<()>;

/// How kernels are to be launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Tiles of rows, and the groups of as many CTAs.
    pub(super) grid: [u32; 2],
    pub(super) pages: PageTable,
    pub(super) items: ListAbi,
    /// The sequences that are put together, of which there are `cut`.
    pub(super) combined: ListAbi,
    pub(super) cut: u32,
    pub(super) partials: PartialsAbi,
    pub(super) overlap: bool,
}

/// What a kernel is chosen by first: the name of the element type, and the columns of keys and of values.
pub(super) type Kind = (&'static str, [u32; 2]);

static TABLE: LazyLock<HashMap<Kind, Vec<Compiled>>> = LazyLock::new(|| {
    let mut combines = Combines(HashMap::new());
    combine::visit(&mut combines);
    let mut table = Table { combines: combines.0, kernels: HashMap::new() };
    mla::visit(&mut table);
    table.kernels
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.get(&kind).map_or(&[], Vec::as_slice)
}

/// By architecture, element type and columns of the output.
struct Combines(HashMap<(&'static str, &'static str, u32), Combine>);

impl combine::Visitor for Combines {
    fn kernel<K: combine::CombineKernel + Instance + 'static>(&mut self) {
        let [_, columns] = K::TILE;
        self.0.insert((K::ARCH.target(), K::Element::NAME, columns), run_combine::<K>);
    }
}

struct Table {
    combines: HashMap<(&'static str, &'static str, u32), Combine>,
    kernels: HashMap<Kind, Vec<Compiled>>,
}

impl mla::Visitor for Table {
    fn kernel<K: MlaKernel + Instance + 'static>(&mut self) {
        let [_, columns] = K::COLUMNS;
        let of = (K::ARCH.target(), K::Element::NAME, columns);
        let Some(&combine) = self.combines.get(&of) else { return };
        self.kernels.entry((K::Element::NAME, K::COLUMNS)).or_default().push(Compiled {
            name: K::NAME,
            arch: K::ARCH,
            columns: K::COLUMNS,
            box_rows: K::BOX[0],
            parts: K::PARTS,
            shared_bytes: K::SHARED_BYTES,
            resident: |device| Ok(device.kernel::<K>(&KERNELS)?.resident_ctas()),
            run: run::<K>,
            combine,
        });
    }
}

fn run<K: MlaKernel + Instance>(problem: &Problem, stream: &Stream, how: &Run) -> Result<()> {
    let Problem { device, q, o, lse, cache, heads, positions, scale, .. } = problem;
    let (backend, kernel) = (device.backend(), device.kernel::<K>(&KERNELS)?);
    let tma = K::ARCH == Arch::Sm90a;
    let lines = if tma { ROWS } else { 0 };
    let [rows, columns] = if tma { K::BOX } else { [0; 2] };
    let q: GlobalAbi<K::Element, 3> = q.arg(backend, true, lines)?;
    let pool: GlobalAbi<K::Element, 4> = cache.pool.streamed_boxes(backend, [rows, columns / 64])?;
    expect_mapped(K::NAME, K::ARCH, [q.tma, pool.tma])?;
    let kv = PooledAbi { pool, pages: how.pages };
    let (o, lse) = (o.arg(backend, true, lines)?, lse.arg(backend, true, 0)?);
    let causal = Causal::new(*heads, *positions);
    let args = K::arguments(q, kv, o, lse, how.partials, how.items, causal, scale * LOG2_E);
    let [tiles, groups] = how.grid;
    let launch = Launch::grid([tiles, groups, K::PARTS]).pdl(how.overlap && tma);
    // SAFETY: the views that the tensors come from are borrowed by the caller, those that are written exclusively, and reach no
    // further than their shapes, which the kernel keeps to; the lists are the plan's for this grid, and the partial results have
    // room for its tiles. Programmatic launch only moves what precedes its wait for the kernel in front.
    unsafe { kernel.launch(stream, &launch, &args) }
}

fn run_combine<K: combine::CombineKernel + Instance>(
    problem: &Problem,
    stream: &Stream,
    how: &Run,
) -> Result<()> {
    let Problem { device, o, lse, rows, .. } = problem;
    let (backend, kernel) = (device.backend(), device.kernel::<K>(&KERNELS)?);
    let (o, lse) = (o.arg(backend, true, 0)?, lse.arg(backend, true, 0)?);
    let args = K::arguments(how.partials, o, lse, how.combined);
    let launch =
        Launch::grid([rows.div_ceil(K::ROWS), how.cut, 1]).pdl(how.overlap && K::ARCH == Arch::Sm90a);
    // SAFETY: as above; the kernel in front wrote the partial results, and this one waits for it.
    unsafe { kernel.launch(stream, &launch, &args) }
}
