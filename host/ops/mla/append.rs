//! Tokens that are appended to a latent cache of 8 bits.

use tilewright_device::tile::division::Division;
use tilewright_mla::{APPEND, AppendRecordsArgs, KERNELS, LATENT, RECORD, ROTARY, RecordSlots, TokenRows};

use super::problem::{operand, wrong};
use crate::ops::Indices;
use crate::ops::frame::{Named, check, of_shape};
use crate::tensor::Untyped;
use crate::{Arch, Error, Launch, Result, Stream, TensorView, TensorViewMut, bf16};

/// Queues on `stream` that tokens are appended to a latent cache of 8 bits, which [`Mla`](super::Mla) reads.
///
/// | tensor | shape |
/// | --- | --- |
/// | latent | \[tokens, 512\] |
/// | rotary | \[tokens, 64\]: keys' rotary part, rotated |
/// | slots | \[tokens\], of `i32`, `u32` or `i64`: a token's row among those of all pages |
/// | cache | \[pages, rows of a page, 1, 656\] |
///
/// - Of latent, rotary and the cache columns are contiguous and lines aligned to 16 bytes; both parts may be columns of one tensor.
/// - A scale, f32, is the largest magnitude of its 128 columns over 448, and at least the least normal number. A code is its element times the scale's
///   reciprocal, in f32, as e4m3 (Micikevicius et al. 2022), to nearest even. NaN stays NaN; of an infinity, all 128 columns are NaN when they are read.
/// - A token whose slot is negative or beyond the cache's rows is left out: nothing is written out of bounds. Of tokens with the same slot the row
///   holds bytes of any.
/// - Without tokens nothing is done. Hopper alone has the kernel.
///
/// Fails when shapes do not fit, a view lies on another device, or the cache overlaps what is read. A call allocates nothing and does not wait; it can
/// be captured in a [`Graph`](crate::Graph), and begins before the preceding grid has ended (programmatic dependent launch), whose results it waits for.
///
/// ```no_run
/// use tilewright::ops::{Mla, append_latent};
/// use tilewright::{Device, Tensor, bf16};
///
/// # fn main() -> tilewright::Result<()> {
/// let (device, stream) = (Device::default()?, Device::default()?.default_stream());
/// let mut cache = Tensor::<u8>::zeros(&device, &[100, 64, 1, 656])?;
/// // Three tokens of 576 columns: the first of page 7, the last of page 3, and one that is not kept.
/// let tokens = Tensor::<bf16>::zeros(&device, &[3, 576])?;
/// let slots = Tensor::<i64>::from_slice(&device, &[7 * 64, 3 * 64 + 63, -1], &[3])?;
/// let (latent, rotary) = (tokens.view().narrow(1, 0, 512)?, tokens.view().narrow(1, 512, 64)?);
/// append_latent(&stream, &latent, &rotary, slots.view(), &mut cache.view_mut())?;
///
/// let q = Tensor::<bf16>::zeros(&device, &[1, 1, 128, 576])?;
/// let mut o = Tensor::<bf16>::zeros(&device, &[1, 1, 128, 512])?;
/// let mut mla = Mla::new().host_block_table(&[7]).lengths(&[1]);
/// mla.run(&stream, &q.view(), &cache.view(), &mut o.view_mut())?;
/// # Ok(())
/// # }
/// ```
pub fn append_latent<'i>(
    stream: &Stream,
    latent: &TensorView<'_, bf16>,
    rotary: &TensorView<'_, bf16>,
    slots: impl Into<Indices<'i>>,
    cache: &mut TensorViewMut<'_, u8>,
) -> Result<()> {
    let (slots, device) = (slots.into(), cache.device());
    let &[tokens, columns] = latent.shape() else {
        return wrong("latent", of_shape(latent.shape()), format!("of shape [tokens, {LATENT}]"));
    };
    if columns != LATENT || u32::try_from(tokens).is_err() {
        let allowed = format!("of shape [tokens, {LATENT}], of fewer than 2^32 tokens");
        return wrong("latent", of_shape(latent.shape()), allowed);
    }
    if rotary.shape() != [tokens, ROTARY] {
        let allowed = format!("of shape [{tokens}, {ROTARY}]: a row for each of `latent`");
        return wrong("rotary", of_shape(rotary.shape()), allowed);
    }
    let numbers = slots.untyped();
    if numbers.layout.shape() != [tokens] {
        let allowed = format!("of shape [{tokens}]: one for each row of `latent`");
        return wrong("slots", of_shape(numbers.layout.shape()), allowed);
    }
    let &[pages, rows, 1, RECORD] = cache.shape() else {
        let allowed = format!("of shape [pages, rows of a page, 1, {RECORD}]");
        return wrong("cache", of_shape(cache.shape()), allowed);
    };
    let all =
        pages.checked_mul(rows).and_then(|rows| u32::try_from(rows).ok()).filter(|&rows| rows < 1 << 31);
    let (Some(all), Ok(by_page)) = (all, u32::try_from(rows.max(1))) else {
        return wrong("cache", of_shape(cache.shape()), "of fewer than 2^31 rows");
    };
    let tensors = [Named::read("latent", latent), Named::read("rotary", rotary), slots.named("slots")];
    check(device, tensors.into_iter().chain([Named::written("cache", cache)]))?;
    stream.expect_on(device)?;
    let (latent, rotary, to) = (latent.untyped(), rotary.untyped(), cache.untyped());
    for (name, tensor) in [("latent", &latent), ("rotary", &rotary), ("cache", &to)] {
        operand(device, name, tensor)?;
    }
    if tokens == 0 {
        return Ok(());
    }
    let kernel = APPEND.first().ok_or_else(|| Error::KernelMissing {
        kernel: "append_records",
        arch: Arch::Sm90a,
        reason: "the set has no kernel that appends tokens".to_owned(),
    })?;
    let function = device.listed(&KERNELS, kernel)?;
    let strides = to.layout.strides();
    let to = RecordSlots {
        cache: to.address,
        strides: [strides[0] as u64, strides[1] as u64],
        slots: numbers.address,
        step: (numbers.layout.strides()[0] * numbers.dtype.bytes()) as u64,
        by_page: Division::by(by_page),
        rows: all,
        tokens: tokens as u32,
    };
    let rows = |tensor: &Untyped| TokenRows {
        address: tensor.address,
        stride: (tensor.layout.strides()[0] * tensor.dtype.bytes()) as u64,
    };
    let args = AppendRecordsArgs { latent: rows(&latent), rotary: rows(&rotary), to };
    let launch = Launch::grid([(tokens as u32).div_ceil(kernel.tokens), 1, 1]).pdl(true);
    // SAFETY: the arguments are those of the kernel: as many rows as tokens and a cache of so many, whose lines are aligned to 16 bytes. The views that
    // they come from are borrowed by the caller, the cache exclusively. Programmatic launch only moves what precedes the wait for the
    // preceding grid.
    unsafe { function.launch_block(stream, &launch, &args) }
}
