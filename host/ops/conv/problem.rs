//! What a convolution is asked to compute, checked; and the products with patches that it takes.

use tilewright_device::tile::Taps;

use super::geometry::{Geometry, Phase};
use crate::ops::frame::{Named, check, of_shape};
use crate::tensor::{Layout, Untyped};
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
/// \[images, height, width, groups, outputs\].
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub(super) x: Untyped,
    pub(super) w: Untyped,
    pub(super) y: Untyped,
    pub(super) geometry: Geometry,
}

/// Sizes of a convolution; pairs are of height and width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) images: usize,
    pub(super) pixels: [usize; 2],
    pub(super) groups: usize,
    /// Of a group.
    pub(super) channels: usize,
    /// Of a group.
    pub(super) outputs: usize,
    pub(super) filter: [usize; 2],
    pub(super) out: [usize; 2],
}

impl Size {
    /// Outputs of all images, each of some channels.
    pub(super) fn places(&self) -> usize {
        self.images.saturating_mul(self.out[0]).saturating_mul(self.out[1])
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
        let sequences = of[2].layout.rank() == 3;
        let rank = if sequences { 3 } else { 4 };
        let names = [x_name, w_name, y_name];
        for (name, tensor) in names.into_iter().zip(&of) {
            if tensor.layout.rank() != rank {
                let allowed = match (sequences, name == y_name) {
                    (_, true) => {
                        "of 4 dimensions, images, height, width and channels, or of 3 without a height".into()
                    }
                    _ => format!("of {rank} dimensions, as `{y_name}`"),
                };
                return Err(Error::argument(name, of_shape(tensor.layout.shape()), allowed));
            }
        }
        check(device, named.into_iter().chain(others))?;
        geometry.check(sequences)?;
        let [x, w, y] = if sequences {
            let flat =
                |tensor: Untyped| Ok::<_, Error>(Untyped { layout: tensor.layout.insert(1)?, ..tensor });
            let [x, w, y] = of;
            [flat(x)?, flat(w)?, flat(y)?]
        } else {
            of
        };
        let (x4, w4, y4) = (dims(&x.layout), dims(&w.layout), dims(&y.layout));
        let [k, r, s, c] = w4.map(|(size, _)| size);
        let [images, height, width, channels] = x4.map(|(size, _)| size);
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
        let want = [images, out(0, height, r)?, out(1, width, s)?, k];
        if y4.map(|(size, _)| size) != want {
            let shape: Vec<_> =
                want.into_iter().enumerate().filter(|(i, _)| !sequences || *i != 1).map(|(_, n)| n).collect();
            return Err(Error::argument(
                y_name,
                of_shape(of[2].layout.shape()),
                format!("of shape {shape:?}"),
            ));
        }
        let ([xn, xh, xw, xc], [wk, wr, ws, wc], [yn, yh, yw, yk]) = (x4, w4, y4);
        let grouped = |(size, stride): (usize, usize)| {
            let each = size / groups;
            [(groups, each.saturating_mul(stride)), (each, stride)]
        };
        let ([xg, xc], [wg, wk], [yg, yk]) = (grouped(xc), grouped(wk), grouped(yk));
        Ok(Problem {
            x: with(x, [xn, xh, xw, xg, xc])?,
            w: with(w, [wg, wr, ws, wc, wk])?,
            y: with(y, [yn, yh, yw, yg, yk])?,
            geometry,
        })
    }

    /// A tensor of the outputs' shape as they are: \[images, height, width, groups, outputs\].
    pub(super) fn as_outputs(&self, of: Untyped) -> Result<Untyped> {
        let of = if of.layout.rank() == 3 { Untyped { layout: of.layout.insert(1)?, ..of } } else { of };
        let [n, h, w, (size, stride)] = dims(&of.layout);
        let (groups, each) = (self.geometry.groups, size / self.geometry.groups.max(1));
        with(of, [n, h, w, (groups, each.saturating_mul(stride)), (each, stride)])
    }

    pub(super) fn size(&self) -> Size {
        let [images, height, width, groups, channels] = dims::<5>(&self.x.layout).map(|(size, _)| size);
        let [_, rows, columns, _, outputs] = dims::<5>(&self.w.layout).map(|(size, _)| size);
        let [_, down, across, ..] = dims::<5>(&self.y.layout).map(|(size, _)| size);
        Size {
            images,
            pixels: [height, width],
            groups,
            channels,
            outputs,
            filter: [rows, columns],
            out: [down, across],
        }
    }

    /// The one product that makes outputs, or that filters' gradients are made from.
    pub(super) fn forward(&self) -> Product {
        let Size { filter, .. } = self.size();
        let taps = [0, 1].map(|dimension| self.geometry.taps(dimension, filter[dimension]));
        Product { x: self.x, w: self.w, y: self.y, taps }
    }

    /// The products that make gradients of images: one for each of the pixels that a stride tells apart. They are convolutions of outputs.
    pub(super) fn backward(&self) -> Result<Vec<Product>> {
        let Size { pixels, filter, .. } = self.size();
        let stride = self.geometry.stride;
        let ([n, h, w, g, c], [fg, fr, fs, fc, fk]) = (dims::<5>(&self.x.layout), dims::<5>(&self.w.layout));
        let mut products = Vec::new();
        for down in 0..stride[0].min(pixels[0]) {
            for across in 0..stride[1].min(pixels[1]) {
                let rows = self.geometry.phase(0, down, filter[0]);
                let columns = self.geometry.phase(1, across, filter[1]);
                let every = |(size, step): (usize, usize), first: usize, stride: usize| {
                    ((size - first).div_ceil(stride), step.saturating_mul(stride))
                };
                let taken = |(_, step): (usize, usize), phase: &Phase| {
                    (phase.taps.count as usize, step.saturating_mul(phase.every))
                };
                let x = with(self.x, [n, every(h, down, stride[0]), every(w, across, stride[1]), g, c])?;
                let filters = with(self.w, [fg, taken(fr, &rows), taken(fs, &columns), fk, fc])?;
                products.push(Product {
                    x: self.y,
                    w: behind(filters, rows.first * fr.1 + columns.first * fs.1),
                    y: behind(x, down * h.1 + across * w.1),
                    taps: [rows.taps, columns.taps],
                });
            }
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
    pub(super) taps: [Taps; 2],
}

impl Product {
    pub(super) fn size(&self) -> Size {
        let geometry = Geometry::default();
        Problem { x: self.x, w: self.w, y: self.y, geometry }.size()
    }

    /// The filters \[groups, rows, columns, channels, outputs\] of one column, whose channels are those of all columns, and channels of a pixel:
    /// where columns follow each other in images and filters as channels do.
    pub(super) fn joined(&self) -> Option<(Untyped, usize)> {
        let ([_, _, (_, pixel), (groups, _), (channels, step)], [fg, fr, (columns, column), (_, line), fk]) =
            (dims::<5>(&self.x.layout), dims::<5>(&self.w.layout));
        let follows = |stride: usize, step: usize| step == 1 && stride == channels;
        let joins = groups == 1
            && columns > 1
            && self.taps[1].step == 1
            && follows(pixel, if channels == 1 { 1 } else { step })
            && follows(column, if channels == 1 { 1 } else { line });
        let width = channels.checked_mul(columns).filter(|_| joins)?;
        Some((with(self.w, [fg, fr, (1, width), (width, 1), fk]).ok()?, channels))
    }

    /// Images with their groups as the channels of one, and filters \[rows, columns, channels\], of groups that have a channel and an output.
    pub(super) fn channelwise(&self) -> Result<(Untyped, Untyped)> {
        let ([n, h, w, g, _], [fg, fr, fs, ..]) = (dims::<5>(&self.x.layout), dims::<5>(&self.w.layout));
        Ok((with(self.x, [n, h, w, (1, 0), g])?, with(self.w, [fr, fs, fg])?))
    }

    /// `of`, \[images, height, width, 1, channels\], as a matrix for each row of pixels: \[rows, pixels of a row, channels\]. `None` where rows do
    /// not follow each other evenly.
    pub(super) fn lines(of: &Untyped) -> Option<Untyped> {
        let [(n, image), (h, row), w, (groups, _), channel] = dims::<5>(&of.layout);
        let even = n == 1 || h == 1 || image == row.saturating_mul(h);
        let lines = (n.saturating_mul(h), if h > 1 { row } else { image });
        with(*of, [lines, w, channel]).ok().filter(|_| even && groups == 1)
    }

    /// `of`, \[images, height, width, groups, channels\], as a matrix of a row for each pixel, for each group: \[groups, pixels, channels\]; or with the
    /// groups as channels, if these are one. `None` where pixels do not follow each other evenly.
    pub(super) fn matrices(of: &Untyped, groups_are_channels: bool) -> Option<Untyped> {
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
        let (group, channel) = if groups_are_channels { ((1, 0), group) } else { (group, channel) };
        let layout = Layout::strided(&[group.0, count, channel.0], &[group.1, stride, channel.1]).ok()?;
        Some(Untyped { layout, ..*of })
    }
}

/// Sizes and strides of a layout of `N` dimensions; zeros of what it has not.
fn dims<const N: usize>(layout: &Layout) -> [(usize, usize); N] {
    let mut all = layout.dims();
    std::array::from_fn(|_| all.next().unwrap_or_default())
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
