//! Narrow weights with scales: from global memory to a stage, from there to a left operand in registers.

use core::marker::PhantomData;

use crate::abi::KernelArg;
use crate::arch::half::twice_f16x2;
use crate::arch::shared;
use crate::arch::special::{same_number, thread_x};
use crate::layout::packed::{DEPTH, LANES, ROWS};
use crate::layout::{FragmentLayout, Registers};
use crate::tile::fragment::Operand;
use crate::tile::fragment::held::{Held, Packed};
use crate::tile::memory::copy_to::CopyTo;
use crate::tile::memory::division::Division;
use crate::tile::memory::loader::Loader;
use crate::tile::memory::part::Part;
use crate::tile::memory::shared::{Dst, SharedTile, Src};
use crate::tile::quantized::format::{Decode, Format, Half};
use crate::tile::quantized::zeros::Zeros;

/// Depth that always has one scale: groups are multiples of it.
const HALF: u32 = 32;
/// Depth that is decoded at a time.
pub(in crate::tile) const PART: usize = DEPTH as usize;

/// Weights W \[N, K\] as the host passes them.
///
/// Codes in blocks of 64 x 64, \[N / 64\]\[K / 64\] ([`packed`](crate::layout::packed)); scales and zeros \[groups\]\[N\] in the
/// type of the activations, N padded to a multiple of 64. All addresses are multiples of 16.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WeightsAbi {
    /// Address of the blocks.
    pub blocks: u64,
    /// Address of the scales.
    pub scales: u64,
    /// Address of the zeros, where there are any.
    pub zeros: u64,
    /// Blocks along N.
    pub rows: u32,
    /// Blocks along K.
    pub depth: u32,
    /// Groups along K.
    pub groups: u32,
    /// Division of depth, counted in 32, by a group's.
    group: Division,
    /// 1 if a block has the scales of two groups, else 0.
    halves: u32,
    /// 1 if blocks have the scales of one group and all scales are of less magnitude than [`PLAIN_SCALES`], else 0.
    plain: u32,
}

/// Scales of less magnitude are decoded by fewer instructions: for f16, 1024 times such a scale is a number.
pub const PLAIN_SCALES: f32 = 64.0;

impl WeightsAbi {
    /// Weights \[n, k\] with groups of `group` along K: a multiple of 32, or not less than `k`; `low` if all scales are less
    /// than [`PLAIN_SCALES`].
    pub const fn new([blocks, scales, zeros]: [u64; 3], [n, k]: [u32; 2], group: u32, low: bool) -> Self {
        let (rows, depth, groups) = (n.div_ceil(ROWS), k.div_ceil(DEPTH), k.div_ceil(group));
        let halves = if group.is_multiple_of(DEPTH) || groups == 1 { 0 } else { 1 };
        WeightsAbi {
            blocks,
            scales,
            zeros,
            rows,
            depth,
            groups,
            group: Division::by(group.div_ceil(HALF)),
            halves,
            plain: if low && halves == 0 { 1 } else { 0 },
        }
    }
}

/// Narrow weights W \[N, K\] of format `F` with scales of type `T` and zeros as `Z` says.
pub struct Weights<F, Z, T> {
    abi: WeightsAbi,
    kind: PhantomData<(F, Z, T)>,
}

impl<F, Z, T> Clone for Weights<F, Z, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F, Z, T> Copy for Weights<F, Z, T> {}

impl<F, Z, T> KernelArg for Weights<F, Z, T> {
    type Abi = WeightsAbi;
    #[inline(always)]
    unsafe fn load(at: *const WeightsAbi) -> Self {
        // SAFETY: the caller passes an initialised parameter.
        Weights { abi: unsafe { *at }, kind: PhantomData }
    }
}

/// A tile of narrow weights, to be copied from.
pub struct WeightsTile<F, Z, T> {
    of: Weights<F, Z, T>,
    index: [u32; 2],
    /// The blocks along N from which tiles are counted, and behind which there are none.
    rows: [u32; 2],
}

impl<F, Z, T> WeightsTile<F, Z, T> {
    /// The same tile of the matrix of `blocks` blocks along N, of 64 rows each, that begins at block `first` of these weights; blocks that they
    /// have not are not read.
    #[inline(always)]
    pub fn of_blocks(self, first: u32, blocks: u32) -> Self {
        let all = self.of.abi.rows;
        WeightsTile { rows: [first.min(all), (first + blocks).min(all).max(1)], ..self }
    }
}

/// The type of a stage's tile of `M` x `K` narrow weights with their scales and zeros.
pub struct Quantized<F, Z, T, const M: usize, const K: usize>(PhantomData<(F, Z, T)>);

impl<F: Format, Z: Zeros, T: Half, const M: usize, const K: usize> Quantized<F, Z, T, M, K> {
    const BLOCK: u32 = F::PACKED.block_bytes();
    /// Blocks along N and along K.
    pub(in crate::tile) const BLOCKS: [u32; 2] = {
        assert!(
            (M as u32).is_multiple_of(ROWS) && (K as u32).is_multiple_of(DEPTH),
            "tiles of narrow weights are of whole blocks"
        );
        [M as u32 / ROWS, K as u32 / DEPTH]
    };
    /// Where the scales of the `half`-th 32 of depth lie; zeros follow all scales.
    pub(in crate::tile) const fn scales(half: u32) -> u32 {
        Self::BLOCKS[0] * Self::BLOCKS[1] * Self::BLOCK + half * Self::LINE
    }
    /// Bytes of the scales of all rows.
    const LINE: u32 = (M * T::BYTES) as u32;
    pub(in crate::tile) const ZEROS: u32 = Self::scales(2 * Self::BLOCKS[1]);
    /// Bytes of a tile.
    pub const BYTES: u32 =
        (Self::ZEROS + if Z::STORED { Self::ZEROS - Self::scales(0) } else { 0 }).next_multiple_of(128);
}

impl<F: Format, Z: Zeros, T: Half, const M: usize, const K: usize> SharedTile for Quantized<F, Z, T, M, K> {
    #[inline(always)]
    fn bytes() -> u32 {
        Self::BYTES
    }
}

impl<F: Format, Z: Zeros, T: Half> Weights<F, Z, T> {
    /// Where they lie, and how many: as the host passed it.
    #[inline(always)]
    pub fn argument(&self) -> WeightsAbi {
        self.abi
    }

    /// Elements along K, padded.
    #[inline(always)]
    pub fn depth(&self) -> u32 {
        self.abi.depth * DEPTH
    }

    /// `f` of whether the weights are plain, in a copy of its own if they are and there are `copies`: blocks have the scales of one
    /// group, all less than [`PLAIN_SCALES`], and [`dequantize`](Self::dequantize) takes fewer instructions.
    #[inline(always)]
    pub fn if_plain<R>(&self, copies: bool, mut f: impl FnMut(bool) -> R) -> R {
        if copies && self.abi.plain != 0 { f(true) } else { f(false) }
    }

    /// The tile at `index`, counted in tiles along N and K. Rows behind the last block are that block's again.
    #[inline(always)]
    pub fn tile(self, index: [u32; 2]) -> WeightsTile<F, Z, T> {
        WeightsTile { rows: [0, self.abi.rows], of: self, index }
    }

    /// That part, of 64 each, of a full tile's depth as the left operand of a gemm: each thread decodes its own registers.
    ///
    /// They are [plain](Self::if_plain), if that is said.
    #[inline(always)]
    pub fn dequantize<const M: usize, const K: usize, L: FragmentLayout<M, PART>>(
        &self,
        from: Src<'_, Quantized<F, Z, T, M, K>>,
        part: Part,
        plain: bool,
    ) -> Operand<T, M, PART, L>
    where
        F: Decode<T>,
    {
        part.expect((K / PART) as u32);
        let mut packed = Packed::<L::Regs<[u32; 4]>>::none();
        let lane = thread_x() % 32;
        let mut unit = 0;
        while unit < L::Regs::<T>::LEN / (PART / 2) {
            // 16 rows are the part of a warp.
            let rows = L::coord(thread_x(), 0).0 / 16 + L::offset(unit * (PART / 2)).0 / 16;
            // SAFETY: the tile is full.
            let registers = unsafe { self.block::<M, K>(from.address, rows, (part.index(), plain), lane) };
            let mut step = 0;
            while step < 4 {
                packed.0.set(unit * 4 + step, registers[step]);
                step += 1;
            }
            unit += 1;
        }
        Operand::new(packed)
    }

    /// The registers of the four steps of the 16 rows `part` of the tile in its `block`-th 64 of depth.
    ///
    /// # Safety
    /// A full tile lies at `tile`.
    #[inline(always)]
    unsafe fn block<const M: usize, const K: usize>(
        &self,
        tile: u32,
        part: u32,
        (block, plain): (u32, bool),
        lane: u32,
    ) -> [[u32; 4]; 4]
    where
        F: Decode<T>,
    {
        let blocks = Quantized::<F, Z, T, M, K>::BLOCKS[1];
        let line = Quantized::<F, Z, T, M, K>::LINE;
        let codes = tile + (part / 4 * blocks + block) * F::PACKED.block_bytes();
        let scales = tile + Quantized::<F, Z, T, M, K>::scales(2 * block) + (part * 16 + lane / 4) * 2;
        let zeros = Quantized::<F, Z, T, M, K>::ZEROS - Quantized::<F, Z, T, M, K>::scales(0);
        // SAFETY: the caller's; all of it lies inside the tile.
        unsafe {
            let words = words::<F>(codes, part % 4 * 32 + lane);
            let mut scale = [twice(scales), twice(scales + 16)];
            let mut zero =
                if Z::STORED { [twice(scales + zeros), twice(scales + zeros + 16)] } else { [0; 2] };
            let mut registers = [[0; 4]; 4];
            let mut step = 0;
            while step < 4 {
                if step == 2 && !plain && self.abi.halves != 0 {
                    let scales = scales + line;
                    scale = [twice(scales), twice(scales + 16)];
                    if Z::STORED {
                        zero = [twice(scales + zeros), twice(scales + zeros + 16)];
                    }
                }
                let mut r = 0;
                while r < 4 {
                    let register = (4 * step + r) as u32;
                    registers[step][r] = if plain && !Z::STORED {
                        F::scaled(&words, register, scale[r % 2])
                    } else {
                        Z::apply::<T>(F::register(&words, register), scale[r % 2], zero[r % 2])
                    };
                    r += 1;
                }
                step += 1;
            }
            registers
        }
    }
}

/// The element at this address, in both halves of a register.
///
/// # Safety
/// It is readable.
#[inline(always)]
pub(in crate::tile) unsafe fn twice(at: u32) -> u32 {
    // SAFETY: the caller's.
    twice_f16x2(unsafe { shared::load_u16(at) })
}

/// A lane's words of the block of codes at this address.
///
/// # Safety
/// It is readable.
#[inline(always)]
pub(in crate::tile) unsafe fn words<F: Format>(block: u32, lane: u32) -> [u32; 8] {
    let mut words = [0; 8];
    let access = F::PACKED.access_bytes();
    let mut first = 0;
    while first < F::PACKED.lane_bytes() {
        let at = block + (first / access * LANES + lane) * access;
        // SAFETY: the caller's.
        unsafe {
            match access {
                4 => words[0] = shared::load_u32(at),
                8 => [words[0], words[1]] = shared::load_u32x2(at),
                _ => {
                    let four = shared::load_u32x4(at);
                    let mut i = 0;
                    while i < 4 {
                        words[first as usize / 4 + i] = four[i];
                        i += 1;
                    }
                }
            }
        }
        first += access;
    }
    words
}

/// `f` of those of `count` things that are the turns of one of several who share them: `(which, of how many)`.
///
/// There are at most `most` things: if so many share them, each has one at most, and what `f` computes of it alone is computed
/// once for all stages. Otherwise not unrolled: the copies' addresses are not all in registers at a time.
#[inline(always)]
fn for_share((share, shares): (u32, u32), (most, count): (u32, u32), mut f: impl FnMut(u32)) {
    if most <= shares {
        if share < count {
            f(share);
        }
        return;
    }
    let (mut i, end) = (share, same_number(count));
    while i < end {
        f(i);
        i += shares;
    }
}

impl<F, Z, T, P, const M: usize, const K: usize> CopyTo<Dst<'_, Quantized<F, Z, T, M, K>, P>>
    for WeightsTile<F, Z, T>
where
    F: Format,
    Z: Zeros,
    T: Half,
    P: Loader,
{
    #[inline(always)]
    fn copy_to(self, to: Dst<'_, Quantized<F, Z, T, M, K>, P>) {
        let WeightsAbi { blocks, scales, zeros, rows, depth, groups, group, halves, .. } = self.of.abi;
        let [across, along] = Quantized::<F, Z, T, M, K>::BLOCKS;
        let [from, end] = self.rows;
        let [first, block] = [from + self.index[0] * across, self.index[1] * along];
        let (size, line) = (Quantized::<F, Z, T, M, K>::BLOCK, ROWS * T::BYTES as u32);
        let share = P::share(to.ticket);
        // SAFETY: a `Dst` is a tile of a stage that is this role's to fill; blocks and groups are the tensor's.
        let copy = |from: u64, at: u32, bytes: u32| unsafe {
            P::load_bytes(from as *const u8, to.address + at, bytes, to.ticket)
        };
        // Blocks behind the last are that one again: what is decoded is always a weight.
        for_share(
            share,
            (across, across),
            #[inline(always)]
            |i| {
                let row = (if first + i < end { first + i } else { end - 1 }) as u64 * depth as u64;
                if block + along <= depth {
                    copy(blocks + (row + block as u64) * size as u64, i * along * size, along * size);
                } else {
                    let mut b = 0;
                    while b < along {
                        let from = if block + b < depth { block + b } else { depth - 1 };
                        copy(blocks + (row + from as u64) * size as u64, (i * along + b) * size, size);
                        b += 1;
                    }
                }
            },
        );
        for_share(
            share,
            (2 * along, along << halves),
            #[inline(always)]
            |i| {
                let half = i << (1 - halves);
                let group = group.of(2 * block + half).0;
                let group = if group < groups { group } else { groups - 1 };
                let at = Quantized::<F, Z, T, M, K>::scales(half);
                let zeros_at = at + Quantized::<F, Z, T, M, K>::ZEROS - Quantized::<F, Z, T, M, K>::scales(0);
                let of_rows = |row: u32, i: u32, count: u32| {
                    let from = (group as u64 * rows as u64 + row as u64) * line as u64;
                    copy(scales + from, at + i * line, count * line);
                    if Z::STORED {
                        copy(zeros + from, zeros_at + i * line, count * line);
                    }
                };
                if first + across <= end {
                    of_rows(first, 0, across);
                } else {
                    let mut i = 0;
                    while i < across {
                        of_rows(if first + i < end { first + i } else { end - 1 }, i, 1);
                        i += 1;
                    }
                }
            },
        );
    }
}
