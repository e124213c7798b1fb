//! Queries each of which sees the blocks of keys of its own list, as in native sparse attention.

use tilewright::ops::{Attention, AttentionViews};
use tilewright::{Device, Error, Result, Stream, Tensor, bf16, f16};
use tilewright_support::attention::{Row, Scores};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;
use tilewright_support::watched;

use crate::case::{Case, Input, Sizes};
use crate::operand::Place;
use crate::sparse::mixed;
use crate::terms::Terms;

/// Each query's list of blocks of keys.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Keys of a block.
    pub block: usize,
    /// Sequences and KV heads that have lists of their own, 1 where all share them; queries; numbers of a list.
    pub shape: [usize; 4],
    pub numbers: Vec<i32>,
}

/// What names no block.
const NONE: [i32; 5] = [-1, i32::MAX, i32::MIN, 1 << 24, -7];

impl Selection {
    /// In no order: `most` blocks or fewer, of all that there are, so that some lie behind a query's position, and numbers that name none. Every fifth list is empty, and every
    /// third has the block in which the query's own key lies.
    pub fn random(sizes: Sizes, block: usize, most: usize, [of_batch, of_heads]: [bool; 2]) -> Self {
        let Sizes { batch, kv_heads, queries, keys, .. } = sizes;
        let shape = [if of_batch { batch } else { 1 }, if of_heads { kv_heads } else { 1 }, queries, most];
        let all = keys.div_ceil(block);
        let mut numbers = Vec::new();
        for row in 0..shape[0] * shape[1] * queries {
            let own = (row % queries + keys).checked_sub(queries).map(|key| key / block);
            let wanted = if row % 5 == 4 { 0 } else { most.saturating_sub(mixed(row) % 2) };
            let mut list: Vec<_> = (0..all).collect();
            list.sort_by_key(|&j| (row % 3 != 0 || Some(j) != own, mixed((j, row))));
            list.truncate(wanted);
            let mut list: Vec<_> = list.into_iter().map(|j| j as i32).collect();
            list.extend((list.len()..most).map(|i| NONE[(row + i) % NONE.len()]));
            list.sort_by_key(|&j| mixed((row, j)));
            numbers.extend(list);
        }
        Selection { block, shape, numbers }
    }

    pub fn tensor(&self, device: &Device) -> Result<Tensor<i32>> {
        Tensor::from_slice(device, &self.numbers, &self.shape)
    }

    /// The keys of a query's list, as often as it names them.
    fn keys(&self, (batch, kv_head): (usize, usize), query: usize, keys: usize) -> Vec<usize> {
        let [batches, heads, queries, most] = self.shape;
        let row = (batch % batches * heads + kv_head % heads) * queries + query;
        let of_block = |&number: &i32| {
            let first = usize::try_from(number).map_or(keys, |number| (number * self.block).min(keys));
            first..(first + self.block).min(keys)
        };
        self.numbers[row * most..][..most].iter().flat_map(of_block).collect()
    }
}

impl<T: Input> Case<T> {
    fn selection(self, selection: Selection) -> Self {
        Case { selection: Some(selection), ..self }
    }

    fn causal(self) -> Self {
        Case { scores: Scores { causal: true, ..self.scores }, ..self }
    }

    /// The reference's row of a query of a sequence's head.
    pub fn selected_row(
        &self,
        of: &Selection,
        (batch, head): (usize, usize),
        i: usize,
        scores: Scores,
    ) -> Row {
        let Sizes { heads, kv_heads, keys, .. } = self.sizes;
        let length = self.cache.length(batch, keys);
        let kv_head = head / (heads / kv_heads);
        self.row_of((batch, head), i, scores, (of.keys((batch, kv_head), i, length), length))
    }
}

/// Two heads of keys of two sequences, each of a group of heads.
fn sizes(group: usize, queries: usize, keys: usize, columns: [usize; 2]) -> Sizes {
    Sizes { batch: 2, heads: 2 * group, kv_heads: 2, queries, keys, columns }
}

/// Every kernel by its name.
pub fn kernels(device: &Device) -> Outcome {
    fn of<T: Input>(device: &Device, queries: usize, keys: usize) -> Outcome {
        let groups = [1, 4, 16, 70, 3];
        let columns = [[64, 64], [128, 128], [192, 128], [256, 256], [40, 72]];
        for (group, columns) in groups.into_iter().zip(columns) {
            let size = sizes(group, queries, keys, columns);
            let selection = Selection::random(size, 64, 3, [true; 2]);
            let case = Case::<T>::new(size).selection(selection).causal();
            let names = case.names(device)?;
            assert!(names.iter().all(|name| name.contains("_selected_")), "{names:?}");
            let mut names = names.into_iter().filter(|name| watched::runs(name));
            names.try_for_each(|name| case.run(device, Some(name)))?;
        }
        Ok(())
    }
    of::<f16>(device, 7, 330)?;
    of::<bf16>(device, 2, 200)
}

/// Lengths at the edges of blocks, more queries than keys, lists that are shared and not, with and without a mask, windows and sinks.
pub fn lengths(device: &Device) -> Outcome {
    let lengths = [(1, 1), (70, 64), (65, 65), (3, 300), (100, 30), (9, 0), (130, 383)];
    for (i, (queries, keys)) in lengths.into_iter().enumerate() {
        for (j, block) in [64, 128, 192].into_iter().enumerate() {
            let columns = [[64, 64], [128, 128], [64, 40]][(i + j) % 3];
            let size = sizes([1, 4, 2][j], queries, keys, columns);
            let selection = Selection::random(size, block, 1 + (i + j) % 4, [j % 2 == 0, (i + j) % 2 == 0]);
            let terms = Terms { sinks: i % 2 == 0, ..Terms::default() };
            let case = Case::<f16>::new(size).selection(selection).terms(terms);
            let scores = case.scores;
            let window = [None, Some([100, 0]), None][j];
            case.scores(Scores { causal: i % 3 < 2, window, ..scores }).check(device)?;
        }
    }
    Ok(())
}

/// Tensors in other orders, with gaps, misaligned.
pub fn places(device: &Device) -> Outcome {
    let size = sizes(2, 20, 140, [64, 72]);
    let of: [fn([usize; 4]) -> Place; 5] = [
        Place::bshd,
        |shape| Place::ordered(shape, [2, 0, 1, 3], 8),
        |shape| Place::bhsd(shape).shifted(8),
        |shape| Place::bshd(shape).shifted(1),
        |shape| Place::ordered(shape, [0, 1, 3, 2], 0),
    ];
    for place in of {
        for splits in [1, 2] {
            let selection = Selection::random(size, 64, 2, [true; 2]);
            let mut case = Case::<bf16>::new(size).selection(selection).causal().splits(splits);
            case.places = case.places.map(|packed| place(packed.shape));
            case.check(device)?;
        }
    }
    Ok(())
}

/// Lists in parts, of one query and of several, more parts than places.
pub fn splits(device: &Device) -> Outcome {
    for (queries, splits, columns) in [(1, 1, 128), (1, 3, 64), (1, 9, 128), (5, 2, 128), (3, 4, 256)] {
        let size = sizes(4, queries, 900, [columns; 2]);
        let selection = Selection::random(size, 128, 4, [true; 2]);
        Case::<f16>::new(size).selection(selection).causal().splits(splits).check(device)?;
    }
    Ok(())
}

/// Caches with lengths of sequences and pages of all sizes: what lies behind a sequence's keys is NaN.
pub fn caches(device: &Device) -> Outcome {
    for (i, page) in [None, Some(8), Some(64), Some(256)].into_iter().enumerate() {
        let size = Sizes { batch: 4, ..sizes(4, 1 + 2 * (i % 2), 512, [128, 64]) };
        for lengths in [Some(vec![500, 0, 33, 256]), None] {
            let selection = Selection::random(size, 64, 6, [true; 2]);
            let case = Case::<bf16>::new(size).selection(selection).cache(lengths, page);
            case.causal().splits(1 + i % 3).check_all(device)?;
        }
    }
    Ok(())
}

/// Blocks that are listed twice count twice; lists without room, and numbers that name no block.
pub fn strays(device: &Device) -> Outcome {
    let size = Sizes { batch: 1, heads: 2, kv_heads: 1, ..sizes(1, 4, 200, [64, 64]) };
    let numbers = [[1, 1, 3, 0], [-1, 4, i32::MAX, i32::MIN], [3, -7, 1 << 24, 3], [2, 2, 2, 2]].concat();
    let twice = Selection { block: 64, shape: [1, 1, 4, 4], numbers };
    let empty = Selection { block: 64, shape: [1, 1, 4, 0], numbers: Vec::new() };
    for selection in [twice, empty] {
        Case::<f16>::new(size).selection(selection.clone()).check_all(device)?;
        Case::<f16>::new(size).selection(selection).causal().check_all(device)?;
    }
    Ok(())
}

/// What no query's list names and what lies behind its position is not used: NaN there reaches nobody.
pub fn unlisted(device: &Device) -> Outcome {
    let size = Sizes { batch: 1, heads: 4, kv_heads: 1, ..sizes(1, 1, 320, [128, 128]) };
    // The query's own key is the 200th: block 3 ends in its midst, block 4 lies behind it.
    let size = Sizes { queries: 121, ..size };
    let numbers = (0..121).flat_map(|i| if i == 0 { [3, 4, 0] } else { [-1, -1, -1] }).collect();
    let selection = Selection { block: 64, shape: [1, 1, 121, 3], numbers };
    let mut case = Case::<bf16>::new(size).selection(selection).causal();
    for input in &mut case.inputs[1..] {
        input[64 * 128..192 * 128].fill(bf16::NAN);
        input[200 * 128..].fill(bf16::NAN);
    }
    case.beside_nan = 0..0;
    case.check_all(device)
}

/// A graph replays it with other lists; a plan takes numbers of all types, of any strides.
pub fn replay(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let size = sizes(2, 6, 200, [64, 64]);
    let [q, k, ..] = size.shapes();
    let of = |seed, shape: [usize; 4]| {
        Tensor::from_slice(device, &normal::<f16>(seed, shape.iter().product()), &shape)
    };
    let (q, k, v) = (of(1, q)?, of(2, k)?, of(3, k)?);
    let (q, k, v) = (q.view(), k.view(), v.view());
    let mut lists = Selection::random(size, 64, 3, [true; 2]).tensor(device)?;
    let poison = vec![f16::NAN; q.len()];
    let mut o = Tensor::from_slice(device, &poison, q.shape())?;
    let graph = {
        let mut o = o.view_mut();
        let mut attention = Attention::new().causal().splits(1).selected_blocks(lists.view(), 64);
        attention.run(&stream, &q, &k, &v, &mut o)?;
        stream.synchronize()?;
        stream.capture(|stream| attention.run(stream, &q, &k, &v, &mut o))?
    };
    for seed in 0..3 {
        let mut next = Selection::random(size, 64, 3, [true; 2]);
        next.numbers.rotate_left(7 * seed);
        lists.write(&next.numbers)?;
        o.write(&poison)?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        let replayed = o.to_vec_on(&stream)?;
        // Lists of 64 bits, transposed in memory, in a plan.
        let wide: Vec<i64> = next.numbers.iter().map(|&number| i64::from(number)).collect();
        let wide: Vec<i64> = (0..3).flat_map(|i| wide.iter().skip(i).step_by(3).copied()).collect();
        let wide = Tensor::from_slice(device, &wide, &[3, 2, 2, 6])?;
        let wide = wide.view().transpose(0, 1)?.transpose(1, 2)?.transpose(2, 3)?;
        let mut planned = Tensor::from_slice(device, &poison, q.shape())?;
        let plan = Attention::new().causal().splits(1).selected_blocks(&wide, 64);
        let plan = plan.plan(&q, &k, &v, &planned.view_mut())?;
        let mut views = AttentionViews::default();
        let missing = plan.run(&stream, &q, &k, &v, &mut planned.view_mut(), &mut views);
        assert!(matches!(missing, Err(Error::Argument { argument, .. }) if argument == "selected_blocks"));
        views.selected_blocks = Some(wide.into());
        plan.run(&stream, &q, &k, &v, &mut planned.view_mut(), &mut views)?;
        assert_eq!(replayed, planned.to_vec_on(&stream)?);
        let case = Case::<f16>::new(size).selection(next).causal();
        case.compare(&replayed.iter().map(|x| x.to_f32()).collect::<Vec<_>>(), None)?;
    }
    Ok(())
}
