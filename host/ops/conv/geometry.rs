//! How a filter goes over images, forwards and backwards.

use tilewright_device::tile::Taps;

use crate::backend::Walk;
use crate::{Error, Result};

/// Sizes, paddings and steps stay below it, so that coordinates are counted in 32 bits.
const MOST: usize = 1 << 30;
/// The largest offset of a tap that copies in im2col mode take.
const MAX_OFFSET: u32 = 255;

/// How a filter goes over images. Pairs are of height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) stride: [usize; 2],
    /// Zeros in front of an image's first row and column.
    pub(super) before: [usize; 2],
    /// Zeros behind its last ones.
    pub(super) after: [usize; 2],
    pub(super) dilation: [usize; 2],
    pub(super) groups: usize,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry { stride: [1; 2], before: [0; 2], after: [0; 2], dilation: [1; 2], groups: 1 }
    }
}

impl Geometry {
    /// Checks the numbers by themselves; of sequences, which have no height, that it has none.
    pub(super) fn check(&self, sequences: bool) -> Result<()> {
        let Geometry { stride, before, after, dilation, groups } = *self;
        for (name, pair, least) in
            [("stride", stride, 1), ("padding", before, 0), ("padding", after, 0), ("dilation", dilation, 1)]
        {
            if pair.iter().any(|&x| x < least || x > MOST) {
                return Err(Error::argument(
                    name,
                    format!("{pair:?}"),
                    format!("of numbers from {least} to 2^30"),
                ));
            }
            if sequences && pair[0] != least {
                let allowed = format!("{least} in the first place, of the height, which sequences have not");
                return Err(Error::argument(name, format!("{pair:?}"), allowed));
            }
        }
        if groups == 0 {
            return Err(Error::argument("groups", "0", "at least 1"));
        }
        Ok(())
    }

    /// Outputs of a dimension of so many pixels under a filter of so many taps; `None` where the filter does not fit into it.
    pub(super) fn outputs(&self, dimension: usize, pixels: usize, taps: usize) -> Option<usize> {
        let padded = pixels.checked_add(self.before[dimension])?.checked_add(self.after[dimension])?;
        let reach = taps.checked_sub(1)?.checked_mul(self.dilation[dimension])?.checked_add(1)?;
        let fits = padded.checked_sub(reach).filter(|_| padded <= MOST)?;
        Some(fits / self.stride[dimension] + 1)
    }

    /// The taps of a dimension, of which there are so many, as outputs see them.
    pub(super) fn taps(&self, dimension: usize, count: usize) -> Taps {
        Taps {
            count: count as u32,
            first: -(self.before[dimension] as i32),
            stride: self.stride[dimension] as u32,
            offset: 0,
            step: self.dilation[dimension] as i32,
        }
    }

    /// What reaches every `stride`-th pixel of a dimension from pixel `phase` on, when pixels are computed of outputs.
    ///
    /// Output o reads pixel o s - b + r d under tap r, so pixel i has to do with tap r where i + b - r d is a multiple of s: of the pixels
    /// from `phase` on with all taps that differ by s / gcd(s, d), or with none.
    pub(super) fn phase(&self, dimension: usize, phase: usize, taps: usize) -> Phase {
        let (s, d) = (self.stride[dimension] as i64, self.dilation[dimension] as i64);
        let above = (phase + self.before[dimension]) as i64;
        let every = s / gcd(s, d);
        let Some(first) = (0..taps.min(every as usize) as i64).find(|r| (above - r * d) % s == 0) else {
            let taps = Taps { count: 0, first: 0, stride: 1, offset: 0, step: 0 };
            return Phase { taps, first: 0, every: 1 };
        };
        // From one of its taps to the next the output is so many in front.
        let step = d * every / s;
        let count = (taps as i64 - 1 - first) / every + 1;
        let reach = (count - 1) * step;
        let output = (above - first * d) / s;
        let taps = Taps {
            count: count as u32,
            first: (output - reach) as i32,
            stride: 1,
            offset: reach as u32,
            step: -step as i32,
        };
        Phase { taps, first: first as usize, every: every as usize }
    }
}

/// The taps that reach some of the pixels: from the `first` on every so manieth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) taps: Taps,
    pub(super) first: usize,
    pub(super) every: usize,
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How copies in im2col mode go over images of so many rows and columns of pixels for so many of outputs; `None` where their maps have no room
/// for it.
pub(super) fn walk(taps: [Taps; 2], pixels: [usize; 2], outputs: [usize; 2]) -> Option<Walk> {
    let upper = |dimension: usize| {
        let Taps { first, stride, .. } = taps[dimension];
        let last = i64::from(first) + (outputs[dimension] as i64 - 1) * i64::from(stride);
        i32::try_from(last - (pixels[dimension] as i64 - 1)).ok()
    };
    let walk = Walk {
        lower: [taps[1].first, taps[0].first],
        upper: [upper(1)?, upper(0)?],
        steps: [taps[1].stride, taps[0].stride],
    };
    let near = |taps: &Taps| taps.count == 0 || taps.at(0).max(taps.at(taps.count - 1)) <= MAX_OFFSET;
    (walk.fits() && taps.iter().all(near)).then_some(walk)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every output and tap that read a pixel are found again from the pixel, once.
    #[test]
    fn phases_are_the_inverse_of_taps() {
        for stride in 1..5 {
            for dilation in 1..5 {
                for (taps, before, after, pixels) in [(1, 0, 0, 7), (3, 1, 1, 9), (4, 5, 2, 6), (2, 0, 3, 1)]
                {
                    let pair = |x| [x, 1];
                    let geometry = Geometry {
                        stride: pair(stride),
                        before: pair(before),
                        after: pair(after),
                        dilation: pair(dilation),
                        groups: 1,
                    };
                    let Some(outputs) = geometry.outputs(0, pixels, taps) else { continue };
                    let forward = geometry.taps(0, taps);
                    let mut read = Vec::new();
                    for o in 0..outputs as i32 {
                        for r in 0..taps as u32 {
                            let at = forward.first + o * forward.stride as i32 + forward.at(r) as i32;
                            if (0..pixels as i32).contains(&at) {
                                read.push((at, o, r as usize));
                            }
                        }
                    }
                    let mut found = Vec::new();
                    for phase in 0..stride.min(pixels) {
                        let Phase { taps, first, every } = geometry.phase(0, phase, taps);
                        for i in 0..(pixels - phase).div_ceil(stride) {
                            for t in 0..taps.count {
                                let o = taps.first + i as i32 + taps.at(t) as i32;
                                if (0..outputs as i32).contains(&o) {
                                    found.push(((phase + i * stride) as i32, o, first + t as usize * every));
                                }
                            }
                        }
                    }
                    read.sort_unstable();
                    found.sort_unstable();
                    assert_eq!(read, found, "stride {stride}, dilation {dilation}, {taps} taps");
                }
            }
        }
    }

    #[test]
    fn walks_end_at_the_last_output() {
        let geometry = Geometry { stride: [2, 1], before: [1, 2], dilation: [1, 3], ..Geometry::default() };
        let taps = [geometry.taps(0, 3), geometry.taps(1, 2)];
        let walk = walk(taps, [8, 9], [4, 8]).unwrap();
        assert_eq!((walk.lower, walk.upper, walk.steps), ([-2, -1], [-3, -2], [1, 2]));
        let far = Geometry { dilation: [1, 129], ..geometry };
        assert!(super::walk([far.taps(0, 3), far.taps(1, 3)], [8, 900], [4, 9]).is_none());
        let fast = Geometry { stride: [9, 1], ..geometry };
        assert!(super::walk([fast.taps(0, 3), taps[1]], [80, 9], [9, 8]).is_none());
    }
}
