//! Narrow weights made of wide ones by kernels.

use tilewright_dequant_gemm::{
    Conversion, FitGroupsArgs, KERNELS, PackCodesArgs, QUANTIZE, QUANTIZE_THREADS, Step,
};
use tilewright_device::tile::division::Division;

use super::DeviceWeights;
use super::memory::{WeightMemory, bytes};
use super::weights::{WeightFacts, expect_addressable};
use crate::ops::frame::of_shape;
use crate::quant::{Order, PackedHeader, PackedWeights, QuantizedWeights, Scheme, WeightElement};
use crate::{Arch, Error, Launch, Result, Stream, Tensor, TensorView};

impl DeviceWeights {
    /// Rounds wide weights \[N, K\] in a device's memory, with any strides, to narrow ones, and packs them: by kernels, as
    /// [`QuantizedWeights::quantize`] and [`pack`](QuantizedWeights::pack) do on the host, to the same bits.
    ///
    /// It is queued on `stream`, into `memory` or memory of its own, and waited for: what the weights are, products depend on.
    ///
    /// Fails as those do, when the weights or the memory lie on another device, the memory is for other weights, or the stream is captured.
    pub fn quantize<T: WeightElement>(
        stream: &Stream,
        name: impl Into<String>,
        wide: &TensorView<'_, T>,
        (scheme, order): (Scheme, Order),
        memory: Option<WeightMemory>,
    ) -> Result<Self> {
        let (device, name) = (wide.device(), name.into());
        stream.expect_on(device)?;
        stream.refuse_capture("DeviceWeights::quantize")?;
        let &[n, k] = wide.shape() else {
            return Err(Error::argument("wide", of_shape(wide.shape()), "of 2 dimensions, N and K"));
        };
        let header = PackedHeader { version: PackedWeights::VERSION, scheme, order, n, k };
        header.check(&name)?;
        expect_addressable(&header, &name)?;
        let memory = match memory {
            Some(memory) => memory,
            None => WeightMemory::allocate(device, &header)?,
        };
        memory.expect(device, &header, &name)?;
        let mut found = Tensor::<u32>::uninit(device, &[3])?;
        found.fill(stream, 0)?;
        convert(stream, (&name, wide), &header, &memory, found.address())?;
        match found.to_vec_on(stream)?[..] {
            [0, fractions, large] => {
                let facts = WeightFacts { integer_zeros: fractions == 0, low_scales: large == 0 };
                // SAFETY: the kernels have written all of it.
                unsafe { Self::from_memory(name, &header, memory, facts) }
            }
            // What cannot be represented, and where, the host says.
            _ => {
                let all = wide.to_vec_on(stream)?;
                QuantizedWeights::quantize(name.clone(), &all, [n, k], scheme)?;
                Err(scheme.error(
                    &name,
                    "weights",
                    "not representable",
                    "such that the host can represent them",
                ))
            }
        }
    }
}

/// Queues both kernels.
fn convert<T: WeightElement>(
    stream: &Stream,
    (name, wide): (&str, &TensorView<'_, T>),
    header: &PackedHeader,
    memory: &WeightMemory,
    found: u64,
) -> Result<()> {
    let PackedHeader { scheme, order, n, k, .. } = *header;
    let [_, along] = header.blocks();
    let too_large = || {
        let allowed = "of fewer than 2^32 groups and words of codes";
        scheme.error(name, "shape", format!("[{n}, {k}]"), allowed)
    };
    let count = |number: usize| u32::try_from(number).ok().filter(|n| *n < u32::MAX - QUANTIZE_THREADS);
    let [groups, words] = [header.groups() * header.padded_n(), bytes(header)[0] / 4].map(count);
    let (groups, words) = (groups.ok_or_else(too_large)?, words.ok_or_else(too_large)?);
    let (strides, width) = (wide.strides(), size_of::<T>());
    let whole = |stride: usize| (stride * width).is_multiple_of(16);
    let in_vectors = (k == 1 || strides[1] == 1)
        && (n == 1 || whole(strides[0]))
        && wide.address().is_multiple_of(16)
        && whole(scheme.group.len(k));
    // Sizes are below 2^31.
    let conversion = Conversion {
        wide: wide.address(),
        strides: [strides[0] as u64, strides[1] as u64],
        codes: memory.codes,
        scales: memory.scales,
        zeros: memory.zeros,
        found,
        shape: [n as u32, k as u32],
        group: scheme.group.len(k) as u32,
        for_bytes: (order == Order::B8).into(),
        in_vectors: in_vectors.into(),
        by_rows: Division::by(header.padded_n() as u32),
        by_words: Division::by(header.layout().block_bytes() / 4),
        by_blocks: Division::by(along as u32),
        rules: scheme.rules(),
        threads: 0,
    };
    for (step, threads) in [(Step::Fit, groups), (Step::Pack, words)] {
        let element = T::DTYPE.name();
        let kernel = QUANTIZE.iter().find(|kernel| (kernel.element, kernel.step) == (element, step));
        let kernel = kernel.ok_or_else(|| Error::KernelMissing {
            kernel: "fit_groups",
            arch: Arch::Sm80,
            reason: format!("there is none for weights of {element}"),
        })?;
        let function = wide.device().listed(&KERNELS, kernel)?;
        let launch = Launch::grid([threads.div_ceil(QUANTIZE_THREADS), 1, 1]);
        let conversion = Conversion { threads, ..conversion };
        // SAFETY: the arguments are those of the kernel: the weights' view is borrowed, the memory is there for as much as the header says, and
        // the counters are this call's. The second kernel follows the first on the stream.
        unsafe {
            match step {
                Step::Fit => function.launch_block(stream, &launch, &FitGroupsArgs { conversion })?,
                Step::Pack => function.launch_block(stream, &launch, &PackCodesArgs { conversion })?,
            }
        }
    }
    Ok(())
}
