//! Functions of single elements, and conversions of their types.

use tilewright_device::abi::PassedAsIs;
use tilewright_device::arch::special::thread_x;
use tilewright_device::kernel;
use tilewright_device::kernel::Arch;
use tilewright_device::tile::{Overlaps, math};

use crate::number::{Number, bits, pair, pair_values, value};
use crate::operation::with;
use crate::pieces::{PieceOrder, Strided, load_bits, number, store_bits};

/// What is computed of up to three tensors.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Computed {
    /// The number of the [`Operation`](crate::Operation).
    pub operation: u32,
    /// How many of the tensors there are.
    pub inputs: u32,
    /// Bit i is 1 where all columns of a row of tensor i are one element: its stride is 0.
    pub repeated: u32,
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

/// Pieces that a thread holds of each tensor.
pub(crate) const fn each(from: usize, to: usize) -> usize {
    if piece(from, to) == 1 { 4 } else { 2 }
}

/// Most elements of a piece, and most pieces that a thread holds.
const MOST: usize = 8;
const EACH: usize = 4;

/// `count` elements of `BYTES` from an address on, or one of the type's bytes where that is 0; zeros where there are none.
///
/// # Safety
/// As for [`load_bits`], of these elements.
#[inline(always)]
unsafe fn load<const BYTES: usize>(from: u64, count: usize, kind: u32, inside: bool) -> [u32; 4] {
    let bytes = if BYTES == 0 { Number::bytes(kind) as usize } else { BYTES * count };
    // SAFETY: passed on.
    unsafe {
        match bytes {
            16 => load_bits::<16>(from, inside, 0),
            8 => load_bits::<8>(from, inside, 0),
            4 => load_bits::<4>(from, inside, 0),
            2 => load_bits::<2>(from, inside, 0),
            _ => load_bits::<1>(from, inside, 0),
        }
    }
}

/// Stores `count` elements of `BYTES`, or one of the type's bytes where that is 0, if they are `inside`.
///
/// # Safety
/// As for [`store_bits`], of these elements.
#[inline(always)]
unsafe fn store<const BYTES: usize>(to: u64, count: usize, kind: u32, words: [u32; 4], inside: bool) {
    let bytes = if BYTES == 0 { Number::bytes(kind) as usize } else { BYTES * count };
    // SAFETY: passed on.
    unsafe {
        match bytes {
            16 => store_bits::<16>(to, words, inside),
            8 => store_bits::<8>(to, words, inside),
            4 => store_bits::<4>(to, words, inside),
            2 => store_bits::<2>(to, words, inside),
            _ => store_bits::<1>(to, words, inside),
        }
    }
}

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
fn values_of<const BYTES: usize>(kind: u32, words: [u32; 4], count: usize, hopper: bool) -> [f32; MOST] {
    let mut values = [0.0; MOST];
    let mut i = 0;
    while i < count {
        if BYTES == 2 {
            [values[i], values[i + 1]] = pair_values(kind, words[i / 2]);
            i += 2;
        } else {
            values[i] = value::<BYTES>(kind, element::<BYTES>(words, i), hopper);
            i += 1;
        }
    }
    values
}

/// A piece of which all elements have the bits of the first.
#[inline(always)]
fn repeated<const BYTES: usize>(words: [u32; 4]) -> [u32; 4] {
    match BYTES {
        2 => [words[0] | words[0] << 16; 4],
        1 => [words[0] * 0x0101_0101; 4],
        _ => [words[0]; 4],
    }
}

/// The bits of a piece of these values.
#[inline(always)]
fn piece_of<const BYTES: usize>(kind: u32, values: [f32; MOST], count: usize, hopper: bool) -> [u32; 4] {
    let mut words = [0; 4];
    let mut i = 0;
    while i < count {
        match BYTES {
            2 => words[i / 2] = pair(kind, [values[i], values[i + 1]]),
            1 => words[i / 4] |= bits::<1>(kind, values[i], hopper) << (i % 4 * 8),
            _ => words[i] = bits::<BYTES>(kind, values[i], hopper),
        }
        i += if BYTES == 2 { 2 } else { 1 };
    }
    words
}

/// y = scale f(a, b, c) + bias, element by element, in f32.
///
/// Tensors \[batch, rows, columns\] whose rows are cut into pieces in the order of `order`. Elements that are read have `FROM` bytes and those
/// that are written `TO`, or any number where these are 0; which numbers they are, and the function, `how` says. Columns are neighbours, or
/// one element ([`Computed::repeated`]), unless pieces have one element.
#[kernel(program = P, min_ctas = 3)]
pub fn elementwise<P: Overlaps, const FROM: usize, const TO: usize>(
    a: Strided<3>,
    b: Strided<3>,
    c: Strided<3>,
    y: Strided<3>,
    order: PieceOrder,
    how: Computed,
) {
    let (v, each) = (const { piece(FROM, TO) }, const { each(FROM, TO) });
    let hopper = const { matches!(P::ARCH, Arch::Sm90a) };
    // Bytes are converted, and nothing is computed of them.
    let converts = const { FROM == 1 || TO == 1 };
    let (from_bytes, to_bytes) = (
        if FROM == 0 { Number::bytes(how.from) } else { FROM as u32 },
        if TO == 0 { Number::bytes(how.to) } else { TO as u32 },
    );
    let place = |i| {
        let ([matrix, row, piece], inside) = order.at(number(thread_x(), P::THREADS, each, i));
        ([matrix, row, piece * v as u32], inside)
    };
    P::wait_for_preceding_grid();
    let inputs = [a, b, c];
    let mut read = [[[0; 4]; 3]; EACH];
    let mut i = 0;
    while i < each {
        let (at, inside) = place(i);
        let mut k = 0;
        while k < 3 {
            if k < how.inputs as usize && (k == 0 || !converts) {
                let [matrix, row, col] = at;
                let same = v > 1 && how.repeated >> k & 1 == 1;
                let from = inputs[k].address_of([matrix, row, if same { 0 } else { col }], from_bytes);
                // SAFETY: the tensors have the elements that the order counts, in rows of whole pieces; the host checked how they lie.
                read[i][k] = unsafe {
                    if same {
                        repeated::<FROM>(load::<FROM>(from, 1, how.from, inside))
                    } else {
                        load::<FROM>(from, v, how.from, inside)
                    }
                };
            }
            k += 1;
        }
        i += 1;
    }
    let mut i = 0;
    while i < each {
        let x = read[i].map(|words| values_of::<FROM>(how.from, words, v, hopper));
        let mut values = [0.0; MOST];
        if converts {
            values = x[0];
        } else {
            with(
                how.operation,
                #[inline(always)]
                |operation| {
                    let mut e = 0;
                    while e < v {
                        values[e] = operation.of([x[0][e], x[1][e], x[2][e]]);
                        e += 1;
                    }
                },
            );
        }
        let values = values.map(|value| math::fma(value, how.scale, how.bias));
        let (at, inside) = place(i);
        // SAFETY: as above; no other thread has these elements.
        unsafe {
            store::<TO>(
                y.address_of(at, to_bytes),
                v,
                how.to,
                piece_of::<TO>(how.to, values, v, hopper),
                inside,
            )
        };
        i += 1;
    }
}
