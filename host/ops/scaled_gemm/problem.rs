//! What a product is asked to compute, checked.

use super::split::Split;
use super::{ScaledGemm, ScaledInput, ScaledOutput, plan, table};
use crate::ops::Activation;
use crate::ops::frame::{Named, Places, UNIT, check, of_shape, units};
use crate::tensor::Untyped;
use crate::{DType, Device, Element, Error, Result, TensorView, TensorViewMut};

/// Elements along K of a block with a scale, and along N of B's.
pub(super) const BLOCK: usize = 128;

/// The matrices of a launch: C = A Bᵀ.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    /// \[M, depth\].
    pub(super) a: Untyped,
    /// \[N, depth\].
    pub(super) b: Untyped,
    /// \[M, N\].
    pub(super) c: Untyped,
    /// \[M, N\], with strides of 0 where it is broadcast.
    pub(super) bias: Option<Untyped>,
    /// \[M\] and \[N\].
    pub(super) scales: [Option<Untyped>; 2],
    /// \[M, K / 128\] and \[N / 128, K / 128\].
    pub(super) blocks: Option<[Untyped; 2]>,
    /// \[1, 1\]: what C is multiplied by.
    pub(super) scale_c: Option<Untyped>,
    /// \[1, 1\]: where its largest magnitude goes.
    pub(super) amax: Option<Untyped>,
    /// M, N and the depth, K in units of 16 bits: pairs of bytes or halves of f32.
    pub(super) size: [usize; 3],
    /// What A and B are parts of, if they are.
    pub(super) split: Option<Split>,
}

/// Whose scales they are.
#[derive(Clone, Copy)]
enum Whose {
    Lines(Untyped),
    Blocks(Untyped),
}

impl Problem {
    /// Checks that the views fit together, and that kernels can read A and B.
    pub(super) fn new<A: ScaledInput<B>, B: Element, U: ScaledOutput>(
        gemm: &ScaledGemm<'_, U>,
        a: &TensorView<'_, A>,
        b: &TensorView<'_, B>,
        c: &TensorViewMut<'_, U>,
    ) -> Result<Self> {
        let (a, b, c) = (a.planned(plan::A), b.planned(plan::B), c.planned(plan::C));
        let of_a = gemm.scale_a.map(|scale| scale.planned(plan::SCALE_A));
        let of_b = gemm.scale_b.map(|scale| scale.planned(plan::SCALE_B));
        let bias = gemm.bias.map(|bias| bias.planned(plan::BIAS));
        let scale_c = gemm.scale_c.map(|scale| scale.planned(plan::SCALE_C));
        let amax = gemm.amax.as_ref().map(|amax| amax.planned(plan::AMAX));
        for (name, shape) in [("a", a.shape()), ("b", b.shape()), ("c", c.shape())] {
            if shape.len() != 2 {
                return Err(Error::argument(name, of_shape(shape), "a matrix, of two dimensions"));
            }
        }
        let device = c.device();
        let inputs = [Named::read("a", &a), Named::read("b", &b)];
        let inputs = inputs.into_iter().chain(of_a.as_ref().map(|scale| Named::read("scale_a", scale)));
        let inputs = inputs.chain(of_b.as_ref().map(|scale| Named::read("scale_b", scale)));
        let inputs = inputs.chain(bias.as_ref().map(|bias| Named::read("bias", bias)));
        let inputs = inputs.chain(scale_c.as_ref().map(|scale| Named::read("scale_c", scale)));
        let written = [Named::written("c", &c)].into_iter();
        let written = written.chain(amax.as_ref().map(|amax| Named::written("amax", amax)));
        check(device, inputs.chain(written))?;
        let (m, n, k) = (c.shape()[0], c.shape()[1], a.shape()[1]);
        if a.shape()[0] != m {
            let allowed = format!("of shape [{m}, K]: as many rows as `c`");
            return Err(Error::argument("a", of_shape(a.shape()), allowed));
        }
        if b.shape() != [n, k] {
            let allowed =
                format!("of shape [{n}, {k}]: a row for each column of `c`, as many columns as `a`");
            return Err(Error::argument("b", of_shape(b.shape()), allowed));
        }
        let outputs = table::outputs(A::NAME);
        if !outputs.contains(&U::DTYPE.name()) {
            let (was, allowed) = (format!("of {}", U::DTYPE), format!("of {}", outputs.join(", ")));
            return Err(Error::argument(
                "c",
                was,
                format!("{allowed}, for products of {}", of_types::<A, B>()),
            ));
        }
        let scaled = [("scale_a", gemm.scale_a.is_some()), ("scale_b", gemm.scale_b.is_some())];
        let biased = [("bias", gemm.bias.is_some()), ("activation", gemm.activation != Activation::Identity)];
        let changed =
            scaled.into_iter().chain(biased).chain([("alpha", gemm.alpha.to_bits() != 1f32.to_bits())]);
        if U::DTYPE == DType::I32
            && let Some((name, _)) = changed.into_iter().find(|(_, given)| *given)
        {
            return Err(Error::argument(name, "given for sums", "left out: a `c` of i32 is the exact sums"));
        }
        let scale_c = scale_c.map(|scale| of_e4m3::<U>("scale_c", scale.untyped())).transpose()?;
        let amax = amax.map(|amax| of_e4m3::<U>("amax", amax.untyped())).transpose()?;
        if gemm.precise && A::DTYPE != DType::F32 {
            let was = format!("set for products of {}", of_types::<A, B>());
            return Err(Error::argument("precise", was, "left out but for products of f32"));
        }
        let of_a = of_a.map(|scale| whose("scale_a", &scale, "M", m, [m, k.div_ceil(BLOCK)])).transpose()?;
        let blocks = [n.div_ceil(BLOCK), k.div_ceil(BLOCK)];
        let of_b = of_b.map(|scale| whose("scale_b", &scale, "N", n, blocks)).transpose()?;
        let (scales, blocks) = match (of_a, of_b) {
            (Some(Whose::Blocks(a)), Some(Whose::Blocks(b))) => ([None; 2], Some([a, b])),
            (Some(Whose::Blocks(_)), _) => return Err(unpaired("scale_b", "scale_a", of_b.is_some())),
            (_, Some(Whose::Blocks(_))) => return Err(unpaired("scale_a", "scale_b", of_a.is_some())),
            (a, b) => {
                let lines = |scale| match scale {
                    Some(Whose::Lines(scale)) => Some(scale),
                    _ => None,
                };
                ([lines(a), lines(b)], None)
            }
        };
        if blocks.is_some() && [A::DTYPE, B::DTYPE] != [DType::E4M3; 2] {
            let allowed = "of shape [1] or one value a row: scales of blocks are of products of e4m3";
            return Err(Error::argument("scale_a", "of blocks", allowed));
        }
        if blocks.is_some() && U::DTYPE == DType::E4M3 {
            let allowed = "of shape [1] or one value a row, for a `c` of e4m3";
            return Err(Error::argument("scale_a", "of blocks", allowed));
        }
        let bias = bias.map(|bias| {
            let allowed = || format!("of shape [{n}], or one that broadcasts to [{m}, {n}]");
            let wrong = |_| Error::argument("bias", of_shape(bias.shape()), allowed());
            bias.untyped().broadcast(&[m, n]).map_err(wrong)
        });
        // Without depth there is nothing to split.
        let split = (gemm.precise && k > 0).then(|| Split::new(a.untyped(), b.untyped())).transpose()?;
        let ([a, b], depth) = match &split {
            Some(split) => (split.units(), split.depth()),
            None => ([units("a", &a)?, units("b", &b)?], k * A::DTYPE.bytes() / UNIT),
        };
        Ok(Problem {
            device: device.clone(),
            a,
            b,
            c: c.untyped(),
            bias: bias.transpose()?,
            scales,
            blocks,
            scale_c,
            amax,
            size: [m, n, depth],
            split,
        })
    }

    /// Those of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let of = |tensor: &Untyped| places.of(tensor);
        Problem {
            device: self.device.clone(),
            a: of(&self.a),
            b: of(&self.b),
            c: of(&self.c),
            bias: self.bias.as_ref().map(of),
            scales: self.scales.map(|scale| scale.as_ref().map(of)),
            blocks: self.blocks.as_ref().map(|blocks| blocks.each_ref().map(of)),
            scale_c: self.scale_c.as_ref().map(of),
            amax: self.amax.as_ref().map(of),
            size: self.size,
            split: None,
        }
    }

    /// The same product transposed: Cᵀ = B Aᵀ. Scales of blocks remain those of the caller's A and B, which kernels of the transposed product
    /// know.
    pub(super) fn t(&self) -> Result<Self> {
        let ([m, n, k], [of_a, of_b]) = (self.size, self.scales);
        Ok(Problem {
            device: self.device.clone(),
            a: self.b,
            b: self.a,
            c: self.c.t()?,
            bias: self.bias.map(Untyped::t).transpose()?,
            scales: [of_b, of_a],
            blocks: self.blocks,
            scale_c: self.scale_c,
            amax: self.amax,
            size: [n, m, k],
            split: self.split.clone(),
        })
    }
}

/// The names of both types.
fn of_types<A: Element, B: Element>() -> String {
    if A::DTYPE == B::DTYPE { A::DTYPE.to_string() } else { format!("{} and {}", A::DTYPE, B::DTYPE) }
}

/// A number beside a C of e4m3, as a matrix.
fn of_e4m3<U: Element>(name: &'static str, number: Untyped) -> Result<Untyped> {
    if U::DTYPE != DType::E4M3 {
        let was = format!("given for a `c` of {}", U::DTYPE);
        return Err(Error::argument(name, was, "left out but for a `c` of e4m3"));
    }
    if number.layout.shape() != [1] {
        return Err(Error::argument(name, of_shape(number.layout.shape()), "of shape [1]"));
    }
    number.broadcast(&[1, 1])
}

/// Whose the scales are, by their shape.
fn whose(
    name: &'static str,
    scale: &TensorView<'_, f32>,
    what: &str,
    lines: usize,
    blocks: [usize; 2],
) -> Result<Whose> {
    let shape = scale.shape();
    if shape == [lines] || shape == [1] {
        return Ok(Whose::Lines(scale.untyped().broadcast(&[lines])?));
    }
    if shape == blocks {
        return Ok(Whose::Blocks(scale.untyped()));
    }
    let allowed = format!(
        "of shape [1] for the matrix, [{lines}] for its {what} rows, or {blocks:?} for its blocks along K"
    );
    Err(Error::argument(name, of_shape(shape), allowed))
}

/// An error about scales of blocks of one matrix alone.
fn unpaired(name: &'static str, other: &str, given: bool) -> Error {
    let was = if given { "not of blocks" } else { "not given" };
    Error::argument(name, was, format!("of blocks, as `{other}` is"))
}
