//! The compiled attention kernels, each read off its type, with the function that launches it.

use std::collections::HashMap;
use std::sync::LazyLock;

use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernels::attention::{
    AttentionKernel, DecodeKernel, DecodeVisitor, Keys, MergeKernel, Score, Sequences, TileOrder, Visitor,
    visit, visit_decode,
};
use tilewright_device::layout::Element as _;

use super::order::{Order, Work};
use super::parts;
use super::problem::{Problem, Size};
use crate::ops::KERNELS;
use crate::ops::frame::expect_mapped;
use crate::{Arch, Error, Instance, Launch, Result, Stream};

/// Lines of a TMA box of Q and O.
pub(super) const BOX: u32 = 64;

/// One compiled kernel.
#[derive(Debug)]
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
    /// Reads sequences one after the other, rather than each from a matrix of its own.
    pub(super) packed: bool,
    /// Launches it.
    pub(super) run: fn(&Problem, &Stream, &Run) -> Result<()>,
}

/// How a kernel shares out the work.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// Tiles of queries, each over all its keys: how many blocks of keys one sees.
    Queries(fn(&Keys, u32) -> u32),
    /// Parts of the keys, for tiles of all queries that share a head of them: flash-decoding.
    Parts,
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

static TABLE: LazyLock<HashMap<Kind, Vec<Compiled>>> = LazyLock::new(|| {
    let mut table = Table(HashMap::new());
    visit(&mut table);
    visit_decode(&mut table);
    table.0
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.get(&kind).map_or(&[], Vec::as_slice)
}

struct Table(HashMap<Kind, Vec<Compiled>>);

impl Visitor for Table {
    fn kernel<K: AttentionKernel + Instance + 'static>(&mut self) {
        let kind = (K::Element::NAME, K::Score::NAME);
        self.0.entry(kind).or_default().push(Compiled {
            name: K::NAME,
            arch: K::ARCH,
            tile: K::TILE,
            columns: K::COLUMNS,
            stages: K::STAGES,
            any_strides: K::ANY_STRIDES,
            shared_bytes: K::SHARED_BYTES,
            ctas: K::MIN_CTAS,
            way: Way::Queries(|keys, m| K::blocks(keys, m).all().len() as u32),
            packed: K::Sequences::PACKED,
            run: run::<K>,
        });
    }
}

impl DecodeVisitor for Table {
    fn kernel<K, M>(&mut self)
    where
        K: DecodeKernel + Instance + 'static,
        M: MergeKernel<Element = K::Element> + Instance + 'static,
    {
        let kind = (K::Element::NAME, K::Score::NAME);
        self.0.entry(kind).or_default().push(Compiled {
            name: K::NAME,
            arch: K::ARCH,
            tile: K::TILE,
            columns: K::COLUMNS,
            stages: K::STAGES,
            any_strides: K::ANY_STRIDES,
            shared_bytes: K::SHARED_BYTES,
            ctas: K::MIN_CTAS,
            way: Way::Parts,
            packed: false,
            run: parts::run::<K, M>,
        });
    }
}

fn run<K>(problem: &Problem, stream: &Stream, how: &Run) -> Result<()>
where
    K: AttentionKernel + Instance,
{
    let Problem { device, inputs, o, lse, size, keys, scales: [cap, scale], .. } = problem;
    let kernel = device.kernel::<K>(&KERNELS)?;
    let backend = device.backend();
    let tma = K::ARCH == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let [block_of_queries, block_of_keys] = K::TILE;
    let [q, k, v] = inputs;
    let inputs: [GlobalAbi<K::Element, 4>; 3] = [
        q.streamed(backend, lines(BOX))?,
        k.streamed(backend, lines(block_of_keys))?,
        v.streamed(backend, lines(block_of_keys))?,
    ];
    if size.keys > 0 {
        expect_mapped(K::NAME, K::ARCH, inputs.each_ref().map(|input| input.tma))?;
    }
    let o: GlobalAbi<K::Element, 4> = o.streamed(backend, lines(BOX))?;
    let lse: GlobalAbi<f32, 4> = lse.arg(backend, true, 0)?;

    let &Size { batch, heads, kv_heads, queries, .. } = size;
    let too_large = || {
        let allowed = format!("of fewer than 2^31 tiles of {block_of_queries} queries");
        Error::argument("q", format!("of shape {:?}", q.layout.shape()), allowed)
    };
    let count = |n: usize| u32::try_from(n).map_err(|_| too_large());
    let (batch, heads, shared_by) = (count(batch)?, count(heads)?, count(heads / kv_heads.max(1))?);
    let m = count(queries.div_ceil(block_of_queries as usize))?;
    let all_heads = batch.checked_mul(heads).ok_or_else(too_large)?;
    let ctas = kernel.resident_ctas().max(1);
    let work = Work { heads: all_heads, m, ctas, tile: K::TILE, keys: *keys };
    let Order { group, turns } = work.order(|m| K::blocks(keys, m).all().len() as u32);
    let sequences = K::Sequences::of(problem.sequences).ok_or_else(too_large)?;
    let order = TileOrder::new([batch, heads, shared_by, m], group, ctas, turns).ok_or_else(too_large)?;
    let launch = Launch::grid([ctas.min(order.total()).max(1), 1, 1]).pdl(how.overlap && tma);
    let args = K::arguments(inputs, o, lse, order, sequences, *cap, *scale);
    // SAFETY: the views that the tensors come from are borrowed by the caller, o and lse exclusively, and reach no further
    // than their shapes, which the kernel keeps to. Programmatic launch only moves what precedes its wait for the kernel in front.
    unsafe { kernel.launch(stream, &launch, &args) }
}
