//! Attention in graphs, what a call takes, and calls that overlap.

use tilewright::ops::Attention;
use tilewright::{Device, Stream, Tensor, f16};
use tilewright_support::attention::{Head, Scores};
use tilewright_support::random::normal;
use tilewright_support::reference::relative_error;
use tilewright_support::suite::Outcome;

const LENGTH: usize = 150;
const SHAPE: [usize; 4] = [1, 1, LENGTH, 64];

/// All rows of the only head.
fn reference(q: &[f16], k: &[f16], v: &[f16]) -> Vec<f64> {
    let scores = Scores { causal: true, ..Scores::new(64) };
    let rows: Vec<_> = (0..LENGTH).collect();
    let head = Head::new([q, k, v], LENGTH, LENGTH, [64, 64]);
    head.rows(&rows, &scores).into_iter().flat_map(|row| row.o).collect()
}

/// Recorded without running, replayed on the data of the moment. A capture fails where something is allocated or waited
/// for.
pub fn replay(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let count = LENGTH * 64;
    let (k, v) = (normal::<f16>(2, count), normal::<f16>(3, count));
    let (keys, values) = (Tensor::from_slice(device, &k, &SHAPE)?, Tensor::from_slice(device, &v, &SHAPE)?);
    let mut q = Tensor::<f16>::zeros(device, &SHAPE)?;
    let mut o = Tensor::<f16>::zeros(device, &SHAPE)?;
    let mut lse = Tensor::<f32>::zeros(device, &SHAPE[..3])?;
    let graph = {
        let (q, k, v) = (q.view(), keys.view(), values.view());
        let (mut o, mut lse) = (o.view_mut(), lse.view_mut());
        let mut attention = Attention::new().causal().lse(&mut lse);
        // The kernel's loading is not to be recorded.
        attention.run(&stream, &q, &k, &v, &mut o)?;
        stream.synchronize()?;
        stream.capture(|stream| attention.run(stream, &q, &k, &v, &mut o))?
    };
    assert_eq!(graph.nodes(), 1);
    for seed in 10..13 {
        let data = normal::<f16>(seed, count);
        q.write(&data)?;
        o.write(&vec![f16::NAN; count])?;
        // SAFETY: the tensors are alive.
        unsafe { graph.launch(&stream)? };
        let error = relative_error(&o.to_vec_on(&stream)?, &reference(&data, &k, &v));
        assert!(error < 1e-3, "seed {seed}: {error}");
    }
    Ok(())
}

/// Calls take no device memory.
pub fn memory(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let x = Tensor::<f16>::zeros(device, &SHAPE)?;
    let mut o = Tensor::<f16>::zeros(device, &SHAPE)?;
    let mut call = || Attention::new().run(&stream, &x.view(), &x.view(), &x.view(), &mut o.view_mut());
    for _ in 0..100 {
        call()?;
    }
    stream.synchronize()?;
    let free = device.free_memory()?;
    for _ in 0..100 {
        call()?;
    }
    stream.synchronize()?;
    assert_eq!(device.free_memory()?, free);
    Ok(())
}

/// Each call reads what the preceding one writes, and may start before that is done.
pub fn overlapping(device: &Device) -> Outcome {
    let stream = Stream::new(device)?;
    let count = LENGTH * 64;
    let [q, k, v] = [1, 2, 3].map(|seed| normal::<f16>(seed, count));
    let tensors = [&q, &k, &v].map(|data| Tensor::from_slice(device, data, &SHAPE));
    let [first, k_tensor, v_tensor] = tensors;
    let (k_tensor, v_tensor) = (k_tensor?, v_tensor?);
    let mut chain = vec![first?];
    let calls = if device.is_emulator() { 3 } else { 40 };
    for _ in 0..calls {
        chain.push(Tensor::filled(device, f16::NAN, &SHAPE)?);
    }
    for i in 0..calls {
        let (before, after) = chain.split_at_mut(i + 1);
        let (from, to) = (before[i].view(), &mut after[0].view_mut());
        Attention::new().causal().run(&stream, &from, &k_tensor.view(), &v_tensor.view(), to)?;
    }
    for pair in chain.windows(2) {
        let exact = reference(&pair[0].to_vec_on(&stream)?, &k, &v);
        let error = relative_error(&pair[1].to_vec_on(&stream)?, &exact);
        assert!(error < 1e-3, "{error}");
    }
    Ok(())
}
