//! Which launches batches take.

use super::*;
use crate::ops::gemm::batches::Batches;

/// Shape and strides of a matrix or of a batch of them.
type Lies<'a> = (&'a [usize], &'a [usize]);

/// Where a matrix begins in bytes, its shape and strides.
type Seen = (u64, Vec<usize>, Vec<usize>);

/// Where A, B and C begin in each launch, in bytes, their shapes and strides.
fn launches(a: Lies<'_>, b: Lies<'_>, c: Lies<'_>, bias: Option<Lies<'_>>) -> Vec<[Seen; 3]> {
    let (device, _) = fake::h200();
    let view = |at, (shape, strides): Lies<'_>| view::<f16>(&device, at, shape, strides);
    let bias = bias.map(|bias| view(BIAS, bias));
    let c = view_mut::<f16>(&device, C, c.0, c.1);
    let batches = Batches::new(&view(A, a), &view(B, b), &c, bias.as_ref(), false).unwrap();
    let seen = |tensor: crate::tensor::Untyped, from| {
        (tensor.address - from, tensor.layout.shape().to_vec(), tensor.layout.strides().to_vec())
    };
    batches.launches().map(|of| [seen(of.a, A), seen(of.b, B), seen(of.c, C)]).collect()
}

/// Shapes and strides of A, B and C where one launch takes all.
fn one(a: Lies<'_>, b: Lies<'_>, c: Lies<'_>, bias: Option<Lies<'_>>) -> [(Vec<usize>, Vec<usize>); 3] {
    match &launches(a, b, c, bias)[..] {
        [all] => all.clone().map(|(address, shape, strides)| {
            assert_eq!(address, 0);
            (shape, strides)
        }),
        more => panic!("{} launches", more.len()),
    }
}

fn lies<const N: usize>(shape: [usize; N], strides: [usize; N]) -> (Vec<usize>, Vec<usize>) {
    (shape.to_vec(), strides.to_vec())
}

const WEIGHT: Lies<'static> = (&[64, 32], &[1, 64]);

#[test]
fn rows_of_a_batch_with_one_b_are_one_matrix() {
    let bias: Lies<'_> = (&[32], &[1]);
    for (x, y) in [
        ((&[2, 3, 5, 64][..], &[960, 320, 64, 1][..]), (&[2, 3, 5, 32][..], &[480, 160, 32, 1][..])),
        ((&[30, 64], &[64, 1]), (&[30, 32], &[32, 1])),
        // Of single rows the strides mean nothing.
        ((&[30, 1, 64], &[64, 7, 1]), (&[30, 1, 32], &[32, 9, 1])),
    ] {
        let expected =
            [lies([1, 30, 64], [0, 64, 1]), lies([1, 64, 32], [0, 1, 64]), lies([1, 30, 32], [0, 32, 1])];
        assert_eq!(one(x, WEIGHT, y, Some(bias)), expected);
    }
    // Each head has a weight that all sequences share: the rows of a head go on from one sequence to the next.
    let heads = one(
        (&[2, 3, 5, 64], &[960, 64, 192, 1]),
        (&[3, 64, 32], &[2048, 32, 1]),
        (&[2, 3, 5, 32], &[480, 32, 96, 1]),
        None,
    );
    assert_eq!(heads[0], lies([3, 10, 64], [64, 192, 1]));
    assert_eq!(heads[1], lies([3, 64, 32], [2048, 32, 1]));
    assert_eq!(heads[2], lies([3, 10, 32], [32, 96, 1]));
}

#[test]
fn dimensions_that_are_uneven_take_launches() {
    let b: Lies<'_> = (&[2, 7, 64, 32], &[20480, 2048, 32, 1]);
    let c: Lies<'_> = (&[2, 7, 5, 32], &[1120, 160, 32, 1]);
    // A skips memory behind the seven matrices.
    let all = launches((&[2, 7, 5, 64], &[2560, 320, 64, 1]), b, c, None);
    let bytes: Vec<_> = all.iter().map(|of| of.clone().map(|(at, ..)| at / 2)).collect();
    assert_eq!(bytes, [[0, 0, 0], [2560, 20480, 1120]]);
    for [a, b, c] in all {
        assert_eq!([&a.1, &b.1, &c.1], [&[7, 5, 64], &[7, 64, 32], &[7, 5, 32]]);
    }
}

#[test]
fn columns_of_a_batch_with_one_a_are_one_matrix() {
    // By columns: what a framework that counts the other way round calls its rows.
    let [a, b, c] =
        one((&[32, 64], &[64, 1]), (&[7, 64, 5], &[320, 1, 64]), (&[7, 32, 5], &[160, 1, 32]), None);
    assert_eq!([a, b], [lies([1, 32, 64], [0, 64, 1]), lies([1, 64, 35], [0, 1, 64])]);
    assert_eq!(c, lies([1, 32, 35], [0, 1, 32]));
}

#[test]
fn what_does_not_go_on_evenly_stays_a_batch() {
    let x: Lies<'_> = (&[4, 5, 64], &[320, 64, 1]);
    let y: Lies<'_> = (&[4, 5, 32], &[160, 32, 1]);
    // Gaps between matrices, another bias for each, or rows of all in turn.
    let gap = one((&[4, 5, 64], &[384, 64, 1]), WEIGHT, y, None);
    assert_eq!(gap[0], lies([4, 5, 64], [384, 64, 1]));
    assert_eq!(gap[1], lies([4, 64, 32], [0, 1, 64]));
    let biased = one(x, WEIGHT, y, Some((&[4, 1, 32], &[32, 32, 1])));
    assert_eq!(biased[2], lies([4, 5, 32], [160, 32, 1]));
    let turns = one(x, WEIGHT, (&[4, 5, 32], &[32, 128, 1]), None);
    assert_eq!(turns[2], lies([4, 5, 32], [32, 128, 1]));
}

#[test]
fn dimensions_of_a_batch_are_one_where_all_matrices_step_evenly() {
    let a: Lies<'_> = (&[2, 3, 4, 5, 64], &[3840, 1280, 320, 64, 1]);
    let b: Lies<'_> = (&[2, 3, 4, 64, 32], &[24576, 8192, 2048, 32, 1]);
    let c: Lies<'_> = (&[2, 3, 4, 5, 32], &[1920, 640, 160, 32, 1]);
    let all = one(a, b, c, None);
    assert_eq!([&all[0].0, &all[1].0, &all[2].0], [&[24, 5, 64], &[24, 64, 32], &[24, 5, 32]]);
    // One B for three matrices each, as grouped heads have: rows of the three follow each other.
    let grouped = one(
        (&[2, 3, 5, 64], &[960, 320, 64, 1]),
        (&[2, 1, 64, 32], &[2048, 2048, 32, 1]),
        (&[2, 3, 5, 32], &[480, 160, 32, 1]),
        None,
    );
    assert_eq!([&grouped[0].0, &grouped[1].0, &grouped[2].0], [&[2, 15, 64], &[2, 64, 32], &[2, 15, 32]]);
    // Nothing to do is nothing to launch.
    assert!(
        launches((&[0, 3, 5, 64], &[960, 320, 64, 1]), WEIGHT, (&[0, 3, 5, 32], &[480, 160, 32, 1]), None)
            .iter()
            .all(|all| all[0].1[0] * all[0].1[1] == 0)
    );
}
