//! Which kernel computes a product with patches: an estimate of each one's time, from how tiles fill the SMs.

use std::fmt;

use tilewright_conv::{ConvKernel, Makes, ROWS};
use tilewright_device::kernel::Copies;
use tilewright_device::tile::Taps;

use super::geometry::{are_images, walk};
use super::problem::{Product, Size};
use super::table::{Compiled, Kind, Pass, kernels, lines_read};
use crate::ops::frame::{self, Candidate, Choice, Operand, PIECE, Rated, Rejection};
use crate::tensor::{Reading, Untyped};
use crate::{Arch, Device, Element, KernelSet, Result, TensorViewMut};

/// Depth that the estimate counts in.
const STEP: u64 = 64;
/// Channels of a box.
const BOX: usize = 64;

/// What a kernel would take.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    ctas: u64,
    waves: u64,
    cycles: u64,
    /// The same, if memory took no time.
    busy: u64,
    /// Whether a filter's row is read as one tap.
    pub(super) joined: bool,
}

impl Estimate {
    /// Cycles to compare with those of the GEMM's kernels, of a filter of one pixel, by tiles of so many columns: two thirds more than the estimate says, a quarter by narrow tiles, and without
    /// memory, which is the same for both.
    ///
    /// Layers of ResNet-50 were timed both ways (H200, 2026-11-23, 2026-11-30): beside GEMM's estimates these were 1.27 to 1.31 times too short, and 1.65 times where 128 x 128 took a
    /// layer that memory bounds. GEMM's epilogues know at compile time what they are to do.
    pub(super) fn beside_products(&self, columns: u32) -> u64 {
        self.busy.saturating_add(if columns > 64 { self.busy / 3 * 2 } else { self.busy / 4 })
    }
}

impl frame::Estimate for Estimate {
    fn cycles(&self) -> Option<u64> {
        Some(self.cycles)
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { ctas, waves, cycles, joined, .. } = self;
        write!(f, "{ctas} CTAs in {waves} waves, about {cycles} cycles")?;
        if *joined { f.write_str(", reading rows of filters as one tap") } else { Ok(()) }
    }
}

impl Rated for ConvKernel {
    type Estimate = Estimate;
    const KERNELS: &'static KernelSet = &tilewright_conv::KERNELS;

    fn size(&self) -> [u32; 3] {
        self.tile
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConvKernel { tile: [m, n, k], stages, split, .. } = self;
        match self.makes {
            Makes::Depthwise([taps, _]) => write!(f, "{m} outputs, {n} channels and {taps} taps a thread"),
            _ => write!(f, "tiles of {m} x {n} x {k}, {stages} stages, split-K {split}"),
        }
    }
}

impl Candidate<Compiled> {
    /// Rows, columns and depth of its tiles.
    pub fn tile(&self) -> [u32; 3] {
        self.kernel.tile
    }
}

/// A product, as far as it decides between kernels.
pub(super) struct Selection<'a> {
    device: &'a Device,
    pub(super) product: &'a Product,
    kind: Kind,
    /// Whether something is done with the sums.
    epilogue: bool,
    /// How images can be read, with their groups in one.
    images: Option<Reading>,
    /// How filters can be read, with channels and with outputs contiguous.
    filters: [Reading; 2],
    /// Of gradients of filters, how outputs can be read, in lines of outputs of a pixel.
    outputs: Option<Reading>,
}

impl<'a> Selection<'a> {
    pub(super) fn new(device: &'a Device, product: &'a Product, kind: Kind, epilogue: bool) -> Result<Self> {
        let backend = device.backend();
        let reading = |of: Untyped, row_major| of.reading(backend, row_major);
        let of_outputs = Product::matrices(&product.y).filter(|_| kind.0 == Pass::Weights);
        let outputs = match of_outputs {
            Some(matrices) => Some(reading(matrices.t()?, false)?),
            None => None,
        };
        Ok(Selection {
            device,
            product,
            kind,
            epilogue,
            images: product.x.ungrouped().map(|images| reading(images, true)).transpose()?,
            filters: [reading(product.w, false)?, reading(product.w, true)?],
            outputs,
        })
    }

    /// One of the products of a gradient of images, `dx`.
    pub(super) fn of_images<T: Element>(dx: &'a TensorViewMut<'_, T>, product: &'a Product) -> Result<Self> {
        Self::new(dx.device(), product, (Pass::Patches, T::DTYPE.name()), false)
    }

    /// The product of a gradient of filters, `dw`.
    pub(super) fn of_filters<T: Element>(dw: &'a TensorViewMut<'_, T>, product: &'a Product) -> Result<Self> {
        Self::new(dw.device(), product, (Pass::Weights, T::DTYPE.name()), false)
    }

    /// The estimate of a kernel for few channels, whose neighbouring outputs lie `step` elements apart in images.
    fn rate_rows(&self, kernel: &Compiled, size: &Size, step: u32) -> Result<Estimate, Rejection> {
        let Some((_, pixel)) = self.product.joined() else {
            return Err(Rejection::Because("it takes images and filters whose pixels follow each other"));
        };
        if !are_images(&self.product.taps[0], self.product.planes) {
            return Err(Rejection::Because("it takes images, not volumes"));
        }
        if self.product.taps[2].stride as usize * pixel != step as usize {
            return Err(Rejection::Because("it is for another number of channels, or another stride"));
        }
        let most = kernel.tile[2];
        if pixel * size.filter[2] > most as usize {
            return Err(Rejection::AtMost { what: "elements of a filter's row", most });
        }
        if size.filter[1] > ROWS {
            return Err(Rejection::AtMost { what: "rows of filters", most: ROWS as u32 });
        }
        if Product::lines(&self.product.y).is_none() {
            return Err(Rejection::Because("it takes outputs whose rows follow each other evenly"));
        }
        let [m, n, _] = kernel.tile.map(|size| size as usize);
        let lines = size.images.saturating_mul(size.out[1]);
        let ctas =
            lines.saturating_mul(size.out[2].div_ceil(m)).saturating_mul(size.outputs.div_ceil(n)) as u64;
        let waves = ctas.div_ceil(u64::from(self.device.sm_count()).max(1));
        // A row's windows are read, and multiplied by all of a tile's filters.
        let row = 100 + 3 * n as u64;
        let cycles = waves.saturating_mul(row * size.filter[1] as u64 + 700).saturating_add(3000);
        Ok(Estimate { ctas, waves, cycles, busy: cycles, joined: true })
    }

    /// The estimate of a kernel for a filter for each channel, of which it takes so many taps of a row at once, of outputs so many pixels apart.
    fn rate_depthwise(
        &self,
        kernel: &Compiled,
        size: &Size,
        [taps, apart]: [u32; 2],
    ) -> Result<Estimate, Rejection> {
        if size.channels != 1 || size.outputs != 1 {
            return Err(Rejection::Because("it takes as many groups as channels and as outputs"));
        }
        if taps > 1 {
            let Taps { count, stride, step, .. } = self.product.taps[2];
            if stride != apart || step.abs() != 1 {
                return Err(Rejection::Because("it is for another stride, or taps that follow each other"));
            }
            if !count.is_multiple_of(taps) {
                return Err(Rejection::Multiples { what: "columns of a filter", of: taps });
            }
            let Some(images) = self.images else {
                return Err(Rejection::Because("it reads images whose channels follow each other"));
            };
            Operand { name: "images", reading: images, row_major: true, line: size.groups }
                .check(frame::Copies::Pieces)?;
        }
        // A warp takes an instruction for each element that it converts or multiplies, and some for each that it loads: 16 and 11 for a run of
        // pixels and of weights.
        let [outputs, channels, _] = kernel.tile.map(u64::from);
        let (taps, apart) = (u64::from(taps), u64::from(apart));
        let pixels = if apart == 0 { outputs } else { (outputs - 1) * apart + taps };
        let runs =
            (size.places() as u64).div_ceil(outputs).saturating_mul((size.groups as u64).div_ceil(channels));
        let steps = size.filter.iter().map(|&taps| taps as u64).product::<u64>() / taps;
        let each = pixels * 16 + taps * (11 + outputs * channels);
        let ctas = runs.div_ceil(u64::from(kernel.consumers));
        let waves = ctas.div_ceil(2 * u64::from(self.device.sm_count()).max(1));
        let cycles = waves.saturating_mul(steps.saturating_mul(each) * 4 + 1000).saturating_add(3000);
        Ok(Estimate { ctas, waves, cycles, busy: cycles, joined: false })
    }

    /// Whether copies by TMA reach all that they must, and nothing else.
    fn boxes(&self, size: &Size, weights: bool) -> Result<(), Rejection> {
        let Some(images) = self.images else {
            return Err(Rejection::Because("it reads images whose groups' channels follow each other"));
        };
        Operand { name: "images", reading: images, row_major: true, line: size.channels }
            .check(frame::Copies::Boxes)?;
        // A group's box of filters has whole lines; one of a gradient of filters begins where the group does, at a multiple of 16 bytes.
        let whole = if weights { PIECE as usize / size_of::<u16>() } else { BOX };
        if size.groups > 1 && !size.channels.is_multiple_of(whole) {
            return Err(Rejection::Multiples { what: "channels of several groups", of: whole as u32 });
        }
        match walk(self.product.taps, size.pixels, size.out) {
            Some(_) => Ok(()),
            None => Err(Rejection::Because(if are_images(&self.product.taps[0], self.product.planes) {
                "TMA walks over images in steps up to 8, and in corners and offsets of 8 bits"
            } else {
                "TMA walks over volumes of several planes in steps up to 8, and in corners and offsets of 5 bits"
            })),
        }
    }
}

impl Choice for Selection<'_> {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        kernels(self.kind)
    }
    fn what(&self) -> String {
        let (pass, element) = self.kind;
        match pass {
            Pass::Patches => format!("convolutions of {element}"),
            Pass::Weights => format!("gradients of filters of {element}"),
        }
    }

    fn rate(&self, kernel: &Compiled) -> Result<Estimate, Rejection> {
        let size = self.product.size();
        let (boxes, elements) = (kernel.copies == Copies::Boxes, kernel.copies == Copies::Elements);
        let weights = kernel.makes == Makes::Weights;
        match kernel.makes {
            Makes::Rows(step) => return self.rate_rows(kernel, &size, step),
            Makes::Depthwise(taken) => return self.rate_depthwise(kernel, &size, taken),
            _ => {}
        }
        if kernel.makes == Makes::Scattered {
            if self.epilogue {
                return Err(Rejection::Because("it adds no bias or residual, and has no activation"));
            }
        } else if Product::matrices(&self.product.y).is_none() {
            return Err(Rejection::Because("it takes outputs whose pixels follow each other evenly"));
        }
        // Images that are walked through in rows have less of a tile's depth left empty.
        let depth = size.channels % kernel.tile[if weights { 1 } else { 2 }] as usize;
        let joined = if boxes || depth == 0 { None } else { self.product.joined() };
        let channels = if joined.is_some() { size.channels * size.filter[2] } else { size.channels };
        if boxes {
            self.boxes(&size, weights)?;
        } else if !elements {
            let Some(images) = self.images else {
                return Err(Rejection::Because("it reads images whose groups' channels follow each other"));
            };
            Operand { name: "images", reading: images, row_major: true, line: size.channels }
                .check(frame::Copies::Pieces)?;
        }
        let copies = if boxes { frame::Copies::Boxes } else { frame::Copies::Pieces };
        match kernel.makes {
            _ if elements => {}
            Makes::Weights => {
                let Some(reading) = self.outputs else {
                    return Err(Rejection::Because("it takes outputs whose pixels follow each other evenly"));
                };
                Operand { name: "dy", reading, row_major: false, line: size.outputs }.check(copies)?;
            }
            Makes::Outputs => {
                let [reading, _] = self.filters;
                Operand { name: "filters", reading, row_major: false, line: channels }.check(copies)?;
            }
            _ => {
                let [_, reading] = self.filters;
                Operand { name: "filters", reading, row_major: true, line: size.outputs }.check(copies)?;
            }
        }
        let rates = [self.device.sm_count(), self.device.backend().properties().memory_rate];
        Ok(estimate(kernel, &size, joined.is_some(), rates))
    }
}

/// The time of a persistent kernel, as the GEMM's: waves of tiles, each a number of steps, each bound by the tensor cores or by what the L2
/// delivers to an SM.
///
/// The constants were fitted to layers of ResNet-50 on an H200 (2026-11-23, 2026-11-30): [so many elements](elements) of a
/// tile take a cycle for each step of 64, 52 bytes arrive a cycle, 64 for one warpgroup, which takes 310 at least, 30 of channels that fill no block, a tile's epilogue takes 100 cycles and one for 10 elements, a launch 3000, and
/// handing over partial sums 2000. Where warpgroups take tiles in turn, the last tile's epilogue alone shows. `mma.sync` has two sevenths of that
/// rate, element-wise loads a sixteenth.
///
/// All take no less than memory does for images and outputs, at four fifths of its rate. Of filters of several pixels four stages hide less than six of the time that images take from memory, of which a fifth is added.
fn estimate(kernel: &Compiled, size: &Size, joined: bool, [sms, memory_rate]: [u32; 2]) -> Estimate {
    let [m, n, k] = kernel.tile.map(u64::from);
    let (sms, split) = (u64::from(sms).max(1), u64::from(kernel.split));
    let [slices, rows, columns] = size.filter.map(|taps| taps as u64);
    let rows = slices * rows;
    let (columns, channels) =
        if joined { (1, size.channels as u64 * columns) } else { (columns, size.channels as u64) };
    let (places, outputs, groups) = (size.places() as u64, size.outputs as u64, size.groups as u64);
    // In halves.
    let slowness = match (kernel.arch, kernel.copies) {
        (Arch::Sm90a, _) => 2,
        (_, Copies::Elements) => 32,
        _ => 7,
    };
    let (hopper, taps) = (kernel.arch == Arch::Sm90a, size.filter.iter().product::<usize>());
    let arriving = if kernel.consumers > 128 { 52 } else { 64 };
    let lines = u64::from(lines_read(kernel, size.outputs));
    let least = if hopper && kernel.consumers == 128 { 310 } else { 0 };
    let step_at = |rate: u64| {
        (m * n / elements(kernel)).max((m + lines) * STEP * 2 / rate).max(least) * slowness * k / (2 * STEP)
    };
    let step = step_at(arriving);
    let sums = if split > 1 { 2000 } else { 0 };
    let finish = 100 + m * n / 10 * if kernel.makes == Makes::Scattered { 2 } else { 1 } + sums;
    if kernel.makes == Makes::Weights {
        let tiles = groups * outputs.div_ceil(m) * rows * columns * channels.div_ceil(n);
        let steps = tiles.saturating_mul(places.div_ceil(k));
        let ctas = steps.min(sms);
        let parts = ctas.div_ceil(tiles.max(1));
        let cycles = steps.div_ceil(sms).saturating_mul(step).saturating_add(finish + parts * 500 + 3000);
        return Estimate { ctas, waves: 1, cycles, busy: cycles, joined };
    }
    let tiles = groups.saturating_mul(places.div_ceil(m)).saturating_mul(outputs.div_ceil(lines));
    let ctas = tiles.saturating_mul(split);
    let waves = ctas.div_ceil(sms);
    let (blocks, ragged) = (channels.div_ceil(k), u64::from(hopper && !channels.is_multiple_of(k)));
    let tap = blocks.saturating_sub(ragged) * step + ragged * step_at(30);
    let tile = (rows * columns).saturating_mul(tap).div_ceil(split);
    let of_memory = |elements| of_memory(elements, memory_rate);
    let (images, stored) = (seen(size), groups.saturating_mul(outputs).saturating_mul(places));
    let late = if hopper && taps > 1 && kernel.stages <= 4 { of_memory(images) / 5 } else { 0 };
    let (each, last) = if kernel.apart { (0, finish) } else { (finish, 0) };
    let main = waves.saturating_mul(tile.saturating_add(each));
    let memory = of_memory(images.saturating_add(stored)) / 4 * 5;
    // Of several that memory bounds, the one that leaves it most time.
    let in_all = |main: u64| main.saturating_add(last + late + 3000);
    let cycles = in_all(main.max(memory.saturating_add(main / 4)));
    Estimate { ctas, waves, cycles, busy: in_all(main), joined }
}

/// Elements of a tile that a step takes a cycle for: those of 64 columns read more of shared memory than its rate allows.
fn elements(kernel: &Compiled) -> u64 {
    let [m, n, _] = kernel.tile;
    match (kernel.apart, n) {
        (true, ..=64) if m < 256 => 15,
        (true, ..=64) => 16,
        (true, _) => 25,
        (false, _) => 26,
    }
}

/// Elements of images that filters see: all, or those of all patches where a stride leaves pixels out.
fn seen(size: &Size) -> u64 {
    let all = |of: [usize; 3], first: usize| of.into_iter().fold(first, usize::saturating_mul);
    let volumes = size.images / size.out[0].max(1);
    let pixels = all(size.pixels, volumes).min(all(size.filter, size.places()));
    pixels.saturating_mul(size.groups).saturating_mul(size.channels) as u64
}

/// Cycles of 1.755 GHz that memory of so many GB/s takes for so many elements of 16 bits.
fn of_memory(elements: u64, memory_rate: u32) -> u64 {
    elements.saturating_mul(2 * 1755) / 1000 / u64::from(memory_rate).max(1)
}
