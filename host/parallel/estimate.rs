//! How many chunks hide collectives best. The constants were read off the times of layers on two and four H100 and H200 of one host, joined by NVLink
//! (2026-11-26 and 27).

use super::{Chunks, Communicator};
use crate::ops::{Gemm, HalfElement};
use crate::{Error, Result, TensorView, TensorViewMut};

/// The most chunks that are looked at: what shows of a collective is that of the last.
const MOST: usize = 8;
/// Cycles of an SM in a microsecond, of an H200 that multiplies.
const CYCLES: f64 = 1600.0;
/// Gigabytes that NCCL moves in a second over NVLink, each way: by each CTA beside a product, and alone.
const BY_CTA: f64 = 13.0;
const ALONE: f64 = 330.0;
/// Microseconds that a collective takes however little it moves, and that a product takes more in one chunk more.
const LEAST: f64 = 20.0;
const CHUNK: f64 = 25.0;
/// How much longer a product takes beside a collective, for memory and for CTAs that fall out of step: of 16384 x 8192 x 14336 in eight chunks on two H100.
const BESIDE: f64 = 1.12;
/// What chunks must gain: estimates are not better.
const GAIN: f64 = 0.98;

/// A layer by rows.
pub(super) struct Layer<'a, T> {
    pub(super) gemm: Gemm<'a, T>,
    pub(super) x: &'a TensorView<'a, T>,
    pub(super) w: &'a TensorView<'a, T>,
    pub(super) y: &'a TensorViewMut<'a, T>,
}

impl<T: HalfElement> Layer<'_, T> {
    /// The chunks that take the least time.
    pub(super) fn chunks(&self, communicator: &Communicator) -> Result<Chunks> {
        let &[rows, columns] = self.y.shape() else {
            return Err(Error::argument("y", format!("of shape {:?}", self.y.shape()), "a matrix"));
        };
        let one = Chunks::one(rows);
        if communicator.ranks() == 1 || rows == 0 || columns == 0 {
            return Ok(one);
        }
        let mut best = (self.microseconds(communicator, &one)?, one);
        for count in 2..=MOST {
            let chunks = Chunks::new(rows, count, communicator.ranks())?;
            let time = self.microseconds(communicator, &chunks)?;
            if time < best.0 * if best.1 == one { GAIN } else { 1.0 } {
                best = (time, chunks);
            }
        }
        Ok(best.1)
    }

    /// The time of products, one behind the other, and of collectives, each behind its product and the one before it.
    fn microseconds(&self, communicator: &Communicator, chunks: &Chunks) -> Result<f64> {
        let [sms, ctas] = communicator.sms_beside();
        let gemm = if chunks.count() == 1 { self.gemm } else { self.gemm.sms(sms) };
        // A ring moves all but a rank's part, twice: kilobytes a row.
        let ranks = communicator.ranks() as f64;
        let row = 2.0 * (ranks - 1.0) / ranks * (self.y.shape()[1] * size_of::<T>()) as f64 / 1000.0;
        let (mut multiplied, mut reduced) = (0.0f64, 0.0f64);
        for (i, rows) in chunks.ranges().enumerate() {
            // Plans may be made of views without memory, so this may too.
            let x = self.x.clone().narrow(0, rows.start, rows.len())?.planned(0);
            let y = self.y.part(rows.clone())?.planned(2);
            let cycles = gemm
                .candidates(&x, &self.w.planned(1), &y)?
                .first()
                .and_then(|best| best.cycles())
                .unwrap_or(0);
            let time = cycles as f64 / CYCLES;
            multiplied += if i == 0 { time } else { BESIDE * time + CHUNK };
            let alone = i + 1 == chunks.count();
            let rate = if alone { ALONE } else { ALONE.min(BY_CTA * f64::from(ctas)) };
            reduced = reduced.max(multiplied) + LEAST + row * rows.len() as f64 / rate;
        }
        Ok(reduced)
    }
}
