//! Where results differ from what they should be.

use crate::element::{Element, Number};
use crate::result::Expected;

/// Where a buffer is not what it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The buffer's name.
    pub name: String,
    /// What it was compared with, in words.
    pub with: String,
    /// How many elements differ by more than they may.
    pub count: usize,
    /// How many elements there are.
    pub of: usize,
    /// The first of them.
    pub first: Place,
    /// The one that differs most.
    pub most: Place,
}

/// An element that differs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Its number from 0, in the order of memory.
    pub index: usize,
    /// What it is.
    pub found: Number,
    /// What it should be.
    pub expected: Number,
}

impl Place {
    /// By how much.
    fn distance(&self) -> f64 {
        let distance = match (self.found, self.expected) {
            (Number::Integer(found), Number::Integer(expected)) => found.abs_diff(expected) as f64,
            (found, expected) => (found.float() - expected.float()).abs(),
        };
        if distance.is_nan() { f64::INFINITY } else { distance }
    }
}

/// A buffer's difference from what was expected, if there is one.
pub fn with_expected(name: &str, element: Element, found: &[u8], expected: &Expected) -> Option<Difference> {
    let Expected { path, numbers, relative, absolute } = expected;
    let differs = |place: &Place| {
        let (found, expected) = (place.found.float(), place.expected.float());
        let same = match (place.found, place.expected) {
            (Number::Integer(found), Number::Integer(expected)) => found == expected,
            _ => found == expected || found.is_nan() && expected.is_nan(),
        };
        // Infinities and NaN are near nothing else, whatever the tolerance is.
        let near = expected.is_finite() && place.distance() <= absolute + relative * expected.abs();
        !same && !near
    };
    let places = found
        .chunks_exact(element.bytes())
        .zip(numbers)
        .enumerate()
        .map(|(index, (found, expected))| Place { index, found: element.decode(found), expected: *expected })
        .filter(differs);
    difference(name, path.display().to_string(), numbers.len(), places)
}

/// A buffer's difference from what another run left in it, if there is one: its bytes must be the same.
pub fn with_run(name: &str, element: Element, found: &[u8], other: &[u8], run: &str) -> Option<Difference> {
    let size = element.bytes();
    let places = found
        .chunks_exact(size)
        .zip(other.chunks_exact(size))
        .enumerate()
        .filter(|(_, (found, other))| found != other)
        .map(|(index, (found, other))| Place {
            index,
            found: element.decode(found),
            expected: element.decode(other),
        });
    difference(name, format!("the run in {run}"), found.len() / size, places)
}

fn difference(
    name: &str,
    with: String,
    of: usize,
    mut places: impl Iterator<Item = Place>,
) -> Option<Difference> {
    let first = places.next()?;
    let (mut count, mut most) = (1, first);
    for place in places {
        count += 1;
        if place.distance() > most.distance() {
            most = place;
        }
    }
    Some(Difference { name: name.to_owned(), with, count, of, first, most })
}

#[cfg(test)]
mod tests {
    use super::{with_expected, with_run};
    use crate::element::{Element, Number};
    use crate::result::Expected;

    fn expected(numbers: &[f64], relative: f64, absolute: f64) -> Expected {
        let numbers = numbers.iter().map(|x| Number::Float(*x)).collect();
        Expected { path: "x.npy".into(), numbers, relative, absolute }
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn tolerances_bound_differences() {
        let found = bytes(&[1.0, 2.0, 4.5, f32::NAN, f32::INFINITY]);
        let numbers = [1.0, 2.25, 4.0, f64::NAN, f64::INFINITY];
        let compare = |relative, absolute| {
            with_expected("y", Element::F32, &found, &expected(&numbers, relative, absolute))
        };
        assert_eq!(compare(0.125, 0.0), None);
        assert_eq!(compare(0.0, 0.5), None);
        let difference = compare(0.0, 0.25).unwrap();
        assert_eq!((difference.count, difference.of, difference.first.index), (1, 5, 2));
        let difference = compare(0.0, 0.0).unwrap();
        assert_eq!((difference.count, difference.first.index, difference.most.index), (2, 1, 2));
    }

    #[test]
    fn what_is_no_number_is_near_nothing() {
        let compare = |found: f32, expects: f64| {
            with_expected("y", Element::F32, &bytes(&[found]), &expected(&[expects], 1.0, 1.0)).is_some()
        };
        assert!(compare(f32::NAN, 1.0) && compare(1.0, f64::NAN));
        assert!(compare(1.0, f64::INFINITY) && compare(f32::INFINITY, 1.0));
        assert!(compare(f32::INFINITY, f64::NEG_INFINITY));
        assert!(!compare(-0.0, 0.0));
    }

    #[test]
    fn runs_have_the_same_bytes() {
        let (one, other) = (bytes(&[1.0, f32::NAN, 0.0]), bytes(&[1.0, f32::NAN, -0.0]));
        assert_eq!(with_run("y", Element::F32, &one, &one, "fixed order"), None);
        let difference = with_run("y", Element::F32, &one, &other, "fixed order").unwrap();
        assert_eq!((difference.count, difference.first.index), (1, 2));
        assert_eq!(difference.with, "the run in fixed order");
    }
}
