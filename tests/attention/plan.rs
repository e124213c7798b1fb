//! Plans that run many times, and numbers of all types that frameworks have them in.

use tilewright::ops::{Attention, AttentionViews, Indices};
use tilewright::{Device, Error, Stream, Tensor, TensorView, TensorViewMut, bf16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

/// Sequences, heads, rows of a page, pages in all and of a sequence, columns.
const BATCH: usize = 3;
const HEADS: [usize; 2] = [4, 2];
const PAGE: usize = 16;
const PAGES: usize = 40;
const ENTRIES: usize = 12;
const D: usize = 64;

/// Numbers on the device as i32, u32 and i64.
struct Numbers {
    narrow: Tensor<i32>,
    unsigned: Tensor<u32>,
    wide: Tensor<i64>,
}

impl Numbers {
    fn new(device: &Device, numbers: &[i32], shape: &[usize]) -> tilewright::Result<Self> {
        let unsigned: Vec<u32> = numbers.iter().map(|x| x.cast_unsigned()).collect();
        let wide: Vec<i64> = numbers.iter().map(|&x| x.into()).collect();
        Ok(Numbers {
            narrow: Tensor::from_slice(device, numbers, shape)?,
            unsigned: Tensor::from_slice(device, &unsigned, shape)?,
            wide: Tensor::from_slice(device, &wide, shape)?,
        })
    }

    fn all(&self) -> [Indices<'_>; 3] {
        [self.narrow.view().into(), self.unsigned.view().into(), self.wide.view().into()]
    }
}

/// Steps of decoding over pages by one plan, with lengths that grow: the same bits as calls, of each type of numbers.
pub fn steps(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let [heads, kv_heads] = HEADS;
    let of = |seed, shape: &[usize]| {
        Tensor::from_slice(device, &normal::<bf16>(seed, shape.iter().product()), shape)
    };
    let q = of(1, &[BATCH, heads, 1, D])?;
    let [k, v] = [of(2, &[PAGES, kv_heads, PAGE, D])?, of(3, &[PAGES, kv_heads, PAGE, D])?];
    let table: Vec<i32> = (0..BATCH * ENTRIES).map(|i| (i * 7 % PAGES) as i32).collect();
    let table = Numbers::new(device, &table, &[BATCH, ENTRIES])?;
    // A plan for tensors that are not there yet.
    let views = AttentionViews::default;
    let nowhere =
        |shape: &[usize], strides: &[usize]| TensorView::<bf16>::without_memory(device, shape, strides, 16);
    let strides = [kv_heads * PAGE * D, PAGE * D, D, 1];
    let pool = nowhere(&[PAGES, kv_heads, PAGE, D], &strides)?;
    let one = [heads * D, D, D, 1];
    let o = TensorViewMut::<bf16>::without_memory(device, &[BATCH, heads, 1, D], &one, 16)?;
    let lengths = Numbers::new(device, &[0, 17, 190], &[BATCH])?;
    for (which, (table, lengths)) in table.all().into_iter().zip(lengths.all()).enumerate() {
        let attention = || Attention::new().splits(3).block_table(table.clone()).lengths(lengths.clone());
        let plan = attention().plan(&nowhere(&[BATCH, heads, 1, D], &one)?, &pool, &pool, &o)?;
        assert!(plan.workspace_len() > 0 && plan.kernel().splits() == 3, "{plan}");
        let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
        for lengths in [[0, 17, 190], [1, 18, 191], [2, 19, 192]] {
            let lengths = Numbers::new(device, &lengths, &[BATCH])?;
            let [mut planned, mut called] =
                [(); 2].map(|()| Tensor::<bf16>::zeros(device, &[BATCH, heads, 1, D]));
            let (planned, called) = (planned.as_mut()?, called.as_mut()?);
            let mut given = AttentionViews {
                lengths: lengths.all().into_iter().nth(which),
                block_table: Some(table.clone()),
                workspace: Some(memory.view_mut()),
                ..views()
            };
            plan.run(&stream, &q.view(), &k.view(), &v.view(), &mut planned.view_mut(), &mut given)?;
            let [lengths, ..] = lengths.all();
            let mut attention = attention().lengths(lengths);
            attention.run(&stream, &q.view(), &k.view(), &v.view(), &mut called.view_mut())?;
            assert_eq!(planned.to_vec_on(&stream)?, called.to_vec_on(&stream)?, "numbers of type {which}");
            assert!(called.to_vec_on(&stream)?.iter().any(|x| x.to_f32() != 0.0));
        }
        let mut planned = Tensor::<bf16>::zeros(device, &[BATCH, heads, 1, D])?;
        let run = plan.run(&stream, &q.view(), &k.view(), &v.view(), &mut planned.view_mut(), &mut views());
        assert!(matches!(run, Err(Error::Argument { argument, .. }) if argument == "lengths"));
    }
    Ok(())
}

/// Sequences one after the other, by offsets of each type: the same bits.
pub fn offsets(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let rows = 150;
    let of = |seed| Tensor::from_slice(device, &normal::<bf16>(seed, rows * 2 * D), &[1, 2, rows, D]);
    let (q, k, v) = (of(1)?, of(2)?, of(3)?);
    let offsets = Numbers::new(device, &[0, 70, 71, 150], &[4])?;
    let mut results = Vec::new();
    for offsets in offsets.all() {
        let mut o = Tensor::<bf16>::zeros(device, &[1, 2, rows, D])?;
        let plan = Attention::new().causal().packed(offsets.clone(), offsets.clone(), 100);
        let plan = plan.plan(&q.view(), &k.view(), &v.view(), &o.view_mut())?;
        let mut views =
            AttentionViews { offsets: Some([offsets.clone(), offsets]), ..AttentionViews::default() };
        plan.run(&stream, &q.view(), &k.view(), &v.view(), &mut o.view_mut(), &mut views)?;
        results.push(o.to_vec_on(&stream)?);
    }
    assert!(results[0].iter().any(|x| x.to_f32() != 0.0));
    assert_eq!(results[0], results[1]);
    assert_eq!(results[0], results[2]);
    let [narrow, _, wide] = offsets.all();
    let mut o = Tensor::<bf16>::zeros(device, &[1, 2, rows, D])?;
    let mixed =
        Attention::new().packed(narrow, wide, 100).plan(&q.view(), &k.view(), &v.view(), &o.view_mut());
    assert!(matches!(mixed, Err(Error::Argument { argument, .. }) if argument == "key_offsets"));
    Ok(())
}
