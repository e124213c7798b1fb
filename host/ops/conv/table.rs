//! The compiled convolution kernels, and their launches.

use std::sync::LazyLock;

use tilewright_conv::{
    CHANNELS, CONV, ConvArgs, ConvDepthwiseArgs, ConvKernel, ConvRowsArgs, ConvScatteredArgs,
    ConvWeightsArgs, KERNELS, Makes, RUN, STRIP, StripOrder, THREADS,
};
use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernel::{Copies, Listed};
use tilewright_device::tile::division::Division;
use tilewright_device::tile::{Activation, EpilogueAbi, PatchOrder, PatchesAbi, RasterOrder, Volumes};

use super::geometry::walk;
use super::problem::{Product, Size};
use crate::backend::Backend;
use crate::ops::frame::{MOST_ALIKE, Table, TileParts, alike, expect_mapped, of_shape, whole_tiles};
use crate::tensor::{Places, Untyped};
use crate::{AnyFunction, Device, Error, Launch, Result, Stream};

/// Lines of a TMA box.
const LINES: u32 = 64;
/// Rows of tiles that are taken together, so that CTAs which run at a time share their operands in L2.
const PANEL: u32 = 16;

/// One compiled kernel.
pub type Compiled = Listed<ConvKernel>;

/// What kernels are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Pass {
    /// Products of patches and filters.
    Patches,
    /// Gradients of filters.
    Weights,
}

/// What a kernel is chosen by first: what it is for, and the name of the element type.
pub(super) type Kind = (Pass, &'static str);

static TABLE: LazyLock<Table<Kind, Compiled>> = LazyLock::new(|| {
    let pass = |makes| if makes == Makes::Weights { Pass::Weights } else { Pass::Patches };
    Table::new(CONV.iter().map(|k| ((pass(k.makes), k.element), *k)))
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.kernels(&kind)
}

/// Outputs of a tile, of so many: all, or of filters whose channels are contiguous [as many for each](alike), in boxes of whole patterns of the swizzle.
pub(super) fn lines_read(kernel: &Compiled, outputs: usize) -> u32 {
    let [_, n, _] = kernel.tile;
    let short = kernel.makes == Makes::Outputs && kernel.copies == Copies::Boxes;
    alike(outputs, n, 8 * n.div_ceil(LINES), if short { MOST_ALIKE } else { 0 })
}

/// What is done with sums, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish {
    /// Of the shape of outputs, \[images, height, width, groups, outputs\].
    pub(super) bias: Option<Untyped>,
    /// Of the shape of outputs.
    pub(super) residual: Option<Untyped>,
    pub(super) activation: Activation,
    /// May start while the preceding grid still runs.
    pub(super) overlap: bool,
}

impl Finish {
    /// Nothing but what it is rounded to.
    pub(super) fn plain(overlap: bool) -> Self {
        Finish { bias: None, residual: None, activation: Activation::Identity, overlap }
    }

    /// The same with the tensors of a run.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let at = |of: &Option<Untyped>| of.as_ref().map(|of| places.of(of));
        Finish { bias: at(&self.bias), residual: at(&self.residual), ..*self }
    }
}

/// A kernel and the product that it is to compute.
#[derive(Clone, Debug)]
pub(super) struct Call {
    kernel: &'static Compiled,
    product: Product,
    size: Size,
    /// Channels of a pixel, where a filter's row is read as one tap.
    joined: u32,
    function: AnyFunction,
}

impl Call {
    /// `joined` says whether rows of filters are one tap.
    pub(super) fn new(
        device: &Device,
        kernel: &'static Compiled,
        product: &Product,
        joined: bool,
    ) -> Result<Self> {
        let mut product = *product;
        let mut pixel = 0;
        if joined && let Some((w, channels)) = product.joined() {
            (product.w, pixel) = (w, channels as u32);
            product.taps[2].count = 1;
        }
        let size = product.size();
        if let Makes::Depthwise([taps, _]) = kernel.makes {
            product = product.by_taps(taps)?;
        }
        Ok(Call { kernel, size, joined: pixel, function: device.listed(&KERNELS, kernel)?, product })
    }

    /// The same with the tensors of a run.
    pub(super) fn placed(&self, places: &Places) -> Self {
        Call { product: self.product.placed(places), function: self.function.clone(), ..*self }
    }

    fn backend(&self) -> &dyn Backend {
        self.function.device().backend()
    }

    /// Channels that the kernel counts in a tap.
    fn channels(&self) -> usize {
        self.product.w.layout.shape().get(3).copied().unwrap_or(0)
    }

    fn too_large(&self) -> Error {
        let allowed = format!("of fewer than {} outputs, tiles and steps of their depth", PatchOrder::MOST);
        Error::argument("y", of_shape(self.product.y.layout.shape()), allowed)
    }

    fn count(&self, of: usize, each: u32) -> Result<u32> {
        u32::try_from(of.div_ceil(each as usize)).map_err(|_| self.too_large())
    }

    /// The images, for tiles of so many pixels and for so many blocks of channels.
    fn patches(&self, pixels: u32, blocks: u32) -> Result<PatchesAbi<()>> {
        let Call { kernel, product, size, .. } = self;
        let count = |of: usize| self.count(of, 1);
        let ([planes, down, across], [depth, height, width]) = (size.out, product.taps);
        let out = [count(down)?, count(across)?];
        let lines = [count(product.lines[0])?, count(product.lines[1])?];
        let volumes = Volumes { depth, planes: count(size.pixels[0])?, outputs: count(planes)?, lines };
        let order = PatchOrder::new(count(size.images)?, out, [height, width], blocks, volumes)
            .ok_or_else(|| self.too_large())?;
        let walk = walk(product.taps, size.pixels, size.out).filter(|_| kernel.copies == Copies::Boxes);
        let mut images = product.x.images(self.backend(), walk.map(|walk| (walk, pixels)))?;
        if let Makes::Rows(_) = kernel.makes {
            // Lines end where images' rows do.
            images.shape[4] = i32::MAX as u32;
        } else if self.joined > 0 {
            // Kernels count a line's channels, which follow each other: the stride of a single one may be any.
            (images.shape[4], images.strides[4]) = (self.channels() as u32, 1);
        }
        Ok(PatchesAbi { images, order: order.joined(self.joined) })
    }

    /// Whether it reads by TMA.
    fn lines(&self) -> u32 {
        if self.kernel.copies == Copies::Boxes { LINES } else { 0 }
    }

    /// Launches a kernel of products with patches.
    pub(super) fn run(&self, stream: &Stream, finish: &Finish) -> Result<()> {
        let Call { kernel, product, size, function, .. } = self;
        let backend = self.backend();
        let [m, n, k] = kernel.tile;
        match kernel.makes {
            Makes::Depthwise(_) => return self.run_depthwise(stream, finish),
            Makes::Rows(_) => return self.run_rows(stream, finish),
            _ => {}
        }
        let x = self.patches(m, self.count(self.channels(), k)?)?;
        let lines = lines_read(kernel, size.outputs);
        let boxes = n.div_ceil(LINES);
        let of_box = if kernel.copies == Copies::Boxes { lines / boxes } else { 0 };
        let w: GlobalAbi<(), 5> = product.w.arg(backend, kernel.makes != Makes::Outputs, of_box)?;
        expect_mapped(kernel.name, kernel.arch, [x.images.tma, w.tma])?;
        let (down, across, groups) =
            (self.count(size.places(), m)?, self.count(size.outputs, lines)?, self.count(size.groups, 1)?);
        let order = RasterOrder::new(groups, down, across, PANEL).ok_or_else(|| self.too_large())?;
        let clusters = order.total().min(function.resident_ctas() / kernel.split).max(1);
        let overlap = finish.overlap && kernel.copies == Copies::Boxes;
        let launch = Launch::grid([clusters * kernel.split, 1, 1]).pdl(overlap);
        // SAFETY: the arguments are those of the kernel, of its description, and boxes of filters have equal parts of a tile's lines. The views that the product comes from are borrowed by the
        // caller, y exclusively, and reach no further than their shapes, which the kernel keeps to. Programmatic launch only
        // moves what precedes its wait for the preceding grid.
        unsafe {
            if kernel.makes == Makes::Scattered {
                let y: GlobalAbi<(), 5> = product.y.arg(backend, true, 0)?;
                return function.launch_block(stream, &launch, &ConvScatteredArgs { x, w, y, order });
            }
            let y: GlobalAbi<(), 3> = self.matrices(&product.y)?.arg(backend, true, self.lines())?;
            let epilogue = self.epilogue(finish, &y, |of| self.matrices(of))?;
            function.launch_block(stream, &launch, &ConvArgs { x, w, y, epilogue, order, lines })
        }
    }

    fn run_depthwise(&self, stream: &Stream, finish: &Finish) -> Result<()> {
        let Call { product, size, function, .. } = self;
        let backend = self.backend();
        // All channels are of one block.
        let x = self.patches(STRIP as u32, 1)?;
        let w: GlobalAbi<(), 3> = product.w.arg(backend, true, 0)?;
        let y: GlobalAbi<(), 5> = product.y.arg(backend, true, 0)?;
        let epilogue = self.epilogue(finish, &y, Product::channelwise)?;
        let blocks = |of: usize, most: usize| (of.div_ceil(of.div_ceil(most).max(1)), of.div_ceil(most));
        // Lines of 128 bytes where there are so many channels, and eight strips of a row for as many rows.
        let runs = size.groups.div_ceil(RUN);
        let (runs, channels) = blocks(runs, if runs * RUN > CHANNELS { 64 / RUN } else { CHANNELS / RUN });
        let (strips, columns) = blocks(size.out[2].div_ceil(STRIP), (THREADS / runs.max(1)).min(8));
        let rows = THREADS / (runs * strips).max(1);
        let [slices, lines, width] = product.taps;
        let order = StripOrder {
            by_runs: Division::by(self.count(runs, 1)?),
            by_strips: Division::by(self.count(strips, 1)?),
            rows: self.count(rows, 1)?,
            stride: width.stride,
            by_lines: Division::by(slices.count.saturating_mul(lines.count)),
            by_rows: Division::by(lines.count),
            reversed: u32::from(width.step < 0),
        };
        let down = self.count(size.images.saturating_mul(size.out[1]), order.rows)?;
        let (columns, channels) = (self.count(columns, 1)?, self.count(channels, 1)?);
        // A CTA goes over several rows with the weights that it holds, and four CTAs follow each other in its place.
        let others = columns.saturating_mul(channels).max(1);
        let grid = [down.min((4 * function.resident_ctas()).div_ceil(others)).max(1), columns, channels];
        // SAFETY: as for the other kernels.
        unsafe {
            function.launch_block(
                stream,
                &Launch::grid(grid),
                &ConvDepthwiseArgs { x, w, y, epilogue, order },
            )
        }
    }

    fn run_rows(&self, stream: &Stream, finish: &Finish) -> Result<()> {
        let Call { kernel, product, size, function, .. } = self;
        let backend = self.backend();
        let [m, n, _] = kernel.tile;
        let x = self.patches(1, 1)?;
        let w: GlobalAbi<(), 5> = product.w.arg(backend, false, 0)?;
        let lines = |of: &Untyped| Product::lines(of).ok_or_else(|| self.uneven(of, "rows"));
        let y: GlobalAbi<(), 3> = lines(&product.y)?.arg(backend, true, 0)?;
        let epilogue = self.epilogue(finish, &y, lines)?;
        let (down, across) = (self.count(size.out[2], m)?, self.count(size.outputs, n)?);
        let order = RasterOrder::new(y.shape[0], down, across, PANEL).ok_or_else(|| self.too_large())?;
        let launch = Launch::grid([order.total().min(function.resident_ctas()).max(1), 1, 1]);
        // SAFETY: as for the other kernels.
        unsafe { function.launch_block(stream, &launch, &ConvRowsArgs { x, w, y, epilogue, order }) }
    }

    fn matrices(&self, of: &Untyped) -> Result<Untyped> {
        Product::matrices(of).ok_or_else(|| self.uneven(of, "pixels"))
    }

    /// What kernels take is checked before: of a residual alone some take what others do not.
    fn uneven(&self, of: &Untyped, what: &str) -> Error {
        let allowed = format!("of {what} that follow each other evenly");
        Error::argument("residual", of_shape(of.layout.shape()), allowed)
    }

    /// The epilogue as kernels take it: tensors without rows where there are none.
    fn epilogue<const RANK: usize>(
        &self,
        finish: &Finish,
        y: &GlobalAbi<(), RANK>,
        as_outputs: impl Fn(&Untyped) -> Result<Untyped>,
    ) -> Result<EpilogueAbi<GlobalAbi<(), RANK>, GlobalAbi<(), RANK>>> {
        let term = |of: &Option<Untyped>| match of {
            Some(of) => as_outputs(of)?.arg(self.backend(), true, 0),
            None => Ok(GlobalAbi { map: TensorMap::NONE, shape: [0; RANK], tma: 0, ..*y }),
        };
        Ok(EpilogueAbi {
            bias: term(&finish.bias)?,
            residual: term(&finish.residual)?,
            row_scales: (),
            column_scales: (),
            alpha: 1.0,
            beta: if finish.residual.is_some() { 1.0 } else { 0.0 },
            activation: finish.activation,
        })
    }

    /// How the tiles of filters' gradients are divided among CTAs.
    pub(super) fn division(&self) -> Result<TileParts> {
        let Call { kernel, size, function, .. } = self;
        let [m, n, k] = kernel.tile;
        let too_large = || self.too_large();
        let (down, steps) = (self.count(size.outputs, m)?, self.count(size.places(), k)?);
        let blocks = self.count(self.channels(), n)?;
        let across = self.product.taps.iter().try_fold(blocks, |n, taps| n.checked_mul(taps.count));
        let raster =
            RasterOrder::new(self.count(size.groups, 1)?, down, across.ok_or_else(too_large)?, PANEL)
                .ok_or_else(too_large)?;
        let (tiles, resident) = (raster.total(), function.resident_ctas().max(1));
        let whole = if steps == 0 { tiles } else { whole_tiles(tiles, resident) };
        TileParts::new(raster, steps, whole, resident, [m, n], kernel.consumers).ok_or_else(too_large)
    }

    /// Launches a kernel of filters' gradients, with its tiles divided so and the workspace at `address`.
    pub(super) fn run_weights(
        &self,
        stream: &Stream,
        parts: &TileParts,
        address: u64,
        overlap: bool,
    ) -> Result<()> {
        let Call { kernel, product, function, .. } = self;
        let backend = self.backend();
        let [_, n, k] = kernel.tile;
        let x = self.patches(k, self.count(self.channels(), n)?)?;
        let dy = self.matrices(&product.y)?.t()?;
        let dy: GlobalAbi<(), 3> = dy.arg(backend, false, self.lines())?;
        expect_mapped(kernel.name, kernel.arch, [x.images.tma, dy.tma])?;
        let dw: GlobalAbi<(), 5> = product.w.t()?.arg(backend, true, self.lines())?;
        let order = parts.order(address);
        let launch = Launch::grid([parts.ctas, 1, 1]).pdl(overlap && kernel.copies == Copies::Boxes);
        // SAFETY: as for the other kernels; the caller has the workspace.
        unsafe { function.launch_block(stream, &launch, &ConvWeightsArgs { dy, x, dw, order }) }
    }
}
