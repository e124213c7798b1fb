//! GEMMs on streams of all kinds.

use tilewright::ops::gemm;
use tilewright::{Device, Event, Stream, Tensor, f16};
use tilewright_support::random::normal;
use tilewright_support::suite::Outcome;

const STEPS: usize = 12;

/// Two matrices in turns, and what they are multiplied with.
struct Chain {
    weights: Tensor<f16>,
    turns: [Tensor<f16>; 2],
}

impl Chain {
    fn new(device: &Device, seed: u64) -> tilewright::Result<Self> {
        // Long enough on a GPU that streams run side by side.
        let n = if device.is_emulator() { 136 } else { 512 };
        // Products keep the size of their factors.
        let scaled =
            normal::<f16>(seed, n * n).into_iter().map(|x| f16::from_f32(x.to_f32() / (n as f32).sqrt()));
        Ok(Self {
            weights: Tensor::from_slice(device, &scaled.collect::<Vec<_>>(), &[n, n])?,
            turns: [
                Tensor::from_slice(device, &normal(seed + 100, n * n), &[n, n])?,
                Tensor::filled(device, f16::NAN, &[n, n])?,
            ],
        })
    }

    /// Queues one product after the other; the last is in the first of the two matrices.
    fn queue(&mut self, stream: &Stream) -> tilewright::Result<()> {
        let [x, y] = &mut self.turns;
        for _ in 0..STEPS / 2 {
            gemm(stream, &x.view(), &self.weights.view(), &mut y.view_mut())?;
            gemm(stream, &y.view(), &self.weights.view(), &mut x.view_mut())?;
        }
        Ok(())
    }

    /// The chain's result when nothing else runs.
    fn alone(device: &Device, seed: u64) -> tilewright::Result<Vec<f16>> {
        let mut chain = Self::new(device, seed)?;
        chain.queue(&device.default_stream())?;
        chain.turns[0].to_vec()
    }
}

/// A stream that is another library's, and the default one.
pub fn borrowed(device: &Device) -> Outcome {
    let expected = Chain::alone(device, 1)?;
    let owner = Stream::new(device)?;
    for handle in [owner.raw(), std::ptr::null_mut()] {
        // SAFETY: the owner outlives it; null is the default stream.
        let stream = unsafe { Stream::from_raw(device, handle)? };
        let mut chain = Chain::new(device, 1)?;
        chain.queue(&stream)?;
        assert!(chain.turns[0].to_vec_on(&stream)? == expected);
    }
    // Dropping the borrowed ones left the stream alone.
    let mut chain = Chain::new(device, 1)?;
    chain.queue(&owner)?;
    assert!(chain.turns[0].to_vec_on(&owner)? == expected);
    Ok(())
}

/// Chains on several streams at a time, queued in turns by one thread and at once by several.
pub fn several(device: &Device) -> Outcome {
    let count = 4;
    let expected = (0..count).map(|seed| Chain::alone(device, seed)).collect::<Result<Vec<_>, _>>()?;
    let make = || -> tilewright::Result<Vec<(Stream, Chain)>> {
        (0..count).map(|seed| Ok((Stream::new(device)?, Chain::new(device, seed)?))).collect()
    };
    let check = |chains: &[(Stream, Chain)]| -> Outcome {
        for (seed, ((stream, chain), expected)) in chains.iter().zip(&expected).enumerate() {
            assert!(chain.turns[0].to_vec_on(stream)? == *expected, "chain {seed}");
        }
        Ok(())
    };
    let mut chains = make()?;
    for (stream, chain) in &mut chains {
        chain.queue(stream)?;
    }
    check(&chains)?;

    let mut chains = make()?;
    std::thread::scope(|scope| {
        let running: Vec<_> =
            chains.iter_mut().map(|(stream, chain)| scope.spawn(move || chain.queue(stream))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    check(&chains)
}

/// A product on one stream that an event lets wait for a product on another.
pub fn ordered_by_events(device: &Device) -> Outcome {
    let (first, second) = (Stream::new(device)?, Stream::new(device)?);
    let event = Event::new(device)?;
    // Long enough on a GPU that the second stream could be early.
    let size = if device.is_emulator() { 256 } else { 2048 };
    let filled = |value: f16| Tensor::filled(device, value, &[size, size]);
    let (x, unit) = (filled(f16::ONE)?, filled(f16::from_f32(1.0 / size as f32))?);
    let (mut y, mut z) = (filled(f16::NAN)?, filled(f16::NAN)?);
    for _ in 0..4 {
        gemm(&first, &x.view(), &x.view(), &mut y.view_mut())?;
    }
    first.record(&event)?;
    second.wait(&event)?;
    gemm(&second, &y.view(), &unit.view(), &mut z.view_mut())?;
    assert!(z.to_vec_on(&second)?.iter().all(|x| x.to_f32() == size as f32));
    Ok(())
}
