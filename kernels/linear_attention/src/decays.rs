//! Decays of a head's state: running sums of their logarithms over a chunk, and the factors that follow from them.

use core::f32::consts::LOG2_E;

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::thread_x;
use tilewright_device::arch::{global, shared, warp};
use tilewright_device::tile::{Collective, Cols, Cta, Fragment, FragmentLayout, RowVector, Rows, math};

use crate::policy::CHUNK;
use crate::work::Part;

/// Below 2 to this power a decay is 0 in f32.
pub const NOTHING: f32 = -200.0;

/// Logarithms of a head's decay, natural ones: constant, of each row, both or none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Decays {
    /// Address of those of rows; 0 if there are none.
    pub gates: u64,
    /// Elements from one matrix, head and row to the next.
    pub strides: [u64; 3],
    /// Address of the heads' constants; 0 if there are none.
    pub constants: u64,
    /// Elements from one constant to the next.
    pub stride: u64,
}

impl PassedAsIs for Decays {}

impl Decays {
    /// Whether there are any.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.gates != 0 || self.constants != 0
    }

    /// The logarithm of a head's constant decay, the natural one.
    #[inline(always)]
    fn constant(&self, head: u32) -> f32 {
        if self.constants == 0 {
            return 0.0;
        }
        let at = self.constants + head as u64 * self.stride * 4;
        // SAFETY: the host passes as many as heads.
        f32::from_bits(unsafe { global::ld_global_u32(at as *const u32) })
    }

    /// That of a row's gate.
    #[inline(always)]
    fn gate(&self, [matrix, head]: [u32; 2], row: u32) -> f32 {
        let [by_matrix, by_head, by_row] = self.strides;
        let index = matrix as u64 * by_matrix + head as u64 * by_head + row as u64 * by_row;
        // SAFETY: the host passes gates of all rows of each head.
        f32::from_bits(unsafe { global::ld_global_u32((self.gates + index * 4) as *const u32) })
    }

    /// The logarithm of the decay of a matrix's row.
    #[inline(always)]
    pub fn of_row(&self, place: [u32; 2], row: u32) -> f32 {
        self.constant(place[1]) + if self.gates == 0 { 0.0 } else { self.gate(place, row) }
    }

    /// The gates of rows 2 `lane` and the next of a chunk, for the first warp, as they lie in memory: on their way until somebody computes with
    /// them. 0 where there are none.
    #[inline(always)]
    pub fn gates_of(&self, part: &Part, chunk: u32) -> [f32; 2] {
        let mut gates = [0.0; 2];
        let row = chunk * CHUNK as u32 + 2 * thread_x();
        let mut i = 0;
        while i < 2 {
            if thread_x() < 32 && row + i < part.rows && self.gates != 0 {
                gates[i as usize] = self.gate([part.matrix, part.head], part.first + row + i);
            }
            i += 1;
        }
        gates
    }

    /// The decay of a part's head, of which the rows' are made.
    #[inline(always)]
    pub fn of_head(&self, part: &Part) -> HeadDecay {
        HeadDecay(self.constant(part.head))
    }
}

/// The logarithm of a head's constant decay.
#[derive(Clone, Copy)]
pub struct HeadDecay(f32);

impl HeadDecay {
    /// Logarithms to base 2 of the decays of the rows whose gates [`Decays::gates_of`] has loaded: for the first warp. 0 behind the part's end.
    #[inline(always)]
    pub fn of_rows(&self, part: &Part, chunk: u32, gates: [f32; 2]) -> [f32; 2] {
        let row = chunk * CHUNK as u32 + 2 * thread_x();
        let logarithm = |gate: f32| math::min(math::max((self.0 + gate) * LOG2_E, NOTHING), 0.0);
        let of = |i: u32, gate| if row + i < part.rows { logarithm(gate) } else { 0.0 };
        [of(0, gates[0]), of(1, gates[1])]
    }
}

/// What decays come to in a chunk: a vector each for the running sums of logarithms, for the factors of what comes from before the
/// chunk, for those of what goes behind it, and the whole chunk's factor.
///
/// And the sum of all chunks' logarithms. Of three chunks: the first warp writes those of the next one while others are still in the one before.
pub struct Factors {
    address: u32,
}

/// Bytes of a vector.
const VECTOR: u32 = CHUNK as u32 * 4;
/// Bytes of a chunk's.
const CHUNKS: u32 = 3 * VECTOR + 16;

impl Factors {
    /// Room for them.
    #[inline(always)]
    pub fn new(cta: &mut Cta<impl Collective>) -> Self {
        Factors { address: cta.reserve(3 * CHUNKS + 16, 16) }
    }

    #[inline(always)]
    fn of(&self, chunk: u32) -> u32 {
        self.address + chunk % 3 * CHUNKS
    }

    /// Writes those of a chunk, whose decays are [`HeadDecay::of_rows`]; `scale` goes with what comes from before. All threads that compute
    /// come to a barrier behind it.
    #[inline(always)]
    pub fn write(&mut self, chunk: u32, [first, second]: [f32; 2], scale: f32) {
        let lane = thread_x();
        if lane >= 32 {
            return;
        }
        let mut sum = first + second;
        let mut by = 1;
        while by < 32 {
            // SAFETY: all lanes of the first warp execute it.
            let before = unsafe { warp::shfl_up_f32(sum, by) };
            sum += if lane >= by { before } else { 0.0 };
            by *= 2;
        }
        // SAFETY: as above.
        let all = unsafe { warp::shfl_idx_f32(sum, 31) };
        let (sums, at) = ([sum - second, sum], self.of(chunk) + lane * 8);
        // SAFETY: the memory is this value's; who reads what is overwritten has come to the barriers of two chunks since.
        unsafe {
            shared::store_f32x2(at, sums);
            shared::store_f32x2(at + VECTOR, sums.map(|sum| math::ex2(sum) * scale));
            shared::store_f32x2(at + 2 * VECTOR, sums.map(|sum| math::ex2(math::min(all - sum, 0.0))));
            if lane == 0 {
                shared::store_f32(self.of(chunk) + 3 * VECTOR, math::ex2(all));
                let total = self.address + 3 * CHUNKS;
                let before = if chunk == 0 { 0.0 } else { shared::load_f32(total) };
                shared::store_f32(total, before + all);
            }
        }
    }

    /// What all chunks that were written leave of a state: for the first thread. The one behind the last leaves all of it.
    #[inline(always)]
    pub fn left(&self) -> f32 {
        // SAFETY: what this thread wrote.
        math::ex2(unsafe { shared::load_f32(self.address + 3 * CHUNKS) })
    }

    /// A chunk's products of rows with each other, each times what is left of the column's row at its own.
    #[inline(always)]
    pub fn decay<L: FragmentLayout<CHUNK, CHUNK>>(
        &self,
        chunk: u32,
        products: Fragment<f32, CHUNK, CHUNK, L>,
    ) -> Fragment<f32, CHUNK, CHUNK, L> {
        let (row, col) = (Rows::from_vector(self.sums(chunk)), Cols::from_vector(self.sums(chunk)));
        let left = |row: f32, col: f32| math::ex2(math::min(row - col, 0.0));
        let with_row = products.map(|x| (x, 0.0)).zip_rows(&row, |(x, _), row| (x, row));
        with_row.zip_cols(&col, |(x, row), col: f32| (x * left(row, col), row)).map(|(x, _)| x)
    }

    /// Running sums of logarithms to base 2, each row's own included.
    #[inline(always)]
    pub fn sums(&self, chunk: u32) -> RowVector<'_, f32, CHUNK> {
        // SAFETY: barriers order it behind the write, and the write of what comes three chunks later behind its reads.
        unsafe { RowVector::at(self.of(chunk)) }
    }
    /// By what each row's result multiplies what the state before the chunk gives.
    #[inline(always)]
    pub fn of_before(&self, chunk: u32) -> RowVector<'_, f32, CHUNK> {
        // SAFETY: as in `sums`.
        unsafe { RowVector::at(self.of(chunk) + VECTOR) }
    }
    /// What is left of each row behind the chunk.
    #[inline(always)]
    pub fn for_behind(&self, chunk: u32) -> RowVector<'_, f32, CHUNK> {
        // SAFETY: as in `sums`.
        unsafe { RowVector::at(self.of(chunk) + 2 * VECTOR) }
    }
    /// What is left of the state before the chunk behind it.
    #[inline(always)]
    pub fn whole(&self, chunk: u32) -> f32 {
        // SAFETY: as in `sums`.
        unsafe { shared::load_f32(self.of(chunk) + 3 * VECTOR) }
    }
}
