//! Registers, and functions of them for all lanes at once.

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// A register of up to 32 bits, by lane.
pub(crate) type L32 = [u32; LANES];
/// A register of 64 bits, by lane.
pub(crate) type L64 = [u64; LANES];

/// A register whose lanes are `f` of their number.
///
/// [`std::array::from_fn`] and `map` of arrays as long as this are calls that move them from place to place; this is a loop that
/// becomes vector instructions.
#[inline(always)]
pub(crate) fn lanes_of<T: Copy + Default>(f: impl Fn(usize) -> T) -> [T; LANES] {
    let mut value = [T::default(); LANES];
    for (lane, value) in value.iter_mut().enumerate() {
        *value = f(lane);
    }
    value
}

/// A function of one register, of two and of three, for all lanes at once.
pub(crate) type F1<D, A> = fn(&[A; LANES], &mut [D; LANES]);
pub(crate) type F2<D, A, B> = fn(&[A; LANES], &[B; LANES], &mut [D; LANES]);
pub(crate) type F3<D, A, B, C> = fn(&[A; LANES], &[B; LANES], &[C; LANES], &mut [D; LANES]);
/// A comparison: one bit a lane.
pub(crate) type Compare<A> = fn(&[A; LANES], &[A; LANES]) -> u32;

/// The index of a 32-bit register in a warp's file. Constants and special registers have one each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R(pub(crate) u32);
/// The index of a 64-bit register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct D(pub(crate) u32);
/// The index of a predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct P(pub(crate) u32);

/// A predicate or its negation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    pub(crate) predicate: P,
    pub(crate) negated: bool,
}

/// A register of any of the three files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    P(P),
    R(R),
    D(D),
}
