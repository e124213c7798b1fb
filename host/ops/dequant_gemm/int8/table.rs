//! The compiled kernels, each read off its type, with the function that launches it.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::LazyLock;

use tilewright_device::abi::{GlobalAbi, TensorMap};
use tilewright_device::kernels::dequant_gemm_int8::{Arguments, DequantGemmInt8Kernel, Visitor, visit};
use tilewright_device::layout::Element as _;

use super::super::problem::Problem;
use super::super::table::{Call, Compiled, Reads};
use crate::ops::KERNELS;
use crate::{Arch, DType, Instance, Launch, Result};

/// What a kernel is chosen by first: names of the scales' type, the format and the mode of zeros, and whether scales are of
/// groups rather than of rows.
pub(super) type Kind = (&'static str, &'static str, &'static str, bool);

static TABLE: LazyLock<HashMap<Kind, Vec<Compiled>>> = LazyLock::new(|| {
    let mut table = Table(HashMap::new());
    visit(&mut table);
    table.0
});

/// The kernels of a kind.
pub(super) fn kernels(kind: Kind) -> &'static [Compiled] {
    TABLE.get(&kind).map_or(&[], Vec::as_slice)
}

/// The names that `of` gives to the kinds of which `like` is true.
pub(super) fn names(like: impl Fn(&Kind) -> bool, of: impl Fn(&Kind) -> &'static str) -> String {
    let mut names: Vec<_> = TABLE.keys().filter(|&kind| like(kind)).map(of).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

struct Table(HashMap<Kind, Vec<Compiled>>);

impl Visitor for Table {
    fn kernel<K: DequantGemmInt8Kernel + Instance + 'static>(&mut self) {
        let kind = (K::Element::NAME, K::FORMAT, K::ZEROS, K::GROUPS);
        self.0.entry(kind).or_default().push(Compiled {
            name: K::NAME,
            arch: K::ARCH,
            cluster: 1,
            tile: K::TILE,
            stages: K::STAGES,
            reads: if K::ARCH == Arch::Sm90a { Reads::Boxes } else { Reads::Pieces },
            sums: false,
            consumers: K::CONSUMERS,
            shared_bytes: K::SHARED_BYTES,
            resident: |device| Ok(device.kernel::<K>(&KERNELS)?.resident_ctas()),
            run: run::<K>,
        });
    }
}

/// A tensor without elements: what a kernel does without.
fn nothing<T>() -> GlobalAbi<T, 2> {
    GlobalAbi {
        map: TensorMap::NONE,
        address: 0,
        strides: [0; 2],
        policy: 0,
        shape: [0; 2],
        align: 16,
        tma: 0,
        element: PhantomData,
    }
}

fn run<K: DequantGemmInt8Kernel + Instance>(problem: &Problem, call: &Call<'_>) -> Result<()> {
    let Problem { device, a, c, bias, tokens, scales, .. } = problem;
    let kernel = device.kernel::<K>(&KERNELS)?;
    let backend = device.backend();
    let tma = K::ARCH == Arch::Sm90a;
    let lines = |count| if tma { count } else { 0 };
    let (output, sums) = match c.dtype {
        DType::I32 => (nothing(), c.t()?.arg(backend, false, 0)?),
        _ => (c.t()?.arg(backend, false, lines(K::BOX))?, nothing()),
    };
    let arguments = Arguments {
        w: call.weights,
        a: a.arg(backend, true, lines(K::TILE[1]))?,
        c: output,
        sums,
        tokens: tokens.map_or_else(|| Ok(nothing()), |tokens| tokens.arg(backend, true, 0))?,
        scales: scales.map_or_else(|| Ok(nothing()), |scales| scales.arg(backend, false, 0))?,
        bias: bias.map_or_else(|| Ok(nothing()), |bias| bias.arg(backend, false, 0))?,
        order: call.order,
        activation: call.activation,
    };
    let launch = Launch::grid([call.ctas, 1, 1]).pdl(call.overlap && tma);
    // SAFETY: the caller borrows the views and weights, c exclusively, and the workspace that the order names; the kernel
    // keeps to their shapes. Programmatic launch only moves what precedes its wait for the kernel in front.
    unsafe { kernel.launch(call.stream, &launch, &K::arguments(arguments)) }
}
