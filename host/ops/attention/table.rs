//! The compiled attention kernels, and their launch.

use std::sync::LazyLock;

use tilewright_attention::{
    ATTENTION, AttentionArgs, AttentionKernel, DECODE, DecodeKernel, Equal, KERNELS, Keys, Packed, Sequences,
    TileOrder,
};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;

use super::order::{Order, Work};
use super::parts;
use super::problem::{Problem, Size};
use crate::ops::frame::{Table, expect_mapped, of_shape};
use crate::{AnyFunction, Arch, Error, Launch, Result, Stream};

/// Lines of a TMA box of Q and O.
pub(super) const BOX: u32 = 64;

/// One compiled kernel.
#[derive(Clone, Copy, Debug)]
pub struct Compiled {
    pub(super) name: &'static str,
    pub(super) arch: Arch,
    /// Queries of a tile, keys of a block.
    pub(super) tile: [u32; 2],
    /// The most columns of Q and K, and of V and O in one launch.
    pub(super) columns: [u32; 2],
    pub(super) stages: u32,
    /// Reads any strides, element by element.
    pub(super) any_strides: bool,
    pub(super) shared_bytes: u32,
    /// CTAs that share an SM.
    pub(super) ctas: u32,
    pub(super) way: Way,
}

/// How a kernel shares out the work.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// Tiles of queries, each over all its keys.
    Queries(&'static Listed<AttentionKernel>),
    /// Parts of the keys, for tiles of all queries that share a head of them: flash-decoding.
    Parts(&'static Listed<DecodeKernel>),
}

impl Compiled {
    fn queries(kernel: &'static Listed<AttentionKernel>) -> Self {
        let &Listed { name, arch, min_ctas: ctas, .. } = kernel;
        let AttentionKernel { tile, columns, stages, any_strides, .. } = kernel.description;
        Compiled {
            name,
            arch,
            tile,
            columns,
            stages,
            any_strides,
            shared_bytes: KERNELS.shared_bytes(kernel),
            ctas,
            way: Way::Queries(kernel),
        }
    }

    fn parts(kernel: &'static Listed<DecodeKernel>) -> Self {
        let &Listed { name, arch, min_ctas: ctas, .. } = kernel;
        let DecodeKernel { tile, columns, stages, any_strides, .. } = kernel.description;
        Compiled {
            name,
            arch,
            tile,
            columns,
            stages,
            any_strides,
            shared_bytes: KERNELS.shared_bytes(kernel),
            ctas,
            way: Way::Parts(kernel),
        }
    }

    /// Reads sequences one after the other, rather than each from a matrix of its own.
    pub(super) fn packed(&self) -> bool {
        matches!(self.way, Way::Queries(kernel) if kernel.packed)
    }

    /// Launches it.
    pub(super) fn run(&self, problem: &Problem, stream: &Stream, how: &Run) -> Result<()> {
        match self.way {
            Way::Queries(kernel) => run(kernel, problem, stream, how),
            Way::Parts(kernel) => parts::run(kernel, problem, stream, how),
        }
    }
}

/// How a kernel is to be launched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) overlap: bool,
    /// Parts of the keys.
    pub(super) splits: u32,
    /// Address of the memory for the parts' results, if there are several.
    pub(super) workspace: u64,
}

/// What a kernel is chosen by first: names of the element type and of what is done to scores.
pub(super) type Kind = (&'static str, &'static str);

static TABLE: LazyLock<Table<Kind, Compiled>> = LazyLock::new(|| {
    let queries = ATTENTION.iter().map(|k| ((k.element, k.score), Compiled::queries(k)));
    let parts = DECODE.iter().map(|k| ((k.element, k.score), Compiled::parts(k)));
    Table::new(queries.chain(parts))
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.kernels(&kind)
}

fn run(
    kernel: &'static Listed<AttentionKernel>,
    problem: &Problem,
    stream: &Stream,
    how: &Run,
) -> Result<()> {
    let function = problem.device.listed(&KERNELS, kernel)?;
    let launch = Launcher { kernel, function, stream, how };
    match kernel.packed {
        false => launch.run::<Equal>(problem),
        true => launch.run::<Packed>(problem),
    }
}

/// A kernel that is about to be launched.
struct Launcher<'a> {
    kernel: &'static Listed<AttentionKernel>,
    function: AnyFunction,
    stream: &'a Stream,
    how: &'a Run,
}

impl Launcher<'_> {
    fn run<S: Sequences>(&self, problem: &Problem) -> Result<()> {
        let Problem { device, inputs, o, lse, size, keys, scales: [cap, scale], .. } = problem;
        let Launcher { kernel, function, stream, how } = self;
        let backend = device.backend();
        let tma = kernel.arch == Arch::Sm90a;
        let lines = |count| if tma { count } else { 0 };
        let [block_of_queries, block_of_keys] = kernel.tile;
        let [q, k, v] = inputs;
        let inputs: [GlobalAbi<(), 4>; 3] = [
            q.streamed(backend, lines(BOX))?,
            k.streamed(backend, lines(block_of_keys))?,
            v.streamed(backend, lines(block_of_keys))?,
        ];
        if size.keys > 0 {
            expect_mapped(kernel.name, kernel.arch, inputs.each_ref().map(|input| input.tma))?;
        }
        let [q, k, v] = inputs;
        let o: GlobalAbi<(), 4> = o.streamed(backend, lines(BOX))?;
        let lse: GlobalAbi<(), 4> = lse.arg(backend, true, 0)?;

        let &Size { batch, heads, kv_heads, queries, .. } = size;
        let too_large = || {
            let allowed = format!("of fewer than 2^31 tiles of {block_of_queries} queries");
            Error::argument("q", of_shape(problem.inputs[0].layout.shape()), allowed)
        };
        let count = |n: usize| u32::try_from(n).map_err(|_| too_large());
        let (batch, heads, shared_by) = (count(batch)?, count(heads)?, count(heads / kv_heads.max(1))?);
        let m = count(queries.div_ceil(block_of_queries as usize))?;
        let all_heads = batch.checked_mul(heads).ok_or_else(too_large)?;
        let ctas = function.resident_ctas().max(1);
        let work = Work { heads: all_heads, m, ctas, tile: kernel.tile, keys: *keys };
        let Order { group, turns } = work.order(|m| blocks(kernel, keys, m));
        let sequences = S::of(problem.sequences).ok_or_else(too_large)?;
        let order = TileOrder::new([batch, heads, shared_by, m], group, ctas, turns).ok_or_else(too_large)?;
        let launch = Launch::grid([ctas.min(order.total()).max(1), 1, 1]).pdl(how.overlap && tma);
        let args = AttentionArgs { q, k, v, o, lse, order, sequences, cap: *cap, scale: *scale };
        // SAFETY: the arguments are those of `attention` for this kind of sequences. The views that the tensors come from are
        // borrowed by the caller, o and lse exclusively, and reach no further than their shapes, which the kernel keeps to.
        // Programmatic launch only moves what precedes its wait for the preceding grid.
        unsafe { function.launch(stream, &launch, &args) }
    }
}

/// How many blocks of keys a tile of queries sees.
pub(super) fn blocks(kernel: &AttentionKernel, keys: &Keys, m: u32) -> u32 {
    (kernel.blocks)(keys, m).all().len() as u32
}
