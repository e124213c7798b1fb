//! How long a launch takes, and what the card could do.

use tilewright::{Device, Event, Result, Stream};

/// Measurements, of which the median counts.
const ROUNDS: usize = 21;
/// How long one of them takes at least, in milliseconds.
const BURST: f32 = 20.0;

/// What a level is limited by at best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Global memory.
    Memory,
    /// Multiplications of f32.
    F32,
    /// Tensor cores on tf32.
    Tf32,
    /// Tensor cores on f16.
    F16,
}

/// Bytes or operations per second that NVIDIA's data sheet says of the card, if it is one of these.
pub fn peak(device: &Device, resource: Resource) -> Option<f64> {
    let cards: [(&str, [f64; 4]); 3] = [
        ("H200", [4.8e12, 66.9e12, 494.7e12, 989.4e12]),
        ("H100", [3.35e12, 66.9e12, 494.7e12, 989.4e12]),
        ("A100", [2.039e12, 19.5e12, 156e12, 312e12]),
    ];
    let (_, peaks) = cards.iter().find(|(name, _)| device.name().contains(name))?;
    Some(peaks[resource as usize])
}

/// The median of the milliseconds of one launch.
pub fn median_ms(device: &Device, mut launch: impl FnMut(&Stream) -> Result<()>) -> Result<f64> {
    let stream = Stream::new(device)?;
    let (start, end) = (Event::new(device)?, Event::new(device)?);
    let mut burst = |launches: usize| -> Result<f32> {
        stream.record(&start)?;
        for _ in 0..launches {
            launch(&stream)?;
        }
        stream.record(&end)?;
        start.elapsed_ms(&end)
    };
    // The first launch loads the kernel, the second says how many fill a burst.
    burst(1)?;
    let launches = (BURST / burst(1)?.max(1e-3)).ceil() as usize;
    burst(launches)?;
    let mut ms = Vec::new();
    for _ in 0..ROUNDS {
        ms.push(f64::from(burst(launches)?) / launches as f64);
    }
    ms.sort_by(f64::total_cmp);
    Ok(ms[ROUNDS / 2])
}
