//! Fragment layouts lose no element, and what they say about registers holds in every thread.

use tilewright_device::layout::{FragmentLayout, FullRow, Warpgroup};

use crate::table::{Layout, layouts, spread, striped, threads};

fn for_each(check: impl Fn(&Layout)) {
    layouts().iter().chain(&striped()).chain(&spread()).chain(&threads()).for_each(check);
}

#[test]
fn every_element_has_one_owner() {
    for_each(|layout| {
        let (m, n) = layout.shape;
        assert_eq!(layout.threads as usize * layout.registers, (m * n) as usize, "{}", layout.name);
        for place in layout.places() {
            // As many places as elements, each of which leads back to its place: no two hold the same element.
            let (row, col) = (layout.coord)(place.0, place.1);
            assert!(row < m && col < n, "{}: {place:?} holds ({row}, {col})", layout.name);
            assert_eq!((layout.owner)(row, col), place, "{}: ({row}, {col})", layout.name);
        }
    });
}

#[test]
fn offsets_are_the_same_in_every_thread() {
    for_each(|layout| {
        for (thread, i) in layout.places() {
            let (first, here, offset) =
                ((layout.coord)(thread, 0), (layout.coord)(thread, i), (layout.offset)(i));
            let expected = (first.0 + offset.0, first.1 + offset.1);
            assert_eq!(here, expected, "{}: register {i} of thread {thread}", layout.name);
        }
    });
}

#[test]
fn rows_number_the_rows_of_a_thread() {
    for_each(|layout| {
        for thread in 0..layout.threads {
            let mut numbered = vec![None; layout.rows];
            for i in 0..layout.registers {
                let row = (layout.coord)(thread, i).0;
                let known = numbered[(layout.row)(i)].get_or_insert(row);
                assert_eq!(*known, row, "{}: register {i} of thread {thread}", layout.name);
            }
            let mut rows: Vec<_> = numbered.into_iter().flatten().collect();
            rows.dedup();
            assert_eq!(rows.len(), layout.rows, "{}: rows of thread {thread}", layout.name);
        }
    });
}

#[test]
fn columns_number_the_columns_of_a_thread() {
    for_each(|layout| {
        for thread in 0..layout.threads {
            let mut numbered = vec![None; layout.cols];
            for i in 0..layout.registers {
                let (number, col) = ((layout.col)(i), (layout.coord)(thread, i).1);
                let known = numbered[number].get_or_insert(col);
                assert_eq!(*known, col, "{}: register {i} of thread {thread}", layout.name);
                let first = i - i % layout.run;
                assert_eq!(number, (layout.col)(first) + i % layout.run, "{}: register {i}", layout.name);
            }
            let mut cols: Vec<_> = numbered.into_iter().flatten().collect();
            let count = cols.len();
            cols.dedup();
            assert_eq!(cols.len(), count, "{}: columns of thread {thread}", layout.name);
        }
    });
}

/// What a row reduction relies on: exchanging with these lanes reaches all the row's elements in the unit.
#[test]
fn row_lanes_hold_the_rest_of_a_row() {
    for_each(|layout| {
        let (m, n) = layout.shape;
        let width = n / layout.units.1;
        let group = |thread: u32| thread / (layout.row_lanes * layout.row_warps);
        let mut seen = vec![0; (m * layout.units.1) as usize];
        for (thread, i) in layout.places() {
            let (row, col) = (layout.coord)(thread, i);
            let part = (row * layout.units.1 + col / width) as usize;
            if seen[part] == 0 {
                seen[part] = group(thread) + 1;
            }
            assert_eq!(seen[part], group(thread) + 1, "{}: ({row}, {col})", layout.name);
        }
    });
}

/// What masks of a row's columns rely on: the columns that a thread holds ascend, in runs with a period.
#[test]
fn runs_have_a_period() {
    for_each(|layout| {
        let period = layout.run as u32 * layout.row_lanes * layout.row_warps;
        for thread in 0..layout.threads {
            let first = (layout.coord)(thread, 0).1;
            let mut held = vec![0; layout.rows];
            for i in 0..layout.registers {
                let k = &mut held[(layout.row)(i)];
                let expected = first + *k / layout.run as u32 * period + *k % layout.run as u32;
                assert_eq!(
                    (layout.coord)(thread, i).1,
                    expected,
                    "{}: register {i} of thread {thread}",
                    layout.name
                );
                *k += 1;
            }
        }
    });
}

#[test]
fn runs_are_neighbours() {
    for_each(|layout| {
        assert!(layout.run.is_power_of_two() && layout.registers % layout.run == 0, "{}", layout.name);
        for (thread, i) in layout.places() {
            let (first, here) = ((layout.coord)(thread, i - i % layout.run), (layout.coord)(thread, i));
            let expected = (first.0, first.1 + (i % layout.run) as u32);
            assert_eq!(here, expected, "{}: register {i} of thread {thread}", layout.name);
            assert_eq!(first.1 as usize % layout.run, 0, "{}: register {i} of thread {thread}", layout.name);
        }
    });
}

/// Neighbouring lanes hold neighbouring pieces: 16-byte accesses of a warp are whole lines of memory.
#[test]
fn striped_rows_are_accessed_in_one_sweep() {
    for layout in striped() {
        for thread in 1..layout.threads {
            let (before, here) = ((layout.coord)(thread - 1, 0), (layout.coord)(thread, 0));
            let next = if (before.1 + 8) % (layout.row_lanes * 8) == 0 {
                (before.0 + 1, 0)
            } else {
                (before.0, before.1 + 8)
            };
            assert_eq!(here, next, "{}: thread {thread}", layout.name);
        }
    }
}

/// So too where rows are spread over several warps.
#[test]
fn spread_rows_are_accessed_in_one_sweep() {
    for layout in spread() {
        let (step, width) = (layout.run as u32, layout.row_lanes * layout.row_warps * layout.run as u32);
        for thread in 0..layout.threads {
            let piece = thread * step;
            assert_eq!(
                (layout.coord)(thread, 0),
                (piece / width, piece % width),
                "{}: thread {thread}",
                layout.name
            );
        }
    }
}

/// A role's policy is that of one warpgroup alone, in other threads.
#[test]
fn one_warpgroup_holds_what_the_first_would() {
    fn assert_shifted<const G: usize, const N: usize>()
    where
        Warpgroup<G>: FragmentLayout<64, N>,
        FullRow<1>: FragmentLayout<64, N>,
    {
        for (thread, i) in (0..128).flat_map(|thread| (0..N / 2).map(move |i| (thread, i))) {
            let (row, col) = <Warpgroup<G> as FragmentLayout<64, N>>::coord(128 * G as u32 + thread, i);
            assert_eq!((row, col), <FullRow<1> as FragmentLayout<64, N>>::coord(thread, i));
            let owner = <Warpgroup<G> as FragmentLayout<64, N>>::owner(row, col);
            assert_eq!(owner, (128 * G as u32 + thread, i));
        }
    }
    assert_shifted::<0, 64>();
    assert_shifted::<1, 64>();
    assert_shifted::<2, 128>();
}
