//! What a convolution is asked to compute, checked; and the products with patches that it takes.

use tilewright_device::tile::Taps;

use super::geometry::{Geometry, Phase};
use crate::ops::frame::{Named, check, of_shape};
use crate::tensor::{Layout, Places, Untyped};
use crate::{Device, Element, Error, Result, TensorView, TensorViewMut};

/// A convolution's tensors, of which the last is written: of images, of filters, of outputs in the order of its names.
pub(super) struct Tensors<'a> {
    pub(super) names: [&'static str; 3],
    pub(super) of: [Untyped; 3],
    pub(super) named: [Named<'a>; 3],
    pub(super) device: &'a Device,
}

impl<'a> Tensors<'a> {
    /// Outputs of images and filters.
    pub(super) fn outputs<T: Element>(
        x: &'a TensorView<'_, T>,
        w: &'a TensorView<'_, T>,
        y: &'a TensorViewMut<'_, T>,
    ) -> Self {
        Tensors {
            names: ["x", "w", "y"],
            of: [x.untyped(), w.untyped(), y.untyped()],
            named: [Named::read("x", x), Named::read("w", w), Named::written("y", y)],
            device: y.device(),
        }
    }

    /// The images' gradient.
    pub(super) fn images<T: Element>(
        dy: &'a TensorView<'_, T>,
        w: &'a TensorView<'_, T>,
        dx: &'a TensorViewMut<'_, T>,
    ) -> Self {
        Tensors {
            names: ["dx", "w", "dy"],
            of: [dx.untyped(), w.untyped(), dy.untyped()],
            named: [Named::read("dy", dy), Named::read("w", w), Named::written("dx", dx)],
            device: dx.device(),
        }
    }

    /// The filters' gradient.
    pub(super) fn filters<T: Element>(
        x: &'a TensorView<'_, T>,
        dy: &'a TensorView<'_, T>,
        dw: &'a TensorViewMut<'_, T>,
    ) -> Self {
        Tensors {
            names: ["x", "dw", "dy"],
            of: [x.untyped(), dw.untyped(), dy.untyped()],
            named: [Named::read("x", x), Named::read("dy", dy), Named::written("dw", dw)],
            device: dw.device(),
        }
    }
}

/// A convolution: its images \[images, height, width, groups, channels\], filters \[groups, rows, columns, channels, outputs\] and outputs
/// \[images, height, width, groups, outputs\]. Images may be planes of volumes; then rows are those of all slices of the filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub(super) x: Untyped,
    pub(super) w: Untyped,
    pub(super) y: Untyped,
    pub(super) geometry: Geometry,
    pub(super) volume: Volume,
}

/// The third dimension: images are volumes of one plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    /// Planes of x.
    pub(super) pixels: usize,
    /// Planes of y.
    pub(super) outputs: usize,
    /// Slices of a filter.
    pub(super) slices: usize,
}

/// Sizes of a convolution; those of three are of depth, height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    /// Planes of outputs, of all volumes.
    pub(super) images: usize,
    pub(super) pixels: [usize; 3],
    pub(super) groups: usize,
    /// Of a group.
    pub(super) channels: usize,
    /// Of a group.
    pub(super) outputs: usize,
    pub(super) filter: [usize; 3],
    pub(super) out: [usize; 3],
}

impl Size {
    /// Outputs of all images, each of some channels.
    pub(super) fn places(&self) -> usize {
        let [_, down, across] = self.out;
        self.images.saturating_mul(down).saturating_mul(across)
    }
}

impl Problem {
    /// Checks that the tensors fit together, and apart from the others of the call.
    pub(super) fn new<'a>(
        Tensors { names: [x_name, w_name, y_name], of, named, device }: Tensors<'a>,
        geometry: Geometry,
        others: impl IntoIterator<Item = Named<'a>>,
    ) -> Result<Self> {
        let others: Vec<_> = others.into_iter().collect();
        let rank = of[2].layout.rank();
        if !(3..=5).contains(&rank) {
            let allowed = "of 4 dimensions, images, height, width and channels, of 3 without a height, or of 5 with a depth";
            return Err(Error::argument(y_name, of_shape(of[2].layout.shape()), allowed));
        }
        for (name, tensor) in [x_name, w_name].into_iter().zip(&of) {
            if tensor.layout.rank() != rank {
                let allowed = format!("of {rank} dimensions, as `{y_name}`");
                return Err(Error::argument(name, of_shape(tensor.layout.shape()), allowed));
            }
        }
        check(device, named.into_iter().chain(others))?;
        geometry.check(rank)?;
        let [x5, w5, y5] = of.each_ref().map(|tensor| whole(&tensor.layout));
        let [k, t, r, s, c] = w5.map(|(size, _)| size);
        let [images, depth, height, width, channels] = x5.map(|(size, _)| size);
        let groups = geometry.groups;
        if !k.is_multiple_of(groups) {
            let allowed = format!("a divisor of the {k} filters of `{w_name}`");
            return Err(Error::argument("groups", groups.to_string(), allowed));
        }
        if c.checked_mul(groups) != Some(channels) {
            let allowed = format!("with {groups} times the {c} channels of `{w_name}`");
            return Err(Error::argument(x_name, of_shape(of[0].layout.shape()), allowed));
        }
        let out = |dimension, pixels, taps| {
            geometry.outputs(dimension, pixels, taps).ok_or_else(|| {
                let image = of[0].layout.shape();
                let allowed = format!("of filters that fit into the images of `{x_name}`, of shape {image:?}, with their padding");
                Error::argument(w_name, of_shape(of[1].layout.shape()), allowed)
            })
        };
        let want = [images, out(0, depth, t)?, out(1, height, r)?, out(2, width, s)?, k];
        if y5.map(|(size, _)| size) != want {
            let lacks = |i: &usize| (1..=5 - rank).contains(i);
            let shape: Vec<_> =
                want.into_iter().enumerate().filter(|(i, _)| !lacks(i)).map(|(_, n)| n).collect();
            return Err(Error::argument(
                y_name,
                of_shape(of[2].layout.shape()),
                format!("of shape {shape:?}"),
            ));
        }
        let ([xn, xd, xh, xw, xc], [wk, wt, wr, ws, wc], [yn, yd, yh, yw, yk]) = (x5, w5, y5);
        let planes = |name, n, d| together(n, d).ok_or_else(|| uneven(name, "volumes' planes", n, d));
        let (xn, yn) = (planes(x_name, xn, xd)?, planes(y_name, yn, yd)?);
        let wr = together(wt, wr).ok_or_else(|| uneven(w_name, "slices' rows", wt, wr))?;
        let grouped = |(size, stride): (usize, usize)| {
            let each = size / groups;
            [(groups, each.saturating_mul(stride)), (each, stride)]
        };
        let ([xg, xc], [wg, wk], [yg, yk]) = (grouped(xc), grouped(wk), grouped(yk));
        let Geometry { stride: [stride, ..], before: [before, ..], after: [after, ..], .. } = geometry;
        let volume = if [t, stride, before, after] == [1, 1, 0, 0] {
            Volume { pixels: 1, outputs: 1, slices: 1 }
        } else {
            Volume { pixels: depth, outputs: want[1], slices: t }
        };
        Ok(Problem {
            x: with(of[0], [xn, xh, xw, xg, xc])?,
            w: with(of[1], [wg, wr, ws, wc, wk])?,
            y: with(of[2], [yn, yh, yw, yg, yk])?,
            geometry,
            volume,
        })
    }

    /// A residual, of the outputs' shape, as they are: \[images, height, width, groups, outputs\].
    pub(super) fn as_outputs(&self, of: Untyped) -> Result<Untyped> {
        let [n, d, h, w, (size, stride)] = whole(&of.layout);
        let n = together(n, d).ok_or_else(|| uneven("residual", "volumes' planes", n, d))?;
        let (groups, each) = (self.geometry.groups, size / self.geometry.groups.max(1));
        with(of, [n, h, w, (groups, each.saturating_mul(stride)), (each, stride)])
    }

    pub(super) fn size(&self) -> Size {
        self.forward().size()
    }

    /// The one product that makes outputs, or that filters' gradients are made from.
    pub(super) fn forward(&self) -> Product {
        let Problem { x, w, y, geometry, volume: Volume { pixels, outputs, slices } } = *self;
        let [_, (lines, _), (columns, _), ..] = dims::<5>(&w.layout);
        let rows = lines / slices.max(1);
        let filter = [slices, rows, columns];
        let taps = [0, 1, 2].map(|dimension| geometry.taps(dimension, filter[dimension]));
        Product { x, w, y, taps, planes: [pixels, outputs], lines: [rows, 1] }
    }

    /// The products that make gradients of images: one for each of the pixels that a stride tells apart. They are convolutions of outputs.
    pub(super) fn backward(&self) -> Result<Vec<Product>> {
        let Size { pixels, filter, .. } = self.size();
        let stride = self.geometry.stride;
        let ([n, h, w, g, c], [fg, fr, fs, fc, fk]) = (dims::<5>(&self.x.layout), dims::<5>(&self.w.layout));
        let every = |(size, step): (usize, usize), first: usize, stride: usize| {
            ((size - first).div_ceil(stride), step.saturating_mul(stride))
        };
        let taken = |(_, step): (usize, usize), phase: &Phase| {
            (phase.taps.count as usize, step.saturating_mul(phase.every))
        };
        let of_volume = (pixels[0], n.1);
        let volumes = n.0 / pixels[0].max(1);
        // Planes that a stride takes out of several volumes follow each other evenly where it divides these.
        let apart = volumes > 1 && !pixels[0].is_multiple_of(stride[0]);
        let (parts, volumes) = if apart { (volumes, 1) } else { (1, volumes) };
        let mut from = dims::<5>(&self.y.layout);
        from[0].0 = volumes * self.volume.outputs;
        let mut products = Vec::new();
        for [part, deep, down, across] in
            each([parts, stride[0].min(pixels[0]), stride[1].min(pixels[1]), stride[2].min(pixels[2])])
        {
            let slices = self.geometry.phase(0, deep, filter[0]);
            let rows = self.geometry.phase(1, down, filter[1]);
            let columns = self.geometry.phase(2, across, filter[2]);
            let (planes, step) = every(of_volume, deep, stride[0]);
            let to = [(planes * volumes, step), every(h, down, stride[1]), every(w, across, stride[2]), g, c];
            // Lines of a filter that are taken of several slices need not follow each other evenly.
            let (lines, taken_rows) = match (slices.taps.count as usize, rows.taps.count as usize) {
                (0 | 1, _) => ([0, 1], taken(fr, &rows)),
                (count, of_slice) => {
                    let lines = [slices.every * filter[1], rows.every];
                    let last = (count - 1) * lines[0] + of_slice.saturating_sub(1) * lines[1];
                    (lines, (last + 1, fr.1))
                }
            };
            let filters = with(self.w, [fg, taken_rows, taken(fs, &columns), fk, fc])?;
            let first = slices.first * filter[1] + rows.first;
            products.push(Product {
                x: behind(with(self.y, from)?, part * self.volume.outputs * from[0].1),
                w: behind(filters, first * fr.1 + columns.first * fs.1),
                y: behind(with(self.x, to)?, (part * pixels[0] + deep) * n.1 + down * h.1 + across * w.1),
                taps: [slices.taps, rows.taps, columns.taps],
                planes: [self.volume.outputs, planes],
                lines,
            });
        }
        Ok(products)
    }
}

/// Patches of `x` times `w`, which are `y`; the dimensions are those of a [`Problem`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub(super) x: Untyped,
    pub(super) w: Untyped,
    pub(super) y: Untyped,
    /// Of depth, height and width.
    pub(super) taps: [Taps; 3],
    /// Planes of a volume of x, and of y.
    pub(super) planes: [usize; 2],
    /// Rows of w from one slice's tap to the next, and from one tap to the next in a slice.
    pub(super) lines: [usize; 2],
}

impl Product {
    /// The same with the tensors of a run.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let Product { x, w, y, .. } = self;
        Product { x: places.of(x), w: places.of(w), y: places.of(y), ..*self }
    }

    pub(super) fn size(&self) -> Size {
        let [_, (height, _), (width, _), (groups, _), (channels, _)] = dims::<5>(&self.x.layout);
        let [(images, _), (down, _), (across, _), _, (outputs, _)] = dims::<5>(&self.y.layout);
        let [pixels, planes] = self.planes;
        Size {
            images,
            pixels: [pixels, height, width],
            groups,
            channels,
            outputs,
            filter: self.taps.map(|taps| taps.count as usize),
            out: [planes, down, across],
        }
    }

    /// The filters \[groups, rows, columns, channels, outputs\] of one column, whose channels are those of all columns, and channels of a pixel:
    /// where columns follow each other in images and filters as channels do.
    pub(super) fn joined(&self) -> Option<(Untyped, usize)> {
        let ([_, _, (_, pixel), (groups, _), (channels, step)], [fg, fr, (columns, column), (_, line), fk]) =
            (dims::<5>(&self.x.layout), dims::<5>(&self.w.layout));
        let follows = |stride: usize, step: usize| step == 1 && stride == channels;
        let joins = groups == 1
            && columns > 1
            && self.taps[2].step == 1
            && follows(pixel, if channels == 1 { 1 } else { step })
            && follows(column, if channels == 1 { 1 } else { line });
        let width = channels.checked_mul(columns).filter(|_| joins)?;
        Some((with(self.w, [fg, fr, (1, width), (width, 1), fk]).ok()?, channels))
    }

    /// `of`, of groups that have a channel each, with them as the channels of one group.
    pub(super) fn channelwise(of: &Untyped) -> Result<Untyped> {
        let [n, h, w, g, _] = dims::<5>(&of.layout);
        with(*of, [n, h, w, (1, 0), g])
    }

    /// The same with filters \[rows, columns, channels\], of groups that have a channel and an output each; and with every `taps`-th tap of a
    /// filter's row, from the left of those that are taken together.
    pub(super) fn by_taps(&self, taps: u32) -> Result<Self> {
        let [fg, fr, fs, ..] = dims::<5>(&self.w.layout);
        let [depth, height, mut width] = self.taps;
        if width.step < 0 {
            width.offset = width.offset.saturating_sub((taps - 1) * width.step.unsigned_abs());
        }
        (width.count, width.step) = (width.count / taps, width.step * taps as i32);
        let (x, y) = (Self::channelwise(&self.x)?, Self::channelwise(&self.y)?);
        Ok(Product { x, w: with(self.w, [fr, fs, fg])?, y, taps: [depth, height, width], ..*self })
    }

    /// `of`, \[images, height, width, 1, channels\], as a matrix for each row of pixels: \[rows, pixels of a row, channels\]. `None` where rows do
    /// not follow each other evenly.
    pub(super) fn lines(of: &Untyped) -> Option<Untyped> {
        let [(n, image), (h, row), w, (groups, _), channel] = dims::<5>(&of.layout);
        let even = n == 1 || h == 1 || image == row.saturating_mul(h);
        let lines = (n.saturating_mul(h), if h > 1 { row } else { image });
        with(*of, [lines, w, channel]).ok().filter(|_| even && groups == 1)
    }

    /// `of`, \[images, height, width, groups, channels\], as a matrix of a row for each pixel, for each group: \[groups, pixels, channels\]. `None`
    /// where pixels do not follow each other evenly.
    pub(super) fn matrices(of: &Untyped) -> Option<Untyped> {
        let [n, h, w, group, channel] = dims::<5>(&of.layout);
        let (mut count, mut stride) = (1, 0);
        for (size, step) in [w, h, n] {
            if size != 1 && count == 1 {
                (count, stride) = (size, step);
            } else if size != 1 {
                if step != stride * count {
                    return None;
                }
                count *= size;
            }
        }
        let layout = Layout::strided(&[group.0, count, channel.0], &[group.1, stride, channel.1]).ok()?;
        Some(Untyped { layout, ..*of })
    }
}

/// Sizes and strides of a layout of `N` dimensions; zeros of what it has not.
fn dims<const N: usize>(layout: &Layout) -> [(usize, usize); N] {
    let mut all = layout.dims();
    std::array::from_fn(|_| all.next().unwrap_or_default())
}

/// Sizes and strides of images, depth, height, width and channels, of which sequences have no height, and images no depth.
fn whole(layout: &Layout) -> [(usize, usize); 5] {
    let mut all = dims::<5>(layout);
    for _ in layout.rank()..5 {
        let (size, stride) = all[1];
        all.copy_within(1..4, 2);
        all[1] = (1, size.max(1).saturating_mul(stride));
    }
    all
}

/// Two dimensions as one, if the inner follow each other evenly.
fn together(outer: (usize, usize), inner: (usize, usize)) -> Option<(usize, usize)> {
    let size = outer.0.checked_mul(inner.0)?;
    match (outer, inner) {
        ((_, stride), (1, _)) | ((1, _), (_, stride)) => Some((size, stride)),
        ((_, step), (count, stride)) => (size == 0 || step == count * stride).then_some((size, stride)),
    }
}

/// The error of dimensions that are not [`together`].
fn uneven(name: &'static str, what: &str, outer: (usize, usize), inner: (usize, usize)) -> Error {
    let was = format!("with strides {:?} of {what}", [outer.1, inner.1]);
    Error::argument(name, was, format!("of {what} that follow each other evenly"))
}

/// All places in such a box.
fn each([a, b, c, d]: [usize; 4]) -> impl Iterator<Item = [usize; 4]> {
    (0..a * b * c * d).map(move |i| [i / d / c / b, i / d / c % b, i / d % c, i % d])
}

/// The memory of `of` with other sizes and strides.
pub(super) fn with<const N: usize>(of: Untyped, dims: [(usize, usize); N]) -> Result<Untyped> {
    let layout = Layout::strided(&dims.map(|(size, _)| size), &dims.map(|(_, stride)| stride))?;
    Ok(Untyped { layout, ..of })
}

/// What begins so many elements behind `of`.
fn behind(of: Untyped, elements: usize) -> Untyped {
    Untyped { address: of.address + (elements * of.dtype.bytes()) as u64, ..of }
}
