//! What the tests of row-wise operators share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use tilewright::ops::{FloatElement, kernels};
use tilewright::{Device, Result};
use tilewright_support::Real;
use tilewright_support::guarded::{Guarded, Place};
use tilewright_support::watched;

/// An element type of these operators.
pub trait Number: Real + FloatElement {}

impl<T: Real + FloatElement> Number for T {}

/// The lengths of rows that are tested, those that kernels have room for among them.
pub const LENGTHS: [usize; 21] = [
    1, 8, 31, 32, 33, 64, 127, 256, 333, 1000, 1024, 4096, 5121, 8191, 8192, 16384, 32768, 65536, 131_072,
    262_144, 262_145,
];

/// The kernels whose names begin so, of an element type, that the device runs and are to.
pub fn runnable<T: Number>(device: &Device, prefix: &str) -> BTreeSet<&'static str> {
    let element = format!("_{}_", T::DTYPE);
    let fits = |name: &str| name.starts_with(prefix) && name.contains(&element);
    let runs = |name| fits(name) && watched::runs(name);
    kernels().filter(|e| device.runs(e.arch) && runs(e.name)).map(|e| e.name).collect()
}

/// Which of the kernels that can compute a call the emulator tries: a GPU tries all.
#[derive(Clone, Copy, Debug)]
pub enum Tried {
    /// What calls of these shapes might choose: up to thrice the estimate of the fastest.
    Likely,
    /// The first, likely ones that few lengths were tried with, every third of the other likely ones, and every fifth of the rest, which waste
    /// most of their lanes: each at some lengths.
    InTurn(usize),
}

/// How many lengths each kernel was tried with in turn.
static IN_TURN: Mutex<BTreeMap<&str, u32>> = Mutex::new(BTreeMap::new());

impl Tried {
    /// The names of the kernels to try, of candidates' names and estimates in the order of preference.
    pub fn of(
        self,
        device: &Device,
        all: impl Iterator<Item = (&'static str, Option<u64>)>,
    ) -> Vec<&'static str> {
        let possible: Vec<_> = all.filter_map(|(name, cycles)| Some((name, cycles?))).collect();
        let most = possible.first().map_or(0, |&(_, cycles)| 3 * cycles);
        let mut lengths = IN_TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let tried = possible.into_iter().enumerate().filter(|&(i, (name, cycles))| match self {
            _ if !device.is_emulator() => true,
            Tried::Likely => cycles <= most,
            Tried::InTurn(turn) => {
                let before = lengths.entry(name).or_default();
                let taken = match cycles <= most {
                    true => i == 0 || *before < 3 || (i + turn).is_multiple_of(3),
                    false => (i + turn).is_multiple_of(5),
                };
                *before += u32::from(taken);
                taken
            }
        });
        tried.map(|(_, (name, _))| name).filter(|name| watched::runs(name)).collect()
    }
}

/// Rows one behind the other.
pub fn packed(rows: usize, cols: usize) -> Place {
    Place::by_rows([1, rows, cols], cols)
}

/// A poisoned output at this place.
pub fn output<T: Number>(device: &Device, place: Place) -> Result<Guarded<T>> {
    Guarded::at(device, place)
}

/// Checks that every element is what `allowed` says of it, NaN where it is NaN, and that nothing else was written.
#[track_caller]
pub fn assert_rows<T: Number>(
    what: &str,
    y: &Guarded<T>,
    exact: &[f64],
    inside_poison: usize,
    allowed: impl Fn(f64) -> f64,
) {
    assert_each(what, y, exact, inside_poison, |i| allowed(exact[i]));
}

/// The same, of what `allowed` says of the element of each number.
#[track_caller]
pub fn assert_each<T: Number>(
    what: &str,
    y: &Guarded<T>,
    exact: &[f64],
    inside_poison: usize,
    allowed: impl Fn(usize) -> f64,
) {
    let (y, outside) = y.read().expect("the output can be read");
    assert_eq!(outside, 0, "{what}: elements outside were written");
    assert_eq!(y.len(), exact.len(), "{what}");
    let mut unwritten = 0;
    for (i, (&y, &exact)) in T::widen(&y).iter().zip(exact).enumerate() {
        let (y, allowed) = (f64::from(y), allowed(i));
        let right = y == exact || (y.is_nan() && exact.is_nan()) || (y - exact).abs() <= allowed;
        assert!(right, "{what}: element {i} is {y:e}, must be {exact:e}, to within {allowed:e}");
        unwritten += usize::from(y.is_nan());
    }
    assert_eq!(unwritten, inside_poison, "{what}: NaN");
}
