//! Narrow weights straight from global memory to the registers of warps that divide the depth among themselves.

use core::convert::identity;
use core::marker::PhantomData;
use core::ops::Range;

use tilewright_device::arch::global;
use tilewright_device::arch::special::{same_number, thread_x, thread_x_volatile};
use tilewright_device::arch::warp::{shfl_idx_f32, shfl_idx_u32, uniform};
use tilewright_device::layout::packed::{DEPTH, LANES, ROWS};
use tilewright_device::layout::{FragmentLayout, Registers};
use tilewright_device::tile::{
    Collective, Decode, Half, Held, Operand, Packed, Part, Rows, Weights, WeightsAbi, ZerosFirst,
};

/// Rows of W that a warp multiplies at a time.
pub const SLAB: u32 = 32;
/// Depth of a sum that is scaled, which a warp of a stream multiplies at a time: groups are multiples of it, or whole rows.
pub const CHUNK: u32 = 128;
/// Depth that is decoded at a time.
const PART: usize = DEPTH as usize;
/// Blocks of 16 rows and of 64 of depth in a chunk.
const BLOCKS: usize = 4;
/// Bytes of a line of L2.
const LINE: u32 = 128;
/// Chunks of a warp, behind those on their way to registers, that come to L2 while the preceding grid ends.
const TO_L2: u32 = 4;

/// 32 rows of W and 128 of its depth in the registers of a warp, as they are stored.
#[derive(Clone, Copy)]
pub struct Chunk<F, Z, T> {
    /// The lane's words, of both depths of the upper rows and then of the lower ones.
    words: [[u32; 8]; BLOCKS],
    /// Of the row whose number is the lane's.
    scale: [u16; 1],
    zero: [u16; 1],
    kind: PhantomData<(F, Z, T)>,
}

impl<F: Decode<T>, Z: ZerosFirst, T: Half> Chunk<F, Z, T> {
    const EMPTY: Self = Chunk { words: [[0; 8]; BLOCKS], scale: [0], zero: [0], kind: PhantomData };

    /// The zeros of the lane's rows, as [`values`](Self::values) takes them.
    #[inline(always)]
    fn zeros(&self) -> [u32; 4] {
        if !Z::STORED {
            return [0; 4];
        }
        let (zero, row) = (self.zero[0] as u32, first_row());
        let zero = Z::unscaled_zero::<T, F>(zero | zero << 16);
        [0, 1, 2, 3].map(
            #[inline(always)]
            // SAFETY: all lanes of a warp execute it.
            |r| unsafe { shfl_idx_u32(zero, row + 8 * r) },
        )
    }

    /// The `part`-th 64 of its depth as the left operand of a gemm in which every warp has its own 32 rows: what codes stand
    /// for, less the zeros that come before scales, but for what [`scales`](Self::scales) have more.
    #[inline(always)]
    fn values<const M: usize, L: FragmentLayout<M, PART>>(
        &self,
        zeros: [u32; 4],
        part: usize,
    ) -> Operand<T, M, PART, L> {
        const { assert!(M as u32 == L::THREADS, "a warp has 32 rows") };
        let mut packed = Packed::<L::Regs<[u32; 4]>>::none();
        let mut i = 0;
        while i < 8 {
            let (half, step) = (i / 4, i % 4);
            let words = &self.words[2 * half + part];
            let register =
                |r: usize| Z::unscaled::<T, F>(words, (4 * step + r) as u32, zeros[2 * half + r % 2]);
            packed.0.set(i, [register(0), register(1), register(2), register(3)]);
            i += 1;
        }
        Operand::new(packed)
    }

    /// Its rows' scales, times what [`values`](Self::values) leave out beside them.
    #[inline(always)]
    fn scales<const M: usize, const N: usize, L: FragmentLayout<M, N>>(&self) -> Rows<f32, M, N, L> {
        let scale = T::from_bits(self.scale[0] as u32).to_f32();
        let (mut regs, row) = (L::Rows::splat(0.0), first_row());
        let mut r = 0;
        while r < 4 {
            // SAFETY: all lanes of a warp execute it.
            let scale = unsafe { shfl_idx_f32(scale, row + 8 * r as u32) };
            regs.set(r, scale * Z::factors::<T, F>()[r % 2]);
            r += 1;
        }
        Rows { regs }
    }
}

/// A warp's chunks of some slabs: panel after panel of `PANEL` of depth, in each of them slab after slab, of which the warps
/// take chunks in turn. `AHEAD` are on their way from memory.
pub struct ChunkStream<P, F, Z, T, const PANEL: usize, const AHEAD: usize> {
    of: Weights<F, Z, T>,
    slots: [Chunk<F, Z, T>; AHEAD],
    slabs: Range<u32>,
    /// The chunk that is loaded next: its slab, its panel's first, how far behind that it is.
    slab: u32,
    base: u32,
    ahead: u32,
    /// Chunks of the slab's panel, and those for which the warps take turns.
    live: u32,
    turns: u32,
    /// Addresses of this lane's part of the panel's first chunk: codes, and scales or zeros behind where those begin.
    codes: u64,
    halves: u64,
    schedule: PhantomData<P>,
}

impl<P: Collective, F: Decode<T>, Z: ZerosFirst, T: Half, const PANEL: usize, const AHEAD: usize>
    ChunkStream<P, F, Z, T, PANEL, AHEAD>
{
    const WARPS: u32 = P::CONSUMERS / 32;
    /// Chunks of a panel.
    const CHUNKS: u32 = {
        assert!(
            (PANEL as u32).is_multiple_of(CHUNK * AHEAD as u32 * Self::WARPS),
            "warps take as many chunks of a panel"
        );
        PANEL as u32 / CHUNK
    };

    /// Begins to load the chunks of `slabs`, each 32 rows of W, and if `far` brings more of them to L2.
    #[inline(always)]
    pub fn new(of: Weights<F, Z, T>, slabs: Range<u32>, far: bool) -> Self {
        let (slots, slab) = ([Chunk::EMPTY; AHEAD], slabs.start);
        let (base, live, turns, codes, halves, schedule) = (0, 0, 0, 0, 0, PhantomData);
        let ahead = uniform(thread_x() / 32);
        let mut stream =
            ChunkStream { of, slots, slabs, slab, base, ahead, live, turns, codes, halves, schedule };
        stream.locate();
        let mut slot = 0;
        while slot < AHEAD {
            stream.load_codes(slot, 0);
            stream.load_codes(slot, 1);
            stream.load_scales(slot);
            stream.advance();
            slot += 1;
        }
        if far {
            stream.prefetch();
        }
        stream
    }

    /// Brings the next chunks to L2: more than registers hold. Before the kernel waits for the preceding grid memory has nothing else to do.
    #[inline(always)]
    fn prefetch(&mut self) {
        let Self { slab, base, ahead, live, turns, codes, halves, .. } = *self;
        let (mut chunk, end) = (0, same_number(TO_L2));
        while chunk < end && self.slab != self.slabs.end {
            if self.ahead < self.live {
                self.prefetch_next();
            }
            self.advance();
            chunk += 1;
        }
        (self.slab, self.base, self.ahead, self.live) = (slab, base, ahead, live);
        (self.turns, self.codes, self.halves) = (turns, codes, halves);
    }

    /// Brings the next chunk to L2: each lane a line of codes of both its blocks, two lanes those of scales and zeros.
    #[inline(always)]
    fn prefetch_next(&self) {
        let WeightsAbi { blocks, scales, zeros, rows, groups, depth, .. } = self.of.argument();
        let (block, access) = (F::PACKED.block_bytes(), F::PACKED.access_bytes());
        // A last block may be alone.
        let second = if 2 * (self.base + self.ahead) + 1 < depth { block } else { 0 };
        let (lane, lines) = (thread_x_volatile() % 32, access * SLAB * 2 / LINE);
        let group = if groups == 1 { 0 } else { rows * ROWS * 2 };
        let halves = self.halves - (lane * 2) as u64 + self.ahead as u64 * group as u64;
        let codes = blocks + self.codes - (lane * access) as u64 + (self.ahead * 2 * block) as u64;
        let mut first = 0;
        while first < F::PACKED.lane_bytes() {
            let line = codes + (lane / lines * second + first * LANES + lane % lines * LINE) as u64;
            let at = if lane < 2 * lines {
                line
            } else if lane == 2 * lines || !Z::STORED {
                scales + halves
            } else {
                zeros + halves
            };
            if lane < 2 * lines + 1 + Z::STORED as u32 {
                // SAFETY: the chunk is one of the weights'.
                unsafe { global::prefetch_l2(at) };
            }
            first += access;
        }
    }

    /// Panels of the depth.
    #[inline(always)]
    pub fn panels(&self) -> u32 {
        (self.of.argument().depth * DEPTH).div_ceil(PANEL as u32)
    }

    /// Chunks of the depth, of which the last may have one block alone.
    #[inline(always)]
    fn chunks(&self) -> u32 {
        self.of.argument().depth.div_ceil(2)
    }

    /// Chunks of the panel that begins with chunk `base` for which the warps take turns, `AHEAD` each time: those behind the
    /// weights' end have scales of zero.
    #[inline(always)]
    fn turns_of(&self, base: u32) -> u32 {
        let turns = (self.chunks() - base).next_multiple_of(AHEAD as u32 * Self::WARPS);
        if turns < Self::CHUNKS { turns } else { Self::CHUNKS }
    }

    /// Finds the slab's panel.
    #[inline(always)]
    fn locate(&mut self) {
        let WeightsAbi { rows, depth, .. } = self.of.argument();
        let lane = thread_x_volatile() % 32;
        let left = self.chunks() - self.base;
        self.live = if self.slab == self.slabs.end {
            0
        } else if left < Self::CHUNKS {
            left
        } else {
            Self::CHUNKS
        };
        self.turns = self.turns_of(self.base);
        let block = (self.slab / 2 * depth + 2 * self.base) as u64 * F::PACKED.block_bytes() as u64;
        self.codes = block + ((self.slab % 2 * 64 + lane) * F::PACKED.access_bytes()) as u64;
        let group = if self.of.argument().groups == 1 { 0 } else { self.base };
        self.halves = (group as u64 * (rows * ROWS) as u64 + (self.slab * SLAB + lane) as u64) * 2;
    }

    /// Goes on to the chunk after the next.
    #[inline(always)]
    fn advance(&mut self) {
        self.ahead += Self::WARPS;
        if self.ahead >= self.turns {
            self.ahead -= self.turns;
            self.slab += 1;
            if self.slab == self.slabs.end && self.base + Self::CHUNKS < self.chunks() {
                (self.slab, self.base) = (self.slabs.start, self.base + Self::CHUNKS);
            }
            self.locate();
        }
    }

    /// Begins to load this lane's codes of the `part`-th 64 of the next chunk, if there is one.
    #[inline(always)]
    fn load_codes(&mut self, slot: usize, part: usize) {
        let (block, access) = (F::PACKED.block_bytes(), F::PACKED.access_bytes());
        let chunk = self.of.argument().blocks + self.codes + (self.ahead * 2 * block) as u64;
        // A block behind the last is that one again: the activations are zeros there.
        let second = part == 1 && 2 * (self.base + self.ahead) + 1 < self.of.argument().depth;
        let codes = chunk + if second { block as u64 } else { 0 };
        let live = self.ahead < self.live;
        let mut half = 0;
        while half < 2 {
            let words = &mut self.slots[slot].words[2 * half + part];
            let mut first = 0;
            while first < F::PACKED.lane_bytes() {
                let at = codes + (half as u32 * 32 * access + first * LANES) as u64;
                let word = first as usize / 4;
                // SAFETY: a live chunk is one of the weights', which nobody writes.
                unsafe {
                    match access {
                        4 => global::replace_u32(words, word, at, live),
                        8 => global::replace_u32x2(words, word, at, live),
                        _ => global::replace_u32x4(words, word, at, live),
                    }
                }
                first += access;
            }
            half += 1;
        }
    }

    /// Begins to load this lane's scale and zero of the next chunk; if there is none, the scale is zero.
    #[inline(always)]
    fn load_scales(&mut self, slot: usize) {
        let WeightsAbi { scales, zeros, rows, groups, .. } = self.of.argument();
        let group = if groups == 1 { 0 } else { rows * ROWS * 2 };
        let halves = self.halves + self.ahead as u64 * group as u64;
        let (chunk, live) = (&mut self.slots[slot], self.ahead < self.live);
        chunk.scale = [0];
        // SAFETY: as for the codes.
        unsafe {
            global::replace_u16(&mut chunk.scale, 0, scales + halves, live);
            if Z::STORED {
                global::replace_u16(&mut chunk.zero, 0, zeros + halves, live);
            }
        }
    }

    /// The warp's chunks of a slab in `panel`, one after the other: `multiply(sum, values, where)` of both halves of each, from a
    /// `zero` on; `where` is a part of 64 of the panel's depth. Then `scale(d, sum, scales)`.
    ///
    /// Behind the weights' end chunks are anything with scales of zero. What has been decoded is replaced by what comes next.
    #[inline(always)]
    pub fn fold<const M: usize, const N: usize, L, C, D, S: Copy>(
        &mut self,
        panel: u32,
        mut d: D,
        zero: S,
        multiply: impl Fn(S, Operand<T, M, PART, L>, Part) -> S,
        scale: impl Fn(D, S, Rows<f32, M, N, C>) -> D,
    ) -> D
    where
        L: FragmentLayout<M, PART>,
        C: FragmentLayout<M, N>,
    {
        let (mut at, end) = (uniform(thread_x() / 32), self.turns_of(panel * Self::CHUNKS));
        // SAFETY: `end` is no more than the panel's chunks, and warps take as many of them: `at` stays below it in all slots.
        let half = identity(
            #[inline(always)]
            |at| unsafe { Part::new_unchecked(at, 2 * Self::CHUNKS) },
        );
        while at < end {
            let mut slot = 0;
            while slot < AHEAD {
                let zeros = self.slots[slot].zeros();
                let upper = self.slots[slot].values(zeros, 0);
                self.load_codes(slot, 0);
                let sum = multiply(zero, upper, half(2 * at));
                let lower = self.slots[slot].values(zeros, 1);
                self.load_codes(slot, 1);
                d = scale(d, multiply(sum, lower, half(2 * at + 1)), self.slots[slot].scales());
                self.load_scales(slot);
                self.advance();
                at += Self::WARPS;
                slot += 1;
            }
        }
        d
    }
}

/// The first of this lane's rows. Said anew, so that not the numbers of all of them are held in registers.
#[inline(always)]
fn first_row() -> u32 {
    same_number(thread_x() % 32 / 4)
}
