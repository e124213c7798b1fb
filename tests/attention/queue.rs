//! Packed sequences whose tiles come from a queue: the same bits as without one, in whatever order CTAs take them.

use tilewright::ops::{Attention, AttentionPlan, AttentionViews};
use tilewright::{Device, Error, Stream, Tensor, bf16, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::{Outcome, picked};

use crate::case::Input;

/// Queries and keys of each sequence.
type Lengths<'a> = &'a [[usize; 2]];

/// Where sequences begin, and the last one ends.
fn offsets(lengths: Lengths<'_>, of: usize) -> Vec<i32> {
    let sums = lengths.iter().scan(0, |sum, lengths| {
        *sum += lengths[of] as i32;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

/// Packed sequences on a device, with room for rows that are in none.
struct Case<T: Input> {
    inputs: [Tensor<T>; 3],
    offsets: [Tensor<i32>; 2],
    o: [usize; 4],
    longest: usize,
    causal: bool,
}

impl<T: Input> Case<T> {
    /// Heads, and heads of keys; columns of Q and K, and of V and O.
    fn new(
        device: &Device,
        lengths: Lengths<'_>,
        [heads, kv_heads]: [usize; 2],
        [d, dv]: [usize; 2],
        causal: bool,
    ) -> tilewright::Result<Self> {
        let begins = [0, 1].map(|of| offsets(lengths, of));
        let rows = begins.each_ref().map(|begins| begins.last().map_or(0, |&end| end as usize + 3));
        let of = |seed, shape: [usize; 4]| {
            Tensor::from_slice(device, &normal::<T>(seed, shape.iter().product()), &shape)
        };
        let inputs = [
            of(1, [1, heads, rows[0], d])?,
            of(2, [1, kv_heads, rows[1], d])?,
            of(3, [1, kv_heads, rows[1], dv])?,
        ];
        let [queries, keys] =
            begins.each_ref().map(|begins| Tensor::from_slice(device, begins, &[begins.len()]));
        let longest = lengths.iter().map(|lengths| lengths[0]).max().unwrap_or(0);
        Ok(Case { inputs, offsets: [queries?, keys?], o: [1, heads, rows[0], dv], longest, causal })
    }

    fn attention(&self) -> Attention<'_> {
        let [queries, keys] = &self.offsets;
        let attention = Attention::new().packed(queries.view(), keys.view(), self.longest);
        if self.causal { attention.causal() } else { attention }
    }

    fn output(&self, device: &Device) -> tilewright::Result<Tensor<T>> {
        Tensor::filled(device, T::POISON, &self.o)
    }

    /// On a kernel, with and without a log-sum-exp: what it gives without a workspace, and with one of `len` elements that hold `filled`, if
    /// that is not `None`.
    fn run(
        &self,
        device: &Device,
        kernel: &str,
        workspace: Option<f32>,
    ) -> tilewright::Result<(Vec<f32>, Vec<f32>, usize)> {
        let stream = Stream::new(device)?;
        let [q, k, v] = self.inputs.each_ref().map(Tensor::view);
        let (mut o, mut lse) = (self.output(device)?, Tensor::filled(device, f32::NAN, &self.o[..3])?);
        let len = self.attention().kernel(kernel).workspace_len(&q, &k, &v, &o.view_mut())?;
        let mut memory = Tensor::filled(device, workspace.unwrap_or(0.0), &[len])?;
        {
            let (mut lse, mut memory) = (lse.view_mut(), memory.view_mut());
            let attention = self.attention().kernel(kernel).lse(&mut lse);
            let mut attention =
                if workspace.is_some() { attention.workspace(&mut memory) } else { attention };
            attention.run(&stream, &q, &k, &v, &mut o.view_mut())?;
        }
        Ok((T::widen(&o.to_vec_on(&stream)?), lse.to_vec_on(&stream)?, len))
    }

    /// The same bits with a queue as without, on every kernel; on the emulator on one of `of`.
    fn check(&self, device: &Device, of: u64) -> Outcome {
        let [q, k, v] = self.inputs.each_ref().map(Tensor::view);
        let all = self.attention().candidates(&q, &k, &v, &self.output(device)?.view_mut())?;
        let possible = all.iter().filter(|kernel| kernel.rejection().is_none());
        let shape = (T::DTYPE.name(), self.o, self.causal, self.longest);
        for kernel in possible.filter(|kernel| picked(device, (kernel.name(), shape), of)) {
            let (o, lse, _) = self.run(device, kernel.name(), None)?;
            // Whatever the memory holds before.
            let fills: &[f32] = if device.is_emulator() { &[f32::NAN] } else { &[f32::NAN, 1.0, 0.0] };
            for &filled in fills {
                let (queued, queued_lse, len) = self.run(device, kernel.name(), Some(filled))?;
                let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                let equal = bits(&o) == bits(&queued) && bits(&lse) == bits(&queued_lse);
                assert!(equal, "{}: other bits with a queue of {len} elements", kernel.name());
            }
        }
        Ok(())
    }
}

/// Of many lengths, with heads that share keys: as without a workspace, to the bit.
pub fn same_bits(device: &Device) -> Outcome {
    let few: Lengths<'_> = &[[70, 70], [0, 0], [1, 129], [200, 30], [0, 5], [9, 0], [128, 128], [65, 257]];
    for columns in [[64, 64], [128, 128], [256, 256]] {
        Case::<f16>::new(device, few, [4, 2], columns, true)?.check(device, 4)?;
        Case::<bf16>::new(device, few, [3, 1], columns, false)?.check(device, 6)?;
    }
    Case::<f16>::new(device, few, [3, 1], [192, 128], true)?.check(device, 3)
}

/// A single sequence, none with any rows, more of them than a CTA lists at a time, and heads that do not all fit a group.
pub fn any_number(device: &Device) -> Outcome {
    Case::<f16>::new(device, &[[300, 300]], [8, 8], [64, 64], true)?.check(device, 4)?;
    Case::<f16>::new(device, &[[0, 0]; 5], [4, 4], [64, 64], true)?.check(device, 4)?;
    Case::<f16>::new(device, &[[0, 7], [0, 0], [3, 0]], [16, 4], [64, 64], false)?.check(device, 2)?;
    let many: Vec<_> = (0..270).map(|i| [(i * 7 + i / 9) % 4 / 2, (i * 5) % 6]).collect();
    Case::<bf16>::new(device, &many, [1, 1], [64, 64], true)?.check(device, 6)?;
    if !device.is_emulator() {
        let law: Vec<_> = (0..500).map(|i| [(i * 7919 % 400) * (i * 31 % 7) % 700; 2]).collect();
        Case::<bf16>::new(device, &law, [8, 2], [128, 128], true)?.check(device, 1)?;
        let long = [[3000, 3000], [300, 300], [40, 40], [5000, 5000], [1000, 1000]];
        Case::<bf16>::new(device, &long, [5, 5], [128, 128], true)?.check(device, 1)?;
    }
    Ok(())
}

/// Warps and CTAs in random orders: the same bits.
pub fn random_orders(device: &Device) -> Outcome {
    if !device.is_emulator() {
        return Ok(());
    }
    let lengths: Lengths<'_> = &[[70, 70], [140, 200], [1, 129], [0, 5], [30, 128]];
    for seed in 0..4 {
        let device = Device::emulator_with_seed(seed);
        Case::<f16>::new(&device, lengths, [4, 2], [64, 64], seed % 2 == 0)?.check(&device, 4)?;
    }
    Ok(())
}

/// A captured plan, replayed with other offsets: each time what a call with these gives. The plan prepares the list before each launch.
pub fn replay(device: &Device) -> Outcome {
    const ROWS: usize = 400;
    let stream = Stream::new(device)?;
    // More tiles than CTAs.
    let shape = [1, device.sm_count() as usize, ROWS, 64];
    let [q, k, v] = [1, 2, 3]
        .map(|seed| Tensor::from_slice(device, &normal::<f16>(seed, shape.iter().product()), &shape));
    let (q, k, v) = (q?, k?, v?);
    let mut offsets = Tensor::from_slice(device, &[0i32, 100, 100, 250, 400], &[5])?;
    let mut o = Tensor::filled(device, f16::NAN, &shape)?;
    let (q, k, v) = (q.view(), k.view(), v.view());
    let planned = |offsets: &Tensor<i32>, o: &mut Tensor<f16>| -> tilewright::Result<AttentionPlan> {
        let attention = Attention::new().causal().packed(offsets.view(), offsets.view(), ROWS);
        attention.plan(&q, &k, &v, &o.view_mut())
    };
    let plan = planned(&offsets, &mut o)?;
    assert!(plan.workspace_len() > 0, "{plan}");
    let mut memory = Tensor::filled(device, f32::NAN, &[plan.workspace_len()])?;
    let run =
        |stream: &Stream, offsets: &Tensor<i32>, o: &mut Tensor<f16>, memory: Option<&mut Tensor<f32>>| {
            let mut views = AttentionViews {
                offsets: Some([offsets.view().into(), offsets.view().into()]),
                workspace: memory.map(Tensor::view_mut),
                ..AttentionViews::default()
            };
            plan.run(stream, &q, &k, &v, &mut o.view_mut(), &mut views)
        };
    run(&stream, &offsets, &mut o, Some(&mut memory))?;
    stream.synchronize()?;
    let graph = stream.capture(|stream| run(stream, &offsets, &mut o, Some(&mut memory)))?;
    assert_eq!(graph.nodes(), 2);
    for at in [[0, 100, 100, 250, 400], [0, 400, 400, 400, 400], [0, 0, 1, 2, 3], [0, 10, 200, 201, 390]] {
        offsets.write(&at)?;
        o.write(&vec![f16::NAN; shape.iter().product()])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        let replayed = o.to_vec_on(&stream)?;
        let mut expected = Tensor::filled(device, f16::NAN, &shape)?;
        run(&stream, &offsets, &mut expected, None)?;
        let bits = |x: Vec<f16>| x.into_iter().map(f16::to_bits).collect::<Vec<_>>();
        assert!(bits(replayed) == bits(expected.to_vec_on(&stream)?), "{at:?}");
    }
    Ok(())
}

/// A workspace is as large as it says, and nothing else is written; one that is too small or lies wrong is refused by name.
pub fn workspace(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let heads = device.sm_count() as usize;
    let case = Case::<f16>::new(device, &[[200, 200], [7, 7], [300, 300]], [heads, heads], [64, 64], true)?;
    let [q, k, v] = case.inputs.each_ref().map(Tensor::view);
    let mut o = case.output(device)?;
    let len = case.attention().workspace_len(&q, &k, &v, &o.view_mut())?;
    // A counter and its like, four numbers for each sequence, and ends in fours.
    assert_eq!(len, 4 + 3 * 4 + 4);
    let mut memory = Tensor::filled(device, f32::NAN, &[len + 8])?;
    {
        let mut view = memory.view_mut();
        let mut all = view.reborrow().narrow(0, 4, len)?;
        case.attention().workspace(&mut all).run(&stream, &q, &k, &v, &mut o.view_mut())?;
    }
    let words = memory.to_vec_on(&stream)?;
    assert!(words[..4].iter().chain(&words[len + 4..]).all(|x| x.is_nan()), "outside of the workspace");
    let mut view = memory.view_mut();
    for (first, len, why) in [(0, len - 1, "elements or more"), (1, len, "aligned to 16 bytes")] {
        let mut bad = view.reborrow().narrow(0, first, len)?;
        match case.attention().workspace(&mut bad).run(&stream, &q, &k, &v, &mut o.view_mut()) {
            Err(Error::Argument { argument, allowed, .. })
                if argument == "workspace" && allowed.contains(why) => {}
            other => return Err(format!("not an error about the workspace: {other:?}").into()),
        }
    }
    // Where each tile has a CTA there is no queue, and equal lengths never have one.
    let small = Case::<f16>::new(device, &[[7, 7]], [1, 1], [64, 64], true)?;
    let [q, k, v] = small.inputs.each_ref().map(Tensor::view);
    let mut o = small.output(device)?;
    assert_eq!(small.attention().workspace_len(&q, &k, &v, &o.view_mut())?, 0);
    assert_eq!(Attention::new().causal().workspace_len(&q, &k, &v, &o.view_mut())?, 0);
    Ok(())
}

/// Columns of V that take several launches: each has a counter of its own.
pub fn several_launches(device: &Device) -> Outcome {
    let lengths: Lengths<'_> = &[[70, 70], [0, 0], [1, 29], [100, 30], [64, 64]];
    let case = Case::<f16>::new(device, lengths, [4, 4], [64, 200], true)?;
    let [q, k, v] = case.inputs.each_ref().map(Tensor::view);
    let mut o = case.output(device)?;
    let all = case.attention().candidates(&q, &k, &v, &o.view_mut())?;
    let several = all.iter().filter(|kernel| kernel.rejection().is_none() && kernel.columns()[1] < 200);
    assert!(several.count() > 0, "no kernel takes several launches");
    case.check(device, 1)
}
