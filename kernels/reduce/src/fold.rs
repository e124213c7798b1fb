//! What is made of many elements: the operators of reductions, each with what a thread holds meanwhile.

use tilewright_device::tile::math;

/// What a thread holds of a result while it is computed, in words that go to other threads.
pub(crate) trait State: Copy {
    const WORDS: u32;
    fn word(self, i: u32) -> u32;
    fn of_words(word: impl Fn(u32) -> u32) -> Self;
}

impl State for f32 {
    const WORDS: u32 = 1;
    #[inline(always)]
    fn word(self, _: u32) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn of_words(word: impl Fn(u32) -> u32) -> f32 {
        f32::from_bits(word(0))
    }
}

/// Greater for larger numbers, and greatest for NaN; -0 is 0.
#[inline(always)]
pub(crate) const fn rank(x: f32) -> u32 {
    // Every NaN becomes the same one, of positive sign, and -0 becomes 0 (PTX ISA, "add.f32").
    let bits = (x + 0.0).to_bits();
    let sign = (bits as i32 >> 31) as u32;
    bits ^ (sign & 0x7fff_ffff ^ 0x8000_0000)
}

/// An element and its place among those of its result.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    /// See [`rank`].
    rank: u32,
    at: u32,
}

impl Placed {
    /// The larger, the sooner it is meant.
    #[inline(always)]
    fn precedence(self) -> u64 {
        (self.rank as u64) << 32 | !self.at as u64
    }
}

impl State for Placed {
    const WORDS: u32 = 2;
    #[inline(always)]
    fn word(self, i: u32) -> u32 {
        if i == 0 { self.rank } else { self.at }
    }
    #[inline(always)]
    fn of_words(word: impl Fn(u32) -> u32) -> Placed {
        Placed { rank: word(0), at: word(1) }
    }
}

/// An operator. Elements come to a thread in the order of their places.
pub(crate) trait Fold: Copy {
    type State: State;
    /// An element that changes nothing: what lies outside.
    const NEUTRAL: f32;
    /// What is made of no elements.
    const START: Self::State;
    /// Whether elements may be told to change their sign first: the least is the negative of the largest of the negatives.
    const FLIPS: bool;
    /// Whether the result is a place.
    const PLACES: bool;

    fn add(state: Self::State, x: f32, at: u32) -> Self::State;
    /// Neighbours, the first of which is at `at`; several at a time for more to be in flight.
    fn add_piece<const V: usize>(state: Self::State, x: [f32; V], at: u32) -> Self::State;
    /// Pieces of `V` elements, which `of` makes of their words, in the order of their places: the first one's, and from one to the next.
    #[inline(always)]
    fn add_pieces<const K: usize, const V: usize>(
        mut state: Self::State,
        words: [[u32; 4]; K],
        of: impl Fn([u32; 4]) -> [f32; V],
        [at, step]: [u32; 2],
    ) -> Self::State {
        let mut i = 0;
        while i < K {
            state = Self::add_piece(state, of(words[i]), at + i as u32 * step);
            i += 1;
        }
        state
    }
    /// The same of two threads' elements, whichever come first.
    fn merge(a: Self::State, b: Self::State) -> Self::State;
    fn value(state: Self::State) -> f32;
    fn place(state: Self::State) -> u32;
}

/// The values of a piece combined: neighbours of the two halves first.
#[inline(always)]
fn halved<const V: usize>(mut x: [f32; V], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut left = V;
    while left > 1 {
        left /= 2;
        let mut i = 0;
        while i < left {
            x[i] = f(x[i], x[i + left]);
            i += 1;
        }
    }
    x[0]
}

/// What is folded of an element, where that is the element.
#[inline(always)]
fn itself(x: f32) -> f32 {
    x
}

macro_rules! folds {
    ($($(#[$doc:meta])* $name:ident: $neutral:expr, $flips:literal, $of:expr, $f:expr;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Fold for $name {
            type State = f32;
            const NEUTRAL: f32 = $neutral;
            const START: f32 = $neutral;
            const FLIPS: bool = $flips;
            const PLACES: bool = false;

            #[inline(always)]
            fn add(state: f32, x: f32, _: u32) -> f32 {
                $f(state, $of(x))
            }
            #[inline(always)]
            fn add_piece<const V: usize>(state: f32, mut x: [f32; V], _: u32) -> f32 {
                let mut i = 0;
                while i < V {
                    x[i] = $of(x[i]);
                    i += 1;
                }
                $f(state, halved(x, $f))
            }
            #[inline(always)]
            fn merge(a: f32, b: f32) -> f32 {
                $f(a, b)
            }
            #[inline(always)]
            fn value(state: f32) -> f32 {
                state
            }
            #[inline(always)]
            fn place(_: f32) -> u32 {
                0
            }
        }
    )* };
}
folds! {
    /// Their sum.
    Sum: 0.0, false, itself, |a: f32, b: f32| a + b;
    /// The sum of their squares.
    Squares: 0.0, false, |x: f32| x * x, |a: f32, b: f32| a + b;
    /// Their product.
    Product: 1.0, false, itself, |a: f32, b: f32| a * b;
    /// The largest; NaN where one is.
    Largest: f32::NEG_INFINITY, true, itself, math::max_nan;
}

/// The place of the largest: of the first NaN where there is one, or else of the first of equal ones.
#[derive(Clone, Copy)]
pub(crate) struct LargestPlace;

/// The place of the first element that is this value, the largest, or of the first NaN: one of the elements is.
#[inline(always)]
fn first_of<const V: usize>(x: [f32; V], value: f32) -> u32 {
    let (mut first, mut i) = (V as u32 - 1, V - 1);
    while i > 0 {
        i -= 1;
        first = if x[i] == value || x[i].is_nan() { i as u32 } else { first };
    }
    first
}

impl Fold for LargestPlace {
    type State = Placed;
    const NEUTRAL: f32 = f32::NEG_INFINITY;
    /// Farther behind than all that there is.
    const START: Placed = Placed { rank: rank(f32::NEG_INFINITY), at: u32::MAX };
    const FLIPS: bool = true;
    const PLACES: bool = true;

    #[inline(always)]
    fn add(state: Placed, x: f32, at: u32) -> Placed {
        let rank = rank(x);
        if rank > state.rank { Placed { rank, at } } else { state }
    }
    #[inline(always)]
    fn add_piece<const V: usize>(mut state: Placed, x: [f32; V], at: u32) -> Placed {
        let value = halved(x, math::max_nan);
        let rank = rank(value);
        if rank > state.rank {
            state = Placed { rank, at: at + first_of(x, value) };
        }
        state
    }
    /// Several at once: where one exceeds what was before, which the first ones of a row always do, one of them is searched.
    #[inline(always)]
    fn add_pieces<const K: usize, const V: usize>(
        mut state: Placed,
        words: [[u32; 4]; K],
        of: impl Fn([u32; 4]) -> [f32; V],
        [at, step]: [u32; 2],
    ) -> Placed {
        let largest = words.map(|words| halved(of(words), math::max_nan));
        let (mut value, mut i) = (largest[0], 1);
        while i < K {
            value = math::max_nan(value, largest[i]);
            i += 1;
        }
        let rank = rank(value);
        if rank > state.rank {
            let (mut piece, mut first, mut i) = (words[K - 1], at + (K as u32 - 1) * step, K - 1);
            while i > 0 {
                i -= 1;
                if largest[i] == value || largest[i].is_nan() {
                    (piece, first) = (words[i], at + i as u32 * step);
                }
            }
            state = Placed { rank, at: first + first_of(of(piece), value) };
        }
        state
    }
    #[inline(always)]
    fn merge(a: Placed, b: Placed) -> Placed {
        if b.precedence() > a.precedence() { b } else { a }
    }
    #[inline(always)]
    fn value(_: Placed) -> f32 {
        0.0
    }
    /// Where nothing exceeded negative infinity all are that.
    #[inline(always)]
    fn place(state: Placed) -> u32 {
        if state.at == u32::MAX { 0 } else { state.at }
    }
}
