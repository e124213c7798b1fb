//! Block-sparse attention: queries that see the blocks of keys that lists name.

use std::hash::{DefaultHasher, Hash, Hasher};

use tilewright::ops::{Attention, AttentionViews};
use tilewright::{Device, Error, Result, Stream, Tensor, bf16, f16};
use tilewright_support::attention::{Head, Row, Scores};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;
use tilewright_support::watched;

use crate::case::{Case, Input, Sizes};
use crate::terms::Terms;

/// Lists of blocks of keys.
#[derive(Clone, Debug)]
pub struct Lists {
    /// Queries and keys of a block.
    pub blocks: [usize; 2],
    /// Sequences and heads that have lists of their own, 1 where all share them; blocks of queries; numbers of a list.
    pub shape: [usize; 4],
    pub numbers: Vec<i32>,
    pub counts: Vec<i32>,
}

/// What differs for each number that it is made of.
pub fn mixed(of: impl Hash) -> usize {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    (hasher.finish() >> 8) as usize
}

/// What lies behind a list's count: blocks that it would be wrong to see, and numbers that name none.
const BEHIND: [i32; 4] = [0, -1, i32::MAX, 1];

impl Lists {
    /// Random ones of so many hundredths of all blocks, in no order; of sequences and of heads, or shared by them.
    pub fn random(
        sizes: Sizes,
        blocks: [usize; 2],
        [of_batch, of_heads]: [bool; 2],
        hundredths: usize,
    ) -> Self {
        let Sizes { batch, heads, queries, keys, .. } = sizes;
        let all = keys.div_ceil(blocks[1]);
        let along = queries.div_ceil(blocks[0]);
        let shape = [if of_batch { batch } else { 1 }, if of_heads { heads } else { 1 }, along, all + 2];
        let rows = shape[0] * shape[1] * along;
        let (mut numbers, mut counts) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let mut list: Vec<_> =
                (0..all).filter(|&j| mixed((row, j, hundredths)) % 100 < hundredths).collect();
            list.sort_by_key(|&j| mixed((j, row)));
            counts.push(list.len() as i32);
            let behind = (list.len()..all + 2).map(|i| BEHIND[(row + i) % 4]);
            numbers.extend(list.iter().map(|&j| j as i32).chain(behind));
        }
        Lists { blocks, shape, numbers, counts }
    }

    /// The lists and the counts.
    pub fn tensors(&self, device: &Device) -> Result<[Tensor<i32>; 2]> {
        let [lists, counts] = [(&self.numbers, &self.shape[..]), (&self.counts, &self.shape[..3])]
            .map(|(data, shape)| Tensor::from_slice(device, data, shape));
        Ok([lists?, counts?])
    }

    /// The keys of a sequence's head that lists let a query see, as often as they do.
    pub fn keys(&self, (batch, head): (usize, usize), query: usize, keys: usize) -> Vec<usize> {
        let [batches, heads, along, most] = self.shape;
        let row = (batch % batches * heads + head % heads) * along + query / self.blocks[0];
        let count = self.counts[row].clamp(0, most as i32) as usize;
        let of_block = |&number: &i32| {
            let first = usize::try_from(number).map_or(keys, |number| (number * self.blocks[1]).min(keys));
            first..(first + self.blocks[1]).min(keys)
        };
        self.numbers[row * most..][..count].iter().flat_map(of_block).collect()
    }
}

impl<T: Input> Case<T> {
    fn lists(self, lists: Lists) -> Self {
        Case { lists: Some(lists), ..self }
    }

    /// The reference's row of a query of a sequence's head: as if there were no other keys than those that it sees.
    pub fn listed_row(&self, lists: &Lists, (batch, head): (usize, usize), i: usize, scores: Scores) -> Row {
        let keys = self.sizes.keys;
        self.row_of((batch, head), i, scores, (lists.keys((batch, head), i, keys), keys))
    }

    /// That of a query that sees these keys of a sequence's `length`, each as often as it is there, as far as a mask lets it.
    pub fn row_of(
        &self,
        (batch, head): (usize, usize),
        i: usize,
        scores: Scores,
        (listed, length): (Vec<usize>, usize),
    ) -> Row {
        let Sizes { heads, kv_heads, queries, keys, columns: [d, dv], .. } = self.sizes;
        let kv = batch * kv_heads + head / (heads / kv_heads);
        let [q, k, v] = &self.inputs;
        let masked = scores.seen(i, queries, length);
        let seen = listed.into_iter().filter(|key| masked.contains(key));
        let seen: Vec<_> = seen.collect();
        let of = |of: &[T], columns: usize| -> Vec<T> {
            seen.iter().flat_map(|key| &of[(kv * keys + key) * columns..][..columns]).copied().collect()
        };
        let (q, k, v) = (&q[((batch * heads + head) * queries + i) * d..][..d], of(k, d), of(v, dv));
        let scores = Scores { causal: false, window: None, ..scores };
        Head::new([q, &k, &v], 1, seen.len(), [d, dv]).rows(&[0], &scores).remove(0)
    }
}

/// Four heads of two sequences, two of which share keys.
fn sizes(queries: usize, keys: usize, columns: [usize; 2]) -> Sizes {
    Sizes { batch: 2, heads: 4, kv_heads: 2, queries, keys, columns }
}

/// Every kernel by its name, in blocks that all of their tiles divide.
pub fn kernels(device: &Device) -> Outcome {
    fn of<T: Input>(device: &Device, queries: usize, keys: usize) -> Outcome {
        for (columns, kernels) in [([64, 64], [6, 2]), ([40, 72], [6, 2]), ([200, 256], [2, 1])] {
            let size = Sizes { heads: 2, kv_heads: 1, batch: 1, ..sizes(queries, keys, columns) };
            for causal in [false, true] {
                let lists = Lists::random(size, [128, 128], [true; 2], 70);
                let case = Case::<T>::new(size).lists(lists);
                let case = Case { scores: Scores { causal, ..case.scores }, ..case };
                let names = case.names(device)?;
                assert!(names.iter().all(|name| name.contains("_listed_")), "{names:?}");
                let both = names.iter().any(|name| name.contains("sm_90"));
                let expected = if both { kernels[0] + kernels[1] } else { kernels[1] };
                assert_eq!(names.len(), expected, "{names:?}");
                names
                    .into_iter()
                    .filter(|name| watched::runs(name))
                    .try_for_each(|name| case.run(device, Some(name)))?;
            }
        }
        Ok(())
    }
    of::<f16>(device, 150, 330)?;
    of::<bf16>(device, 70, 200)
}

/// Of every kernel: more tiles than CTAs, some of which have empty lists, so that stages and turns pass from one tile to the next.
pub fn several_tiles_a_cta(device: &Device) -> Outcome {
    // An SM holds at most five CTAs of a kernel.
    let heads = 6 * device.sm_count() as usize;
    for columns in [[64, 64], [256, 256]] {
        let size = Sizes { batch: 1, heads, kv_heads: heads, ..sizes(8, 260, columns) };
        let case = Case::<f16>::new(size).lists(Lists::random(size, [128, 128], [true; 2], 40));
        let names = case.names(device)?.into_iter().filter(|name| watched::runs(name));
        names.into_iter().try_for_each(|name| case.run(device, Some(name)))?;
    }
    Ok(())
}

/// Lengths at the edges of blocks, lists of all densities, with none and all of the blocks, shared and not.
pub fn lengths(device: &Device) -> Outcome {
    let blocks = [[64, 64], [64, 128], [128, 64], [192, 256], [256, 192], [128, 128]];
    let lengths = [(1, 1), (63, 64), (64, 65), (65, 63), (1, 300), (300, 1), (130, 0), (257, 383)];
    for (i, (queries, keys)) in lengths.into_iter().enumerate() {
        for (j, hundredths) in [0, 25, 60, 100].into_iter().enumerate() {
            let columns = [[64, 64], [128, 128], [64, 40]][(i + j) % 3];
            let size = Sizes { batch: 2, heads: 2, kv_heads: 1, ..sizes(queries, keys, columns) };
            let shared = [j % 2 == 0, (i + j) % 3 == 0];
            let lists = Lists::random(size, blocks[(i + 2 * j) % 6], shared, hundredths);
            let case = Case::<f16>::new(size).lists(lists);
            Case { scores: Scores { causal: j == 2, ..case.scores }, ..case }.check(device)?;
        }
    }
    for blocks in [[64, 64], [128, 128], [256, 128]] {
        let size = Sizes { batch: 1, heads: 1, kv_heads: 1, ..sizes(1000, 1010, [128, 128]) };
        let case = Case::<bf16>::new(size).lists(Lists::random(size, blocks, [true; 2], 30));
        Case { scores: Scores { causal: true, ..case.scores }, ..case }.check(device)?;
    }
    Ok(())
}

/// Masks and sinks on top of lists, of unequal lengths: queries whose listed blocks are all hidden have 0 and -inf, or the sink.
pub fn masks(device: &Device) -> Outcome {
    let masks = [(true, None), (false, Some([70, 20])), (true, Some([100, 0])), (false, Some([0, 0]))];
    for (i, (queries, keys)) in [(200, 200), (130, 400), (400, 130)].into_iter().enumerate() {
        for (j, (causal, window)) in masks.into_iter().enumerate() {
            let (columns, blocks) =
                ([[64, 64], [128, 128]][j % 2], [[128, 128], [64, 64], [192, 128]][(i + j) % 3]);
            let size = sizes(queries, keys, columns);
            let lists = Lists::random(size, blocks, [i % 2 == 0, true], 50);
            let terms = Terms { sinks: j % 2 == 0, ..Terms::default() };
            let case = Case::<f16>::new(size).lists(lists).terms(terms);
            Case { scores: Scores { causal, window, ..case.scores }, ..case }.check(device)?;
        }
    }
    Ok(())
}

/// Blocks that are listed twice count twice; numbers that name no block, and counts below 0 and beyond the lists, do no harm.
pub fn strays(device: &Device) -> Outcome {
    let blocks = [128, 128];
    let size = Sizes { batch: 1, heads: 3, kv_heads: 3, ..sizes(250, 450, [64, 64]) };
    let lists = Lists {
        blocks,
        shape: [1, 3, 2, 5],
        numbers: [
            [1, 1, 3, 0, 3],
            [-1, 4, i32::MAX, i32::MIN, 5],
            [4, 2, -7, 1 << 24, 0],
            [0, 1, 2, 3, 3],
            [1 << 30, 3, 3, 3, -1],
            [2, 2, 2, 2, 2],
        ]
        .concat(),
        counts: vec![4, 5, 5, i32::MAX, i32::MIN, 6],
    };
    for causal in [false, true] {
        let case = Case::<f16>::new(size).lists(lists.clone());
        let case = Case { scores: Scores { causal, ..case.scores }, ..case };
        let names = case.names(device)?;
        names.into_iter().try_for_each(|name| case.run(device, Some(name)))?;
    }
    Ok(())
}

/// What no list names is not read: NaN in its keys and values reaches nobody.
pub fn unlisted(device: &Device) -> Outcome {
    let size = Sizes { batch: 1, heads: 2, kv_heads: 1, ..sizes(100, 320, [64, 64]) };
    let lists =
        Lists { blocks: [64, 64], shape: [1, 1, 2, 3], numbers: vec![4, 0, 2, 2, 2, 3], counts: vec![2, 1] };
    let mut case = Case::<bf16>::new(size).lists(lists);
    for input in &mut case.inputs[1..] {
        input[64 * 64..128 * 64].fill(bf16::NAN);
        input[192 * 64..256 * 64].fill(bf16::NAN);
    }
    case.check(device)
}

/// A graph replays it with other lists; a plan takes numbers of all types, of any strides.
pub fn replay(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let size = Sizes { batch: 1, heads: 2, kv_heads: 2, ..sizes(200, 200, [64, 64]) };
    let of = |seed| Tensor::from_slice(device, &normal::<f16>(seed, 2 * 200 * 64), &[1, 2, 200, 64]);
    let (q, k, v) = (of(1)?, of(2)?, of(3)?);
    let (q, k, v) = (q.view(), k.view(), v.view());
    let of = |hundredths| Lists::random(size, [64, 64], [false, true], hundredths);
    let [mut lists, mut counts] = of(50).tensors(device)?;
    let mut o = Tensor::filled(device, f16::NAN, &[1, 2, 200, 64])?;
    let graph = {
        let mut o = o.view_mut();
        let mut attention = Attention::new().block_lists(lists.view(), counts.view(), [64, 64]);
        attention.run(&stream, &q, &k, &v, &mut o)?;
        stream.synchronize()?;
        stream.capture(|stream| attention.run(stream, &q, &k, &v, &mut o))?
    };
    for hundredths in [20, 60, 0, 100] {
        let next = of(hundredths);
        lists.write(&next.numbers)?;
        counts.write(&next.counts)?;
        o.write(&vec![f16::NAN; 2 * 200 * 64])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        let replayed = o.to_vec_on(&stream)?;
        // Lists of 64 bits, transposed in memory, in a plan.
        let [_, heads, along, most] = next.shape;
        let at = |i: usize| next.numbers[(i % heads * along + i / heads % along) * most + i / heads / along];
        let wide: Vec<i64> = (0..heads * along * most).map(|i| i64::from(at(i))).collect();
        let wide = Tensor::from_slice(device, &wide, &[most, along, heads])?;
        let wide = wide.view().transpose(0, 2)?;
        let narrow: Vec<u32> = next.counts.iter().map(|&count| count as u32).collect();
        let narrow = Tensor::from_slice(device, &narrow, &[2, along])?;
        let mut planned = Tensor::filled(device, f16::NAN, &[1, 2, 200, 64])?;
        let plan = Attention::new().block_lists(&wide, narrow.view(), [64, 64]);
        let plan = plan.plan(&q, &k, &v, &planned.view_mut())?;
        let mut views = AttentionViews::default();
        let missing = plan.run(&stream, &q, &k, &v, &mut planned.view_mut(), &mut views);
        assert!(matches!(missing, Err(Error::Argument { argument, .. }) if argument == "block_lists"));
        views.block_lists = Some([wide.into(), narrow.view().into()]);
        plan.run(&stream, &q, &k, &v, &mut planned.view_mut(), &mut views)?;
        assert_eq!(replayed, planned.to_vec_on(&stream)?, "{hundredths} hundredths");
        let case = Case::<f16>::new(size).lists(next);
        case.compare(&replayed.iter().map(|x| x.to_f32()).collect::<Vec<_>>(), None)?;
    }
    Ok(())
}

/// Tiles from a queue give the same bits as tiles in turn, in whatever order CTAs take them, also in several launches.
pub fn queued(device: &Device) -> Outcome {
    let seeds = if device.is_emulator() { 3 } else { 1 };
    let devices = (0..seeds).map(|seed| match seed {
        0 => device.clone(),
        // Schedules of other seeds.
        seed => Device::emulator_with_seed(seed),
    });
    for (device, columns) in
        devices.flat_map(|device| [[64, 64], [64, 256]].map(|columns| (device.clone(), columns)))
    {
        let stream = Stream::new(&device)?;
        // More tiles than CTAs.
        let [batch, heads] = if device.is_emulator() { [1, 2] } else { [4, 16] };
        let size = Sizes { batch, heads, kv_heads: 2, ..sizes(700, 300, columns) };
        let [q, k, v, o] = size.shapes();
        let of = |seed, shape: [usize; 4]| {
            Tensor::from_slice(&device, &normal::<f16>(seed, shape.iter().product()), &shape)
        };
        let (q, k, v) = (of(1, q)?, of(2, k)?, of(3, v)?);
        let (q, k, v) = (q.view(), k.view(), v.view());
        let [lists, counts] = Lists::random(size, [64, 64], [true, true], 40).tensors(&device)?;
        let attention = || Attention::new().block_lists(lists.view(), counts.view(), [64, 64]);
        let (mut in_turn, mut queued) =
            (Tensor::filled(&device, f16::NAN, &o)?, Tensor::filled(&device, f16::NAN, &o)?);
        attention().run(&stream, &q, &k, &v, &mut in_turn.view_mut())?;
        let len = attention().workspace_len(&q, &k, &v, &queued.view_mut())?;
        assert!(len > 0, "a counter for each launch");
        let mut workspace = Tensor::filled(&device, f32::NAN, &[len])?;
        for _ in 0..2 {
            queued.write(&vec![f16::NAN; o.iter().product()])?;
            let mut workspace = workspace.view_mut();
            attention().workspace(&mut workspace).run(&stream, &q, &k, &v, &mut queued.view_mut())?;
            let bits = |of: Vec<f16>| of.into_iter().map(f16::to_bits).collect::<Vec<_>>();
            assert_eq!(bits(in_turn.to_vec_on(&stream)?), bits(queued.to_vec_on(&stream)?), "{columns:?}");
        }
    }
    Ok(())
}
