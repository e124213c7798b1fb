//! The gradients of the causal convolution.

use tilewright_device::kernel::Listed;
use tilewright_ssd::{CONV_GRADIENT, CausalConv1dGradientArgs, KERNELS, LINE_SUMS, LineSumsArgs, TileKernel};

use super::choose::Problem;
use crate::ops::frame::{Named, Workspace, check, of_shape};
use crate::ops::ssd::sequences::{Extent, Packed, argument, at, ctas, expect, optional};
use crate::ops::{FloatElement, Indices};
use crate::tensor::{Layout, Untyped};
use crate::{Arch, Error, Launch, Result, Stream, TensorView, TensorViewMut};

/// The gradients of [`CausalConv1d`](super::CausalConv1d) by all that it takes, given dy, that by its result.
///
/// With ds\[t\] = dy\[t\] act'(s\[t\]) of the sums s, which are computed once more,
///
/// dx\[t\] = Σ w\[width - 1 - k\] ds\[t + k\],  dw\[width - 1 - k\] = Σ ds\[t\] x\[t - k\],  d bias = Σ ds\[t\].
///
/// The tensors and the options are the convolution's; each gradient has the shape of what it is the gradient by, and is written where a method says so.
///
/// - f16, bf16 and f32 in and out; sums in f32; results are rounded once, to nearest even. Strides are any.
/// - [`d_final_state`](Self::d_final_state) is the gradient by the last inputs; it is added to theirs, or to that by the initial state where a sequence has fewer tokens.
/// - Without batch or channels nothing is done; without tokens the gradients by w and bias are zeros.
///
/// Sums over tokens are formed in parts of 128, by CTA, and a second kernel adds these up in one order: the same call gives the same bits. A call allocates
/// no device memory and does not wait, but for the [`workspace`](Self::workspace) of the parts if none was given; it can be captured in a
/// [`Graph`](crate::Graph) with one.
///
/// ```
/// use tilewright::ops::CausalConv1dGradient;
/// use tilewright::{Device, Tensor};
///
/// # fn main() -> tilewright::Result<()> {
/// let device = Device::emulator();
/// let x = Tensor::<f32>::from_slice(&device, &[1.0, 2.0, 3.0], &[1, 3, 1])?;
/// let w = Tensor::<f32>::from_slice(&device, &[10.0, 1.0], &[1, 2])?;
/// let dy = Tensor::<f32>::from_slice(&device, &[1.0, 1.0, 2.0], &[1, 3, 1])?;
/// let (mut dx, mut dw) = (Tensor::<f32>::zeros(&device, &[1, 3, 1])?, Tensor::<f32>::zeros(&device, &[1, 2])?);
/// let stream = device.default_stream();
/// CausalConv1dGradient::new()
///     .dx(&mut dx.view_mut())
///     .d_w(&mut dw.view_mut())
///     .run(&stream, &x.view(), &w.view(), &dy.view())?;
/// assert_eq!(dx.to_vec()?, [11.0, 21.0, 2.0]);
/// assert_eq!(dw.to_vec()?, [5.0, 9.0]);
/// # Ok(())
/// # }
/// ```
pub struct CausalConv1dGradient<'a, T> {
    bias: Option<TensorView<'a, T>>,
    silu: bool,
    initial: Option<TensorView<'a, T>>,
    d_last: Option<TensorView<'a, T>>,
    packed: Option<Packed<'a>>,
    dx: Option<TensorViewMut<'a, T>>,
    d_w: Option<TensorViewMut<'a, T>>,
    d_bias: Option<TensorViewMut<'a, T>>,
    d_initial: Option<TensorViewMut<'a, T>>,
    workspace: Workspace<'a>,
}

impl<T: FloatElement> Default for CausalConv1dGradient<'_, T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A checked call, and how it is shared out.
struct Work {
    extent: Extent,
    channels: usize,
    width: usize,
    kernel: &'static Listed<TileKernel>,
    /// Tiles of tokens of the longest sequence, and channels' tiles.
    tiles: [usize; 2],
}

impl Work {
    /// Lines of the parts of a gradient by a tap or the bias.
    fn lines(&self) -> usize {
        self.extent.count * self.tiles[0]
    }
    fn len(&self) -> Result<usize> {
        Ok(Layout::contiguous(&[self.width + 1, self.lines(), self.channels])?.len())
    }
}

impl<'a, T: FloatElement> CausalConv1dGradient<'a, T> {
    /// Of a convolution without a bias, an activation, states.
    pub fn new() -> Self {
        CausalConv1dGradient {
            bias: None,
            silu: false,
            initial: None,
            d_last: None,
            packed: None,
            dx: None,
            d_w: None,
            d_bias: None,
            d_initial: None,
            workspace: Workspace::Owned(None),
        }
    }
    /// What was added to each channel's sums, \[channels\]. Its gradient is that at zeros without it.
    pub fn bias(self, bias: &TensorView<'a, T>) -> Self {
        CausalConv1dGradient { bias: Some(bias.clone()), ..self }
    }
    /// y was s / (1 + e^-s) of the sums s.
    pub fn silu(self) -> Self {
        CausalConv1dGradient { silu: true, ..self }
    }
    /// The inputs before each sequence; zeros without.
    pub fn initial_state(self, state: &TensorView<'a, T>) -> Self {
        CausalConv1dGradient { initial: Some(state.clone()), ..self }
    }
    /// The gradient by the last inputs of each sequence; zeros without.
    pub fn d_final_state(self, d_state: &TensorView<'a, T>) -> Self {
        CausalConv1dGradient { d_last: Some(d_state.clone()), ..self }
    }
    /// Sequences lie one after the other: see [`CausalConv1d::packed`](super::CausalConv1d::packed).
    pub fn packed(self, offsets: impl Into<Indices<'a>>, longest: usize) -> Self {
        CausalConv1dGradient { packed: Some(Packed { offsets: offsets.into(), longest }), ..self }
    }
    /// Where to write the gradient by x.
    pub fn dx(self, dx: &'a mut TensorViewMut<'_, T>) -> Self {
        CausalConv1dGradient { dx: Some(dx.reborrow()), ..self }
    }
    /// Where to write the gradient by w.
    pub fn d_w(self, d_w: &'a mut TensorViewMut<'_, T>) -> Self {
        CausalConv1dGradient { d_w: Some(d_w.reborrow()), ..self }
    }
    /// Where to write the gradient by the bias.
    pub fn d_bias(self, d_bias: &'a mut TensorViewMut<'_, T>) -> Self {
        CausalConv1dGradient { d_bias: Some(d_bias.reborrow()), ..self }
    }
    /// Where to write the gradient by the inputs before each sequence.
    pub fn d_initial_state(self, d_state: &'a mut TensorViewMut<'_, T>) -> Self {
        CausalConv1dGradient { d_initial: Some(d_state.reborrow()), ..self }
    }
    /// Memory for parts of sums, contiguous, aligned to 16 bytes, of [`workspace_len`](Self::workspace_len) elements or more; calls on other streams must not use
    /// it meanwhile.
    ///
    /// Without it the first run allocates it and keeps it for later runs, which wait for each other; it is freed when the `CausalConv1dGradient` is
    /// dropped, after the last. That cannot be captured in a graph.
    pub fn workspace(self, workspace: &'a mut TensorViewMut<'_, f32>) -> Self {
        CausalConv1dGradient { workspace: Workspace::Given(workspace.reborrow()), ..self }
    }

    /// Elements of the [`workspace`](Self::workspace) that [`run`](Self::run) needs.
    pub fn workspace_len(
        &self,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
    ) -> Result<usize> {
        self.work(x, w, dy)?.len()
    }

    /// Queues it on `stream`.
    ///
    /// Fails when shapes do not fit, a view lies on another device, or what is written overlaps another tensor.
    pub fn run(
        &mut self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        w: &TensorView<'_, T>,
        dy: &TensorView<'_, T>,
    ) -> Result<()> {
        let work = self.work(x, w, dy)?;
        let (device, extent, len) = (x.device(), work.extent, work.len()?);
        stream.expect_on(device)?;
        if extent.count == 0 || work.channels == 0 {
            return Ok(());
        }
        let address = self.workspace.of(len, stream)?;
        // Of one weight no input before a token counts.
        let states = |state: Option<Untyped>| match state.filter(|_| work.width > 1) {
            None => optional::<3>(device, None),
            Some(state) => argument::<3>(device, state.t()?),
        };
        let row = |of: Untyped| Ok::<_, Error>(Untyped { layout: of.layout.insert(0)?, ..of });
        let written = |to: &Option<TensorViewMut<'_, T>>| to.as_ref().map(TensorViewMut::untyped);
        let bias = self.bias.as_ref().map(|bias| row(bias.untyped())).transpose()?;
        let lines = at(address, &[work.width + 1, work.lines(), work.channels])?;
        let args = CausalConv1dGradientArgs {
            x: argument::<3>(device, x.untyped())?,
            weight: argument::<2>(device, w.untyped().t()?)?,
            bias: optional::<2>(device, bias)?,
            before: states(self.initial.as_ref().map(TensorView::untyped))?,
            dy: argument::<3>(device, dy.untyped())?,
            d_after: states(self.d_last.as_ref().map(TensorView::untyped))?,
            dx: optional::<3>(device, written(&self.dx))?,
            d_before: states(written(&self.d_initial))?,
            lines: argument::<3>(device, lines)?,
            sequences: extent.told,
            silu: u32::from(self.silu),
        };
        let [tiles, columns] = work.tiles;
        let grid = [columns as u32, ctas(tiles, "tiles of tokens")?, ctas(extent.count, "sequences")?];
        let function = device.listed(&KERNELS, work.kernel)?;
        // SAFETY: the arguments are those of `causal_conv1d_gradient`. The views are borrowed by the caller or by `self`, those that are written exclusively, and
        // the kernel keeps to their shapes; there is an offset more than there are sequences, and a line for each of the grid's CTAs and each tap.
        let launched = unsafe { function.launch_block(stream, &Launch::grid(grid), &args) };
        let d_w = written(&self.d_w).map(|d_w| Ok::<_, Error>((0, d_w.t()?))).transpose()?;
        let d_bias =
            written(&self.d_bias).map(|d_bias| Ok::<_, Error>((work.width, row(d_bias)?))).transpose()?;
        let summed = launched.and_then(|()| {
            d_w.into_iter().chain(d_bias).try_for_each(|(kind, to)| sum(stream, &work, (address, kind), to))
        });
        // Some launches may have come before one that failed.
        summed.and(self.workspace.used(len, stream))
    }

    /// Checks the arguments.
    fn work(&self, x: &TensorView<'_, T>, w: &TensorView<'_, T>, dy: &TensorView<'_, T>) -> Result<Work> {
        let &[matrices, rows, channels] = x.shape() else {
            return Err(Error::argument(
                "x",
                of_shape(x.shape()),
                "of 3 dimensions: batch, length, channels",
            ));
        };
        let width = Problem::width(w.shape(), channels)?;
        expect("dy", dy.shape(), x.shape(), "that of `x`")?;
        let extent = Extent::new(self.packed.as_ref(), [matrices, rows])?;
        let (bias, initial, d_last) = (self.bias.as_ref(), self.initial.as_ref(), self.d_last.as_ref());
        let outputs = [
            ("dx", &self.dx, x.shape(), "that of `x`"),
            ("d_w", &self.d_w, w.shape(), "that of `w`"),
            ("d_bias", &self.d_bias, &[channels], "the channels of `x`"),
            (
                "d_initial_state",
                &self.d_initial,
                &[extent.count, channels, width - 1],
                "sequences, channels and width - 1",
            ),
        ];
        for (name, to, want, because) in outputs {
            to.as_ref().map_or(Ok(()), |to| expect(name, to.shape(), want, because))?;
        }
        bias.map_or(Ok(()), |bias| expect("bias", bias.shape(), &[channels], "the channels of `x`"))?;
        for (name, state) in [("initial_state", initial), ("d_final_state", d_last)] {
            let want = [extent.count, channels, width - 1];
            let because = "sequences, channels and width - 1";
            state.map_or(Ok(()), |state| expect(name, state.shape(), &want, because))?;
        }
        let inputs = [Named::read("x", x), Named::read("w", w), Named::read("dy", dy)].into_iter();
        let inputs = inputs.chain(bias.map(|bias| Named::read("bias", bias)));
        let inputs = inputs.chain(initial.map(|initial| Named::read("initial_state", initial)));
        let inputs = inputs.chain(d_last.map(|d_last| Named::read("d_final_state", d_last)));
        let inputs = inputs.chain(self.packed.as_ref().map(Packed::named));
        let outputs =
            outputs.into_iter().filter_map(|(name, to, ..)| Some(Named::written(name, to.as_ref()?)));
        check(x.device(), inputs.chain(outputs).chain(self.workspace.named()))?;
        let fits = |k: &&Listed<TileKernel>| k.element == T::DTYPE.name() && width <= k.taps as usize;
        let kernel = missing(CONV_GRADIENT.iter().filter(fits).min_by_key(|k| k.taps))?;
        let [tokens, lanes] = kernel.tile.map(|n| n as usize);
        let tiles = [extent.longest.div_ceil(tokens).max(1), channels.div_ceil(lanes)];
        Ok(Work { extent, channels, width, kernel, tiles })
    }
}

/// Adds up the lines of the kinds from `kind` on, as many as `to` has rows.
fn sum(stream: &Stream, work: &Work, (address, kind): (u64, usize), to: Untyped) -> Result<()> {
    let (device, lines) = (stream.device(), work.lines());
    let kernel = missing(LINE_SUMS.iter().find(|k| k.element == to.dtype.name()))?;
    let kinds = to.layout.shape().first().copied().unwrap_or(0);
    let from = at(address + (4 * kind * lines * work.channels) as u64, &[kinds, lines, work.channels])?;
    let args = LineSumsArgs { x: argument::<3>(device, from)?, y: argument::<2>(device, to)? };
    let columns = work.channels.div_ceil(kernel.tile[1] as usize) as u32;
    let function = device.listed(&KERNELS, kernel)?;
    // SAFETY: the arguments are those of `line_sums`; its results are borrowed exclusively, its lines the workspace's.
    unsafe { function.launch_block(stream, &Launch::grid([columns, kinds as u32, 1]), &args) }
}

/// A kernel that the set has for all element types.
fn missing(kernel: Option<&'static Listed<TileKernel>>) -> Result<&'static Listed<TileKernel>> {
    kernel.ok_or_else(|| Error::KernelMissing {
        kernel: "causal_conv1d_gradient",
        arch: Arch::Sm80,
        reason: "the set has none for the element type".to_owned(),
    })
}
