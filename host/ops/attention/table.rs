//! The compiled attention kernels, each read off its type, with the function that launches it.

use std::collections::HashMap;
use std::sync::LazyLock;

use tilewright_device::abi::GlobalAbi;
use tilewright_device::kernels::attention::{AttentionKernel, Keys, Score, TileOrder, Visitor, visit};
use tilewright_device::layout::Element as _;

use super::order::group;
use super::problem::{Problem, Size};
use crate::ops::KERNELS;
use crate::{Arch, Error, Instance, Launch, Result, Stream};

/// Lines of a TMA box of Q and O.
const BOX: u32 = 64;

/// One compiled kernel.
#[derive(Debug)]
pub(super) struct Compiled {
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
    /// How many blocks of keys a tile of queries sees.
    pub(super) blocks: fn(&Keys, u32) -> u32,
    /// Launches it.
    pub(super) run: fn(&Problem, &Stream, overlap: bool) -> Result<()>,
}

/// What a kernel is chosen by first: names of the element type and of what is done to scores.
pub(super) type Kind = (&'static str, &'static str);

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
            blocks: |keys, m| K::blocks(keys, m).all().len() as u32,
            run: run::<K>,
        });
    }
}

fn run<K: AttentionKernel + Instance>(problem: &Problem, stream: &Stream, overlap: bool) -> Result<()> {
    let Problem { device, inputs, o, lse, size, keys, scales: [cap, scale], .. } = problem;
    let kernel = device.kernel::<K>(&KERNELS)?;
    let backend = device.backend();
    let tma = K::ARCH == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let [block_of_queries, block_of_keys] = K::TILE;
    let [q, k, v] = inputs;
    let inputs: [GlobalAbi<K::Element, 4>; 3] = [
        q.arg(backend, true, lines(BOX))?,
        k.arg(backend, true, lines(block_of_keys))?,
        v.arg(backend, true, lines(block_of_keys))?,
    ];
    if tma && size.keys > 0 && inputs.iter().any(|input| input.tma != 1) {
        let allowed = "one without TMA: the driver makes no tensor map of these views";
        return Err(Error::argument("kernel", K::NAME, allowed));
    }
    let o: GlobalAbi<K::Element, 4> = o.arg(backend, true, lines(BOX))?;
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
    let ctas = kernel.resident_ctas();
    let group = group(all_heads, m, ctas, |m| K::blocks(keys, m).all().len() as u32);
    let order = TileOrder::new(batch, heads, shared_by, m, group).ok_or_else(too_large)?;
    let launch = Launch::grid([ctas.min(order.total()).max(1), 1, 1]).pdl(overlap && tma);
    let args = K::arguments(inputs, o, lse, order, *keys, *cap, *scale);
    // SAFETY: the views that the tensors come from are borrowed by the caller, o and lse exclusively, and reach no further
    // than their shapes, which the kernel keeps to. Programmatic launch only moves what precedes its wait for the kernel in front.
    unsafe { kernel.launch(stream, &launch, &args) }
}
