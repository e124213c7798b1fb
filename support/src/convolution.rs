//! Convolutions of images and of volumes, and their gradients, in f64.

use crate::Real;

/// Sizes of a convolution. Pairs are of height and width.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Images, or volumes.
    pub images: usize,
    /// Of an image.
    pub pixels: [usize; 2],
    /// Of all groups.
    pub channels: usize,
    /// Of all groups.
    pub outputs: usize,
    /// Rows and columns.
    pub filter: [usize; 2],
    /// Pixels from one output to the next.
    pub stride: [usize; 2],
    /// Zeros before an image's first row and column.
    pub before: [usize; 2],
    /// Zeros behind its last ones.
    pub after: [usize; 2],
    /// Pixels from one tap to the next.
    pub dilation: [usize; 2],
    /// Equal parts of channels and outputs.
    pub groups: usize,
    /// Of volumes, their third dimension.
    pub depth: Option<Depth>,
}

/// The third dimension of volumes.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Planes of a volume.
    pub planes: usize,
    /// Slices of a filter.
    pub filter: usize,
    /// Planes from one output to the next.
    pub stride: usize,
    /// Planes of zeros in front.
    pub before: usize,
    /// Planes of zeros behind.
    pub after: usize,
    /// Planes from one tap to the next.
    pub dilation: usize,
}

impl Depth {
    /// Of so many planes, under filters of one slice.
    pub const fn of(planes: usize) -> Self {
        Depth { planes, filter: 1, stride: 1, before: 0, after: 0, dilation: 1 }
    }
}

impl Default for Case {
    fn default() -> Self {
        Case {
            images: 1,
            pixels: [1; 2],
            channels: 1,
            outputs: 1,
            filter: [1; 2],
            stride: [1; 2],
            before: [0; 2],
            after: [0; 2],
            dilation: [1; 2],
            groups: 1,
            depth: None,
        }
    }
}

impl Case {
    /// With as many zeros on all sides of a dimension.
    pub fn padded(self, padding: [usize; 2]) -> Self {
        Case { before: padding, after: padding, ..self }
    }

    /// Of depth, height and width: what `depth` says of volumes, or this of images, then the pair.
    fn of(&self, depth: impl Fn(Depth) -> usize, [height, width]: [usize; 2]) -> [usize; 3] {
        [depth(self.depth.unwrap_or(Depth::of(1))), height, width]
    }
    /// Pixels from one output to the next, of depth, height and width.
    pub fn strides(&self) -> [usize; 3] {
        self.of(|depth| depth.stride, self.stride)
    }
    /// Zeros before the first and behind the last pixels, of depth, height and width.
    pub fn paddings(&self) -> [[usize; 3]; 2] {
        [self.of(|depth| depth.before, self.before), self.of(|depth| depth.after, self.after)]
    }
    /// Pixels from one tap to the next, of depth, height and width.
    pub fn dilations(&self) -> [usize; 3] {
        self.of(|depth| depth.dilation, self.dilation)
    }
    /// Outputs, of depth, height and width; none where the filter does not fit.
    pub fn fits(&self) -> Option<[usize; 3]> {
        let (pixels, taps) =
            (self.of(|depth| depth.planes, self.pixels), self.of(|depth| depth.filter, self.filter));
        let ([before, after], dilation, stride) = (self.paddings(), self.dilations(), self.strides());
        let mut outputs = [0; 3];
        for (i, outputs) in outputs.iter_mut().enumerate() {
            let padded = pixels[i] + before[i] + after[i];
            *outputs = padded.checked_sub(dilation[i] * (taps[i] - 1) + 1)? / stride[i] + 1;
        }
        Some(outputs)
    }
    /// Outputs of an image's height and width.
    pub fn out(&self) -> [usize; 2] {
        let [_, height, width] = self.fits().expect("a filter that fits");
        [height, width]
    }
    /// The shape of the images, without a depth.
    pub fn x(&self) -> [usize; 4] {
        [self.images, self.pixels[0], self.pixels[1], self.channels]
    }
    /// The shape of the filters, without a depth.
    pub fn w(&self) -> [usize; 4] {
        [self.outputs, self.filter[0], self.filter[1], self.channels / self.groups]
    }
    /// The shape of the outputs, without a depth.
    pub fn y(&self) -> [usize; 4] {
        let [p, q] = self.out();
        [self.images, p, q, self.outputs]
    }
    /// The shapes of images, filters and outputs, with their depth if they have one.
    pub fn shapes(&self) -> [Vec<usize>; 3] {
        let deep = |shape: [usize; 4], depth: usize| {
            let mut shape = shape.to_vec();
            if self.depth.is_some() {
                shape.insert(1, depth);
            }
            shape
        };
        let [planes, slices] =
            [self.of(|depth| depth.planes, [0; 2])[0], self.of(|depth| depth.filter, [0; 2])[0]];
        let outputs = self.fits().expect("a filter that fits")[0];
        [deep(self.x(), planes), deep(self.w(), slices), deep(self.y(), outputs)]
    }

    /// Calls `f` with the places in y, x and w of every product.
    pub fn each(&self, mut f: impl FnMut(usize, usize, usize)) {
        let [d, h, w] = self.of(|depth| depth.planes, self.pixels);
        let [t, r, s] = self.of(|depth| depth.filter, self.filter);
        let [o, p, q] = self.fits().expect("a filter that fits");
        let (c, k, each) = (self.channels, self.outputs, self.channels / self.groups);
        let ([before, _], dilation, stride) = (self.paddings(), self.dilations(), self.strides());
        for at in 0..self.images * o * p * q * k {
            let (output, column, row, plane, image) =
                (at % k, at / k % q, at / k / q % p, at / k / q / p % o, at / k / q / p / o);
            let group = output / (k / self.groups);
            for tap in 0..t * r * s {
                let place = |i: usize, out: usize, tap: usize| {
                    (out * stride[i] + tap * dilation[i]).checked_sub(before[i])
                };
                let (Some(z), Some(y), Some(x)) =
                    (place(0, plane, tap / s / r), place(1, row, tap / s % r), place(2, column, tap % s))
                else {
                    continue;
                };
                if z < d && y < h && x < w {
                    let from = (((image * d + z) * h + y) * w + x) * c + group * each;
                    let filter = (output * t * r * s + tap) * each;
                    (0..each).for_each(|i| f(at, from + i, filter + i));
                }
            }
        }
    }
}

/// Numbers in f64, each with the sum of its terms' sizes.
pub struct Exact {
    /// The numbers.
    pub sums: Vec<f64>,
    /// The sums of their terms' sizes.
    pub scales: Vec<f64>,
}

/// Which of the three tensors is the sum of products of the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// y.
    Outputs,
    /// x.
    Images,
    /// w.
    Filters,
}

impl Exact {
    /// The sums for `of`, of all three tensors in row-major order; that of `of` is not looked at.
    pub fn new(case: &Case, of: Of, [x, w, y]: [&[f64]; 3]) -> Self {
        let [images, filters, outputs] = case.shapes();
        let len = match of {
            Of::Outputs => outputs.iter().product(),
            Of::Images => images.iter().product(),
            Of::Filters => filters.iter().product(),
        };
        let mut exact = Exact { sums: vec![0.0; len], scales: vec![0.0; len] };
        case.each(|at, from, filter| {
            let (to, product) = match of {
                Of::Outputs => (at, x[from] * w[filter]),
                Of::Images => (from, y[at] * w[filter]),
                Of::Filters => (filter, y[at] * x[from]),
            };
            exact.sums[to] += product;
            exact.scales[to] += product.abs();
        });
        exact
    }

    /// Compares `out` with what `finish` makes of the sums: a number and what its terms add to its error.
    pub fn check<T: Real>(&self, out: &[T], finish: impl Fn(usize, f64) -> (f64, f64)) -> Result<(), String> {
        /// Error of a sum of products in f32, relative to its terms: tensor cores round each step toward zero.
        const SUM: f64 = 2e-6;
        /// Half of f16's smallest step.
        const SUBNORMAL: f64 = 3e-8;
        let out = T::widen(out);
        assert_eq!(out.len(), self.sums.len());
        for (at, &out) in out.iter().enumerate() {
            let (exact, terms) = finish(at, self.sums[at]);
            let before = SUM * (self.scales[at] + terms);
            let bound = 1.13 * before + 1e-6 * exact.abs() + T::ROUNDING * (exact.abs() + before) + SUBNORMAL;
            let off = (f64::from(out) - exact).abs();
            if off.is_nan() || off > bound {
                return Err(format!("element {at} is {out}, must be {exact} within {bound:.2e}"));
            }
        }
        Ok(())
    }
}
