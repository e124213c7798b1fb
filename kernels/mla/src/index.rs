//! Scores by which queries choose the keys that they attend to.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::{global, math};
use tilewright_device::kernel;
use tilewright_device::layout::Registers;
use tilewright_device::tile::{
    Accumulates, Cols, Cta, Element, Fragment, FragmentLayout, Fresh, Gemm, Global, InBlock, PageTable,
    Pending, RowMajor, Rows, Schedule, Shared, Swizzle, block_x, block_y, block_z, copy, gemm,
};

/// Numbers of 4 bytes, or the low ones of 8, in `RANK` dimensions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Numbers<const RANK: usize> {
    /// The address of the first; 0 where there are none.
    pub address: u64,
    /// Bytes from one to the next in each dimension.
    pub strides: [u64; RANK],
}

impl<const RANK: usize> Numbers<RANK> {
    /// None.
    pub const NONE: Self = Numbers { address: 0, strides: [0; RANK] };

    /// Where one of them lies.
    #[inline(always)]
    fn at(&self, index: [u32; RANK]) -> *const u32 {
        let (mut at, mut dim) = (self.address, 0);
        while dim < RANK {
            at += index[dim] as u64 * self.strides[dim];
            dim += 1;
        }
        at as *const u32
    }
    /// One of them, or `none` if there are none.
    #[inline(always)]
    fn get(&self, index: [u32; RANK], none: u32) -> u32 {
        // SAFETY: the host passes numbers for all that they are asked for.
        if self.address == 0 { none } else { unsafe { global::ld_global_u32(self.at(index)) } }
    }
}

/// What queries weight heads by, and which keys they see.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IndexQueries {
    /// f32 \[batch, queries, heads\], heads contiguous: those of a query's first head.
    pub weights: Numbers<2>,
    /// The first key that a query sees, and the first behind those that it sees, `i32` \[batch, queries\]; none where all are seen.
    pub begins: Numbers<2>,
    /// See [`begins`](Self::begins).
    pub ends: Numbers<2>,
    /// Queries of a sequence.
    pub queries: u32,
    /// Those of a CTA.
    pub chunk: u32,
    /// Heads of a query.
    pub heads: u32,
    /// The end of a multiple of 8 bytes.
    pub padding: u32,
}

/// Where the keys of sequences lie, and what they are multiplied by.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IndexKeys {
    /// Which pages are whose.
    pub pages: PageTable,
    /// f32 \[pages, rows of a page\]; none where they are 1.
    pub scales: Numbers<2>,
    /// Keys of a sequence.
    pub count: u32,
    /// How many pages there are.
    pub all: u32,
}

impl<const RANK: usize> PassedAsIs for Numbers<RANK> {}
impl PassedAsIs for IndexQueries {}
impl PassedAsIs for IndexKeys {}

impl IndexQueries {
    /// From which key to which one a query sees keys, as far as there are some.
    #[inline(always)]
    fn seen(&self, batch: u32, query: u32) -> [i32; 2] {
        let numbers = [self.begins.get([batch, query], 0), self.ends.get([batch, query], i32::MAX as u32)];
        numbers.map(u32::cast_signed)
    }
}

impl IndexKeys {
    /// What a key's scores are multiplied by.
    #[inline(always)]
    fn scale(&self, sequence: u32, key: u32) -> f32 {
        let (page, row) = if key < self.count { self.pages.place(sequence, key) } else { (u32::MAX, 0) };
        let inside = page < self.all;
        let one = 1f32.to_bits();
        f32::from_bits(if inside { self.scales.get([page, row], one) } else { one })
    }
}

/// The scores of a lightning indexer (DeepSeek-AI 2025, "DeepSeek-V3.2", section 2.1): of query t and key s the sum over heads j of w\[t, j\] relu(q\[t, j\] · k\[s\]),
/// times the key's scale; -inf where the query does not see the key.
///
/// Q \[batch, queries, heads, D\], K \[pages, 1, rows of a page, D\], scores f32 \[batch, queries, keys\]. Of 8 bits `D` is counted in pairs. CTA
/// (x, y, z) has tile x of `BM` keys of sequence z, which stay in shared memory, and chunk y of its queries, one after the other in tiles of `BN` heads.
#[kernel(program = P)]
pub fn index_scores<
    P: Schedule,
    Y,
    T: Element,
    const BM: usize,
    const BN: usize,
    const D: usize,
    const STAGES: usize,
>(
    mut cta: Cta<P>,
    q: Global<T, 4, RowMajor, BN>,
    k: Global<T, 4, RowMajor, BM>,
    scores: InBlock<Numbers<3>>,
    of: InBlock<IndexQueries>,
    keys: InBlock<IndexKeys>,
) where
    Y: Gemm<T, BM, BN, D, A = Swizzle<128>, B = Swizzle<128>, D = Y> + Accumulates<BM, BN>,
{
    let (k_stage, q_stages) = (cta.stages::<1>(), cta.stages::<STAGES>());
    let k_s = k_stage.alloc::<Shared<T, BM, D, _>>(&mut cta);
    let q_s = q_stages.alloc::<Shared<T, BN, D, _>>(&mut cta);
    let (mut k_pipe, mut q_pipe) = (cta.pipeline(k_stage), cta.pipeline(q_stages));
    let (j, batch) = (block_x(), block_z());
    let first = j * BM as u32;
    let begin = block_y() * of.get().chunk;
    let queries = begin..(begin + of.get().chunk).min(of.get().queries);
    let tiles = of.get().heads.div_ceil(BN as u32);
    // Whether some key of the tile is among those from one to another.
    let has =
        |[begin, end]: [i32; 2]| begin < (first + BM as u32) as i32 && end > first as i32 && begin < end;
    let sees = |query: u32| has(of.get().seen(batch, query));
    let steps =
        queries.clone().filter(|&query| sees(query)).flat_map(|query| query * tiles..(query + 1) * tiles);
    let mut ks = k_pipe.loads(
        0..1,
        #[inline(always)]
        |s, _| copy(k.paged(keys.get().pages, [batch, 0, j], keys.get().count), k_s.at(s)),
    );
    let mut qs = q_pipe.loads(
        steps,
        #[inline(always)]
        |s, step| {
            let tiles = tiles.max(1);
            copy(q.tile([batch, step / tiles, step % tiles, 0]), q_s.at(s))
        },
    );
    if !cta.computes() {
        return;
    }
    let tile = ks.acquire();
    let scales = Rows::<f32, BM, BN, Y>::indexed(|r| keys.get().scale(batch, first + r));
    for query in queries {
        let [begin, end] = of.get().seen(batch, query);
        let mut sums = Rows::<f32, BM, BN, Y>::splat(0.0);
        let (mut head, heads) = (0, if has([begin, end]) { of.get().heads } else { 0 });
        let weights_of = of.get().weights.at([batch, query]);
        while head < heads {
            // On their way while the gemm runs.
            let weight = |h: u32| {
                let at = weights_of.wrapping_add((head + h) as usize);
                // SAFETY: the query has a weight of this number.
                f32::from_bits(unsafe { global::ld_global_u32(at) })
            };
            let weights = if head + BN as u32 <= heads {
                Cols::<f32, BM, BN, Y>::indexed(weight)
            } else {
                Cols::indexed(|h| if head + h < heads { weight(h) } else { 0.0 })
            };
            let turn = qs.acquire();
            let s = gemm(
                Y::default(),
                k_s.at(tile.full()).aligned(),
                q_s.at(turn.full()).aligned().t(),
                Fresh::new(),
            )
            .wait();
            qs.release(turn);
            sums = sums.zip(&weighted(&s, &weights), |sum, x| sum + x);
            head += BN as u32;
        }
        let sums = sums.across_lanes(|a, b| a + b).zip(&scales, |x, scale| x * scale);
        let seen = Rows::<bool, BM, BN, Y>::indexed(|r| {
            let key = (first + r) as i32;
            begin <= key && key < end
        });
        let sums = sums.zip(&seen, |x, seen| if seen { x } else { f32::NEG_INFINITY });
        let (to, count) = (scores.get().at([batch, query, first]) as u64, keys.get().count - first);
        sums.for_each(|r, of_row, score| {
            let to = to + r as u64 * scores.get().strides[2];
            // SAFETY: the score of a query and a key, which this thread alone stores.
            unsafe { global::st_global_u32_if(to as *mut u32, score.to_bits(), of_row && r < count) }
        });
    }
    ks.release(tile);
}

/// What this thread has of the rows' sums of relu(s) w.
#[inline(always)]
fn weighted<const M: usize, const N: usize, L: FragmentLayout<M, N>>(
    s: &Fragment<f32, M, N, L>,
    weights: &Cols<f32, M, N, L>,
) -> Rows<f32, M, N, L> {
    let mut sums = Rows::<f32, M, N, L>::splat(0.0);
    let mut i = 0;
    while i < <L::Regs<f32> as Registers<f32>>::LEN {
        let (row, positive) = (L::row(i), math::max_nan(s.regs.get(i), 0.0));
        sums.regs.set(row, math::fma(positive, weights.regs.get(L::col(i)), sums.regs.get(row)));
        i += 1;
    }
    sums
}
