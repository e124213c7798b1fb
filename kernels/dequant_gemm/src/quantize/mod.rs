//! Wide weights rounded to narrow ones, in the order in which kernels read them.

mod list;

pub use list::{QUANTIZE, QuantizeKernel, Step};

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::{block_x, thread_x};
use tilewright_device::arch::{atomic, global};
use tilewright_device::kernel;
use tilewright_device::layout::packed::{DEPTH, Order, Packed, ROWS};
use tilewright_device::quantize::{Fitter, Group, Line, Rules, Shift};
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{Element, InBlock, PLAIN_SCALES, Simt};

/// Threads of a CTA.
pub const QUANTIZE_THREADS: u32 = 128;

/// Wide weights W \[N, K\], and where the narrow ones go.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// Address of W's first element.
    pub wide: u64,
    /// Elements from one of its rows to the next, and from one column to the next.
    pub strides: [u64; 2],
    /// Address of the codes: blocks as [`Packed`] says, \[N / 64\]\[K / 64\].
    pub codes: u64,
    /// Address of the scales \[groups\]\[N rounded up to 64\].
    pub scales: u64,
    /// Address of the zeros likewise; of nothing without zeros.
    pub zeros: u64,
    /// Address of counters, zeros before: groups that cannot be represented; zeros that are no integers of the format's range; scales
    /// that are not less than [`PLAIN_SCALES`].
    pub found: u64,
    /// N and K.
    pub shape: [u32; 2],
    /// Weights of a group.
    pub group: u32,
    /// For activations of 8 bits rather than 16.
    pub for_bytes: u32,
    /// W's rows are contiguous and begin at multiples of 16 bytes.
    pub in_vectors: u32,
    /// Division by N rounded up to 64.
    pub by_rows: Division,
    /// Division by the words of a block.
    pub by_words: Division,
    /// Division by the blocks along K.
    pub by_blocks: Division,
    /// How weights are represented.
    pub rules: Rules,
    /// Threads that have something to do.
    pub threads: u32,
}

impl PassedAsIs for Conversion {}

impl Conversion {
    /// A wide weight, exactly.
    ///
    /// # Safety
    /// W is of `T` and has the place.
    #[inline(always)]
    unsafe fn weight<T: Element>(&self, row: u32, column: u32) -> f64 {
        let place = row as u64 * self.strides[0] + column as u64 * self.strides[1];
        let at = self.wide + place * T::BYTES as u64;
        // SAFETY: the caller's.
        let bits = unsafe {
            match T::BYTES {
                2 => global::ld_global_u16(at as *const u16) as u32,
                _ => global::ld_global_u32(at as *const u32),
            }
        };
        T::from_bits(bits).to_f32() as f64
    }

    /// Counts one of what is found.
    #[inline(always)]
    fn count(&self, which: u64) {
        // SAFETY: the host passes three counters.
        unsafe { atomic::red_add_u32((self.found + which * 4) as *mut u32, 1) };
    }
}

/// The weights of a group, in memory.
struct InMemory<'a, T> {
    of: &'a Conversion,
    row: u32,
    first: u32,
    count: u32,
    element: core::marker::PhantomData<T>,
}

impl<T: Element> Group for InMemory<'_, T> {
    fn len(&self) -> usize {
        self.count as usize
    }
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(f64)) {
        let mut i = 0;
        if self.of.in_vectors == 1 {
            let each = 16 / T::BYTES as u32;
            let row = self.of.wide + self.row as u64 * self.of.strides[0] * T::BYTES as u64;
            while i + each <= self.count {
                let at = row + (self.first + i) as u64 * T::BYTES as u64;
                // SAFETY: a group's weights are W's; groups begin at multiples of 32 weights.
                let words = unsafe { global::ld_global_u32x4(at as *const [u32; 4]) };
                for word in words {
                    if T::BYTES == 2 {
                        let [low, high] = T::pair_to_f32(word);
                        f(low as f64);
                        f(high as f64);
                    } else {
                        f(T::from_bits(word).to_f32() as f64);
                    }
                }
                i += each;
            }
        }
        while i < self.count {
            // SAFETY: a group's weights are W's.
            f(unsafe { self.of.weight::<T>(self.row, self.first + i) });
            i += 1;
        }
    }
}

/// Scale and zero of each group, a thread each, in the order of the scales: the host's choice to the bit.
#[kernel(program = Simt<4>)]
pub fn fit_groups<T: Element>(conversion: InBlock<Conversion>) {
    let of = conversion.get();
    let thread = block_x() * QUANTIZE_THREADS + thread_x();
    if thread >= of.threads {
        return;
    }
    let [n, k] = of.shape;
    let (number, row) = of.by_rows.of(thread);
    let Rules { codes, shift, scales } = of.rules;
    let mut line = Line { scale: 0.0, zero: 0.0 };
    if row < n {
        let first = number * of.group;
        let count = if k - first < of.group { k - first } else { of.group };
        let group = InMemory::<T> { of: &of, row, first, count, element: core::marker::PhantomData };
        let mut finite = true;
        group.each(|x| finite &= scales.round(x).is_finite());
        match Fitter::new(of.rules).fit(&group) {
            Some(found) if finite => line = found,
            _ => of.count(0),
        }
    }
    let (lowest, highest) = codes.range();
    // Whole numbers go through an integer unchanged.
    if line.zero as i32 as f64 != line.zero || line.zero < lowest || line.zero > highest {
        of.count(1);
    }
    if scales.round(line.scale).abs() >= PLAIN_SCALES as f64 {
        of.count(2);
    }
    // SAFETY: there is a scale for each thread, and a zero if there are any.
    unsafe {
        global::st_global_u16((of.scales + thread as u64 * 2) as *mut u16, scales.bits(line.scale));
        if shift != Shift::None {
            // Of integers there is one 0.
            let zero = if shift == Shift::Packed { line.zero + 0.0 } else { line.zero };
            global::st_global_u16((of.zeros + thread as u64 * 2) as *mut u16, scales.bits(zero));
        }
    }
}

/// The codes of the weights that are nearest to them, packed, a thread for each word.
#[kernel(program = Simt<4>)]
pub fn pack_codes<T: Element>(conversion: InBlock<Conversion>) {
    let of = conversion.get();
    let thread = block_x() * QUANTIZE_THREADS + thread_x();
    if thread >= of.threads {
        return;
    }
    let [n, k] = of.shape;
    let Rules { codes, shift, scales } = of.rules;
    let bits = codes.bits();
    let order = if of.for_bytes == 1 { Order::B8 } else { Order::B16 };
    let Some(layout) = Packed::new(order, bits) else { return };
    let (block, word) = of.by_words.of(thread);
    let (down, along) = of.by_blocks.of(block);
    let (mut packed, mut bit) = (0, 0);
    while bit < 32 {
        let (row, column) = layout.position(word * 32 + bit);
        let (row, column) = (down * ROWS + row, along * DEPTH + column);
        let code = if row < n && column < k {
            let place = (column / of.group) as u64 * of.by_rows.divisor as u64 + row as u64;
            // SAFETY: the group has a scale, and a zero if there are any; W has the place.
            unsafe {
                let number = |at: u64| scales.value(global::ld_global_u16((at + place * 2) as *const u16));
                let zero = if shift == Shift::None { 0.0 } else { number(of.zeros) };
                of.rules.code(Line { scale: number(of.scales), zero }, of.weight::<T>(row, column))
            }
        } else {
            codes.nearest(0.0)
        };
        packed |= codes.packed(code) << bit;
        bit += bits;
    }
    // SAFETY: there are as many words as threads.
    unsafe { global::st_global_u32((of.codes + thread as u64 * 4) as *mut u32, packed) };
}
