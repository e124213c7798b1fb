//! How a filter goes over images, forwards and backwards.

use tilewright_device::tile::Taps;

use crate::backend::Walk;
use crate::{Error, Result};

/// Sizes, paddings and steps stay below it, so that coordinates are counted in 32 bits.
const MOST: usize = 1 << 30;

/// How a filter goes over images. Numbers are of depth, height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    pub(super) stride: [usize; 3],
    /// Zeros in front of an image's first plane, row and column.
    pub(super) before: [usize; 3],
    /// Zeros behind its last ones.
    pub(super) after: [usize; 3],
    pub(super) dilation: [usize; 3],
    pub(super) groups: usize,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry { stride: [1; 3], before: [0; 3], after: [0; 3], dilation: [1; 3], groups: 1 }
    }
}

/// Numbers of the last dimensions, and `other` of those before.
pub(super) const fn of_last<const N: usize>(numbers: [usize; N], other: usize) -> [usize; 3] {
    const { assert!(N >= 1 && N <= 3, "there are three dimensions: depth, height and width") };
    let mut all = [other; 3];
    let mut i = 0;
    while i < N {
        all[3 - N + i] = numbers[i];
        i += 1;
    }
    all
}

impl Geometry {
    /// Checks the numbers by themselves; of tensors of 3 dimensions, sequences, that they have no height, and of those of 4, images, no depth.
    pub(super) fn check(&self, rank: usize) -> Result<()> {
        let Geometry { stride, before, after, dilation, groups } = *self;
        for (name, numbers, least) in
            [("stride", stride, 1), ("padding", before, 0), ("padding", after, 0), ("dilation", dilation, 1)]
        {
            let [depth, height, width] = numbers;
            let was = if depth == least { format!("{:?}", [height, width]) } else { format!("{numbers:?}") };
            if numbers.iter().any(|&x| x < least || x > MOST) {
                return Err(Error::argument(name, was, format!("of numbers from {least} to 2^30")));
            }
            let which = match rank {
                3 if height != least => "height, which sequences have",
                3 | 4 if depth != least => "depth, which tensors of less than 5 dimensions have",
                _ => continue,
            };
            let allowed = format!("{least} in the place of the {which} not");
            return Err(Error::argument(name, was, allowed));
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

/// Whether volumes of so many planes of pixels and of outputs are images.
pub(super) fn are_images(depth: &Taps, planes: [usize; 2]) -> bool {
    planes == [1, 1] && depth.count == 1 && depth.first == 0
}

/// How copies in im2col mode go over images of so many planes, rows and columns of pixels for so many of outputs; `None` where their maps
/// have no room for it.
pub(super) fn walk(taps: [Taps; 3], pixels: [usize; 3], outputs: [usize; 3]) -> Option<Walk> {
    let images = are_images(&taps[0], [pixels[0], outputs[0]]);
    // Kernels go over volumes of one plane as over images.
    let planes = if images { None } else { Some(pixels[0]).filter(|&planes| planes > 1) };
    let upper = |dimension: usize| {
        let Taps { first, stride, .. } = taps[dimension];
        let last = i64::from(first) + (outputs[dimension] as i64 - 1) * i64::from(stride);
        i32::try_from(last - (pixels[dimension] as i64 - 1)).ok()
    };
    let walk = Walk {
        lower: [2, 1, 0].map(|dimension: usize| taps[dimension].first),
        upper: [upper(2)?, upper(1)?, upper(0)?],
        steps: [2, 1, 0].map(|dimension: usize| taps[dimension].stride),
        planes,
    };
    let most = walk.most_offset();
    let near = |taps: &Taps| taps.count == 0 || taps.at(0).max(taps.at(taps.count - 1)) <= most;
    ((images || planes.is_some()) && walk.fits() && taps.iter().all(near)).then_some(walk)
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
                    let pair = |x| [x, 1, 1];
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
        let geometry =
            Geometry { stride: [1, 2, 1], before: [0, 1, 2], dilation: [1, 1, 3], ..Geometry::default() };
        let taps = [geometry.taps(0, 1), geometry.taps(1, 3), geometry.taps(2, 2)];
        let found = walk(taps, [1, 8, 9], [1, 4, 8]).unwrap();
        assert_eq!((found.lower, found.upper, found.steps), ([-2, -1, 0], [-3, -2, 0], [1, 2, 1]));
        assert_eq!(found.planes, None);
        let far = Geometry { dilation: [1, 1, 129], ..geometry };
        assert!(walk([taps[0], far.taps(1, 3), far.taps(2, 3)], [1, 8, 900], [1, 4, 9]).is_none());
        let fast = Geometry { stride: [1, 9, 1], ..geometry };
        assert!(walk([taps[0], fast.taps(1, 3), taps[2]], [1, 80, 9], [1, 9, 8]).is_none());
    }

    #[test]
    fn walks_over_volumes_are_shorter() {
        let geometry = Geometry { stride: [2, 1, 1], before: [1, 1, 1], ..Geometry::default() };
        let taps = [0, 1, 2].map(|dimension| geometry.taps(dimension, 3));
        let found = walk(taps, [7, 8, 9], [4, 8, 9]).unwrap();
        assert_eq!((found.lower, found.upper, found.steps), ([-1; 3], [-1, -1, -1], [1, 1, 2]));
        assert_eq!(found.planes, Some(7));
        // Kernels take a single plane for an image.
        assert!(walk(taps, [1, 8, 9], [1, 8, 9]).is_none());
        let far = |dilation| Geometry { dilation: [1, 1, dilation], ..geometry }.taps(2, 3);
        assert!(walk([taps[0], taps[1], far(15)], [7, 8, 80], [4, 8, 66]).is_some());
        assert!(walk([taps[0], taps[1], far(16)], [7, 8, 80], [4, 8, 66]).is_none());
        let before = |zeros| Geometry { before: [zeros; 3], ..geometry }.taps(1, 40);
        assert!(walk([taps[0], before(16), taps[2]], [7, 30, 9], [4, 30, 9]).is_none());
    }
}
