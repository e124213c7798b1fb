//! The compiled attention kernels, and their launch.

use std::sync::LazyLock;

use tilewright_attention::{
    ATTENTION, AnySequences, AttentionArgs, AttentionKernel, CachedKeys, Capped, DECODE, DecodeKernel, Equal,
    KERNELS, Keys, Plain, Score, SequenceList, Sequences, TileOrder,
};
use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernel::Listed;

use super::order::tiles;
use super::parts::Parts;
use super::problem::Problem;
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
    /// CTAs that divide the columns of V and O among themselves.
    pub(super) chunks: u32,
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
            chunks: 1,
            stages,
            any_strides,
            shared_bytes: KERNELS.shared_bytes(kernel),
            ctas,
            way: Way::Queries(kernel),
        }
    }

    fn parts(kernel: &'static Listed<DecodeKernel>) -> Self {
        let &Listed { name, arch, min_ctas: ctas, .. } = kernel;
        let DecodeKernel { tile, columns, chunks, stages, any_strides, .. } = kernel.description;
        Compiled {
            name,
            arch,
            tile,
            columns,
            chunks,
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

    /// Reads lists of blocks of keys.
    pub(super) fn listed(&self) -> bool {
        matches!(self.way, Way::Queries(kernel) if kernel.listed)
    }

    /// Reads the blocks of keys that each query's list selects.
    pub(super) fn selected(&self) -> bool {
        matches!(self.way, Way::Parts(kernel) if kernel.selected)
    }

    /// Loads it, and orders its work.
    pub(super) fn prepare(&self, problem: &Problem, splits: u32) -> Result<Prepared> {
        match self.way {
            Way::Queries(kernel) => Ok(Prepared::Queries(Queries::new(kernel, problem)?)),
            Way::Parts(kernel) => Ok(Prepared::Parts(Parts::new(kernel, problem, splits)?)),
        }
    }
}

/// A kernel that is ready to be launched.
#[derive(Clone, Debug)]
pub(super) enum Prepared {
    Queries(Queries),
    Parts(Parts),
}

impl Prepared {
    /// Launches it; `workspace` is the address of the memory for the parts' results, if there are several, and `list` packed sequences' queue.
    pub(super) fn run(
        &self,
        problem: &Problem,
        stream: &Stream,
        overlap: bool,
        (workspace, list): (u64, SequenceList),
    ) -> Result<()> {
        match self {
            Prepared::Queries(queries) => queries.run(problem, stream, overlap, list),
            Prepared::Parts(parts) => parts.run(problem, stream, overlap, workspace),
        }
    }
}

/// What a kernel is chosen by first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    /// The name of the element type of Q.
    pub(super) element: &'static str,
    /// Whether K and V are codes of 8 bits.
    pub(super) codes: bool,
    /// The name of what is done to scores.
    pub(super) score: &'static str,
}

static TABLE: LazyLock<Table<Kind, Compiled>> = LazyLock::new(|| {
    let kind = |element, codes, score| Kind { element, codes, score };
    let queries = ATTENTION.iter().map(|k| (kind(k.element, false, k.score), Compiled::queries(k)));
    let parts = DECODE.iter().map(|k| (kind(k.element, k.codes, k.score), Compiled::parts(k)));
    // Before Hopper those that change scores compute plain ones too: most forms are made once.
    let both = queries.chain(parts).flat_map(|(kind, kernel)| {
        let too = kernel.arch == Arch::Sm80 && kind.score == Capped::NAME && !kind.codes;
        let plain = Kind { score: Plain::NAME, ..kind };
        std::iter::once((kind, kernel)).chain(too.then_some((plain, kernel)))
    });
    Table::new(both)
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.kernels(&kind)
}

/// A kernel of tiles of queries, and the order of those.
#[derive(Clone, Debug)]
pub(super) struct Queries {
    pub(super) kernel: &'static Listed<AttentionKernel>,
    function: AnyFunction,
    pub(super) order: TileOrder,
    pub(super) ctas: u32,
}

impl Queries {
    fn new(kernel: &'static Listed<AttentionKernel>, problem: &Problem) -> Result<Self> {
        let Problem { device, size, keys, .. } = problem;
        let function = device.listed(&KERNELS, kernel)?;
        let ctas = function.resident_ctas().max(1);
        let order = tiles(size, kernel.tile, keys, ctas, |m| blocks(kernel, keys, m));
        let order = order.ok_or_else(|| too_many_tiles(problem.inputs[0].layout.shape(), kernel.tile[0]))?;
        Ok(Queries { kernel, function, order, ctas: ctas.min(order.total()).max(1) })
    }

    fn run(&self, problem: &Problem, stream: &Stream, overlap: bool, list: SequenceList) -> Result<()> {
        match problem.sequences {
            AnySequences::Equal(keys) => self.launch(problem, stream, overlap, (Equal(keys), list)),
            AnySequences::Packed(packed) => self.launch(problem, stream, overlap, (packed, list)),
            AnySequences::Listed(listed) => self.launch(problem, stream, overlap, (listed, list)),
        }
    }

    fn launch<S: Sequences>(
        &self,
        problem: &Problem,
        stream: &Stream,
        overlap: bool,
        (sequences, list): (S, SequenceList),
    ) -> Result<()> {
        let &Problem {
            ref device,
            inputs: [ref q, ref k, ref v],
            ref o,
            ref lse,
            size,
            scales: [cap, scale],
            terms,
            ..
        } = problem;
        let Queries { kernel, function, order, ctas } = self;
        let backend = device.backend();
        let tma = kernel.arch == Arch::Sm90a;
        let lines = |count| if tma { count } else { 0 };
        let of_keys = lines(problem.cache.pages.box_rows(kernel.tile[1]));
        let inputs: [GlobalAbi<(), 4>; 3] =
            [q.streamed(backend, lines(BOX))?, k.streamed(backend, of_keys)?, v.streamed(backend, of_keys)?];
        if size.keys > 0 {
            expect_mapped(kernel.name, kernel.arch, inputs.each_ref().map(|input| input.tma))?;
        }
        let [q, k, v] = inputs;
        let o: GlobalAbi<(), 4> = o.streamed(backend, lines(BOX))?;
        let lse: GlobalAbi<(), 4> = lse.arg(backend, true, 0)?;
        let launch = Launch::grid([*ctas, 1, 1]).pdl(overlap && tma);
        let order = *order;
        let bias = problem.bias_argument()?;
        let cache = problem.packed_cache().unwrap_or(CachedKeys::NONE);
        let args = AttentionArgs { q, k, v, o, lse, order, sequences, cap, scale, list, terms, cache, bias };
        // SAFETY: the arguments are those of `attention` for this kind of sequences. The views that the tensors come from are
        // borrowed by the caller, o and lse exclusively, and reach no further than their shapes, which the kernel keeps to; a list of packed sequences was made before, with a counter that is this grid's alone.
        // Programmatic launch only moves what precedes its wait for the preceding grid.
        unsafe { function.launch_block(stream, &launch, &args) }
    }
}

/// What is said of queries, of a shape, that make too many tiles.
pub(super) fn too_many_tiles(shape: &[usize], queries: u32) -> Error {
    Error::argument("q", of_shape(shape), format!("of fewer than 2^31 tiles of {queries} queries"))
}

/// How many blocks of keys a tile of queries sees.
pub(super) fn blocks(kernel: &AttentionKernel, keys: &Keys, m: u32) -> u32 {
    (kernel.blocks)(keys, m).all().len() as u32
}
