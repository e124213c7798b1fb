//! Functions of single elements, and conversions of their types.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::{same_number, thread_x, trap};
use tilewright_device::kernel;
use tilewright_device::kernel::Arch;
use tilewright_device::tile::{InBlock, Overlaps, math};

use crate::number::{Number, with_number};
use crate::operation::{Operation, with};
use crate::pieces::{
    PieceOrder, Strided, is_inner, load_bytes, load_short, load_skewed, number, span, store_part,
};

/// What is computed of up to three tensors.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Computed {
    /// The number of the [`Operation`](crate::Operation).
    pub operation: u32,
    /// Bit i is 1 where all columns of a row of tensor i are one element: its stride is 0.
    pub repeated: u32,
    /// Bit i is 1 where pieces of input i begin anywhere, and bit 3 where rows of the result do; else they begin at multiples of 16 bytes, or
    /// of a piece's size. Pieces begin at vectors of the result.
    pub skewed: u32,
    /// The number of the inputs' [`Number`].
    pub from: u32,
    /// The number of the result's.
    pub to: u32,
    /// What the function is multiplied with.
    pub scale: f32,
    /// What is added then.
    pub bias: f32,
}

impl PassedAsIs for Computed {}

/// Elements of a piece, if those that are read have `from` bytes and those that are written `to`: the wider ones fill 16 bytes. Bytes of 0 are
/// those of any type, of which a piece has one element.
pub(crate) const fn piece(from: usize, to: usize) -> usize {
    if from == 0 { 1 } else { 16 / if from < to { to } else { from } }
}

/// Pieces that a thread holds of each of so many inputs.
pub(crate) const fn each(inputs: usize, from: usize, to: usize) -> usize {
    match inputs {
        _ if piece(from, to) == 1 => 4,
        1 if from < to => 4,
        // Threads with one piece each, as many as an SM takes, are as fast as a copy.
        1 if from == to => 1,
        3 => 1,
        _ => 2,
    }
}

/// CTAs that an SM is to hold, with what their threads have read.
const fn resident(inputs: usize, from: usize, to: usize) -> u32 {
    let many = inputs == 1 && from < to || inputs == 2 && from + to == 4;
    match inputs {
        _ if from == 0 || many => 4,
        1 if from == to => 8,
        _ => 5,
    }
}

/// Most elements of a piece, and most pieces that a thread holds.
const MOST: usize = 8;
const EACH: usize = 4;

/// The bits of element `i` of a piece that has no pairs, low in a word; those above mean nothing.
#[inline(always)]
fn element<const BYTES: usize>(words: [u32; 4], i: usize) -> u32 {
    match BYTES {
        1 => words[i / 4] >> (i % 4 * 8),
        _ => words[i],
    }
}

/// The values of a piece.
#[inline(always)]
fn values_of<const BYTES: usize>(number: Number, words: [u32; 4], count: usize, hopper: bool) -> [f32; MOST] {
    let (mut values, mut i) = ([0.0; MOST], 0);
    while i < count {
        if BYTES == 2 {
            [values[i], values[i + 1]] = number.pair_values(words[i / 2]);
            i += 2;
        } else {
            values[i] = number.value(element::<BYTES>(words, i), hopper);
            i += 1;
        }
    }
    values
}

/// A piece of which all elements have the bits of the first.
#[inline(always)]
fn filled<const BYTES: usize>(words: [u32; 4]) -> [u32; 4] {
    match BYTES {
        2 => [words[0] | words[0] << 16; 4],
        1 => [words[0] * 0x0101_0101; 4],
        _ => [words[0]; 4],
    }
}

/// The bits of a piece of these values.
#[inline(always)]
fn piece_of<const BYTES: usize>(number: Number, values: [f32; MOST], count: usize, hopper: bool) -> [u32; 4] {
    let (mut words, mut i) = ([0; 4], 0);
    while i < count {
        match BYTES {
            2 => words[i / 2] = number.pair_of([values[i], values[i + 1]]),
            1 => words[i / 4] |= number.bits_of(values[i], hopper) << (i % 4 * 8),
            _ => words[i] = number.bits_of(values[i], hopper),
        }
        i += if BYTES == 2 { 2 } else { 1 };
    }
    words
}

/// y = scale f(a, b, c) + bias, element by element, in f32, for functions of `INPUTS` of these.
///
/// Tensors \[batch, rows, columns\] whose rows are cut into pieces in the order of `order`. Elements that are read have `FROM` bytes and those
/// that are written `TO`, or any number where these are 0; which numbers they are, and the function, `how` says. Columns are neighbours, or
/// one element ([`Computed::repeated`]), unless pieces have one element.
#[kernel(program = P, min_ctas = resident(INPUTS, FROM, TO))]
pub fn elementwise<P: Overlaps, const INPUTS: usize, const FROM: usize, const TO: usize>(
    a: Strided<3>,
    b: Strided<3>,
    c: Strided<3>,
    y: Strided<3>,
    order: InBlock<PieceOrder>,
    how: Computed,
) {
    let order = order.get();
    let (v, each) = (const { piece(FROM, TO) }, const { each(INPUTS, FROM, TO) });
    let hopper = const { matches!(P::ARCH, Arch::Sm90a) };
    let bytes = |fixed, kind| if fixed == 0 { Number::bytes(kind) as usize } else { fixed };
    let (from_bytes, to_bytes) = (bytes(FROM, how.from), bytes(TO, how.to));
    let any_row = v > 1 && how.skewed >> 3 & 1 == 1;
    // The first element of a piece, and how many it has.
    let place = |i| {
        let ([matrix, row, piece], inside) = order.at(number(thread_x(), P::THREADS, each, i));
        let start = y.address_of([matrix, row, 0], to_bytes as u32) as u32;
        let skew = if any_row { start / to_bytes.max(1) as u32 % v as u32 } else { 0 };
        let (first, count) = span(piece, v, skew, order.columns(v));
        ([matrix, row, first], if inside { count } else { 0 })
    };
    let inputs = [a, b, c];
    let repeated = |k| v > 1 && how.repeated >> k & 1 == 1;
    let skewed = |k| v > 1 && how.skewed >> k & 1 == 1;
    let address = |k: usize, [matrix, row, col]: [u32; 3]| {
        inputs[k].address_of([matrix, row, if repeated(k) { 0 } else { col }], from_bytes as u32)
    };
    let apart = how.repeated | how.skewed;
    let whole = |k: usize, count| count == v as u32 && (v == 1 || apart >> k & 1 == 0);
    let (mut from, mut to, mut astray, mut i) = ([[0; INPUTS]; EACH], [0; EACH], 0, 0);
    // A byte for each piece: how many elements it has, and whether a whole piece is on either side of it.
    let mut sizes = 0;
    while i < each {
        let ((at, count), mut k) = (place(i), 0);
        let inner = is_inner(at[2], v, order.columns(v));
        sizes |= (count | (inner as u32) << 4) << (8 * i);
        while k < INPUTS {
            from[i][k] = address(k, at);
            astray |= if v > 1 && whole(k, count) { from[i][k] as u32 % (from_bytes * v) as u32 } else { 0 };
            k += 1;
        }
        to[i] = y.address_of(at, to_bytes as u32);
        astray |= if v > 1 && whole(3, count) { to[i] as u32 % (to_bytes * v) as u32 } else { 0 };
        i += 1;
    }
    let count = |i: usize| sizes >> (8 * i) & 15;
    // Asked here, so that addresses are computed, and the last argument is read, while the preceding grid still runs: of a short launch that is a
    // fifth.
    if astray != 0 || how.to > Number::E5m2 as u32 {
        trap();
    }
    P::wait_for_preceding_grid();
    let mut read = [[[0; 4]; INPUTS]; EACH];
    let mut i = 0;
    while i < each {
        let (count, mut k) = (count(i), 0);
        while k < INPUTS {
            // SAFETY: the tensors have the elements that the order counts, in rows of pieces of which the last may be short; the host checked
            // how they lie.
            read[i][k] = unsafe { load_bytes(from_bytes * v, from[i][k], whole(k, count)) };
            k += 1;
        }
        i += 1;
    }
    // What is no whole and aligned piece comes behind, so that no load above waits for a branch.
    if v > 1 && (apart != 0 || order.ends_short()) {
        let mut i = 0;
        while i < each {
            let (count, mut k) = (count(i), 0);
            // Its neighbours are read too.
            let inner = const { FROM * piece(FROM, TO) == 16 } && sizes >> (8 * i) & 16 != 0;
            while k < INPUTS {
                // SAFETY: as above.
                unsafe {
                    if repeated(k) {
                        read[i][k] = filled::<FROM>(load_bytes(from_bytes, from[i][k], count != 0));
                    } else if skewed(k) && inner && count == v as u32 {
                        read[i][k] = load_skewed(from[i][k], true);
                    } else if skewed(k) || count != v as u32 {
                        read[i][k] = load_short(from[i][k], count, from_bytes, v);
                    }
                }
                k += 1;
            }
            i += 1;
        }
    }
    // From here on they are held in one register.
    let sizes = same_number(sizes);
    let count = |i: usize| sizes >> (8 * i) & 15;
    // One branch each for the inputs' type, the function and the result's type, whatever the number of pieces: of a short launch most of the
    // time goes into fetching instructions.
    let mut x = [[[0.0; MOST]; 3]; EACH];
    with_number::<FROM>(
        how.from,
        #[inline(always)]
        |number| {
            let mut i = 0;
            while i < each {
                let mut k = 0;
                while k < INPUTS {
                    x[i][k] = values_of::<FROM>(number, read[i][k], v, hopper);
                    k += 1;
                }
                i += 1;
            }
        },
    );
    // Bytes are converted, and nothing is computed of them.
    let operation = if const { FROM == 1 || TO == 1 } { Operation::Identity as u32 } else { how.operation };
    let mut values = [[0.0; MOST]; EACH];
    with::<INPUTS>(
        operation,
        #[inline(always)]
        |operation| {
            let mut i = 0;
            while i < each {
                let ([a, b, c], mut e) = (x[i], 0);
                while e < v {
                    let value = operation.of([a[e], b[e], c[e]], TO != 2);
                    values[i][e] = math::fma(value, how.scale, how.bias);
                    e += 1;
                }
                i += 1;
            }
        },
    );
    let mut words = [[0; 4]; EACH];
    with_number::<TO>(
        how.to,
        #[inline(always)]
        |number| {
            let mut i = 0;
            while i < each {
                words[i] = piece_of::<TO>(number, values[i], v, hopper);
                i += 1;
            }
        },
    );
    let mut i = 0;
    while i < each {
        let count = count(i);
        // SAFETY: as above; no other thread has these elements.
        unsafe { store_part(to[i], words[i], count, (to_bytes, v), true) };
        i += 1;
    }
}
