//! Which gradients are wanted of what, checked.

use super::choose::{self, Compiled};
use crate::ops::FloatElement;
use crate::ops::HalfElement;
use crate::ops::frame::{Named, Operand, check};
use crate::ops::ssd::problem::{Size, blocks_of, check_state, check_time};
use crate::ops::ssd::sequences::{Extent, Packed, expect};
use crate::ops::ssd::time::{Time, Told};
use crate::tensor::Untyped;
use crate::{Device, Error, Result, TensorView, TensorViewMut};

/// What the gradients are of.
pub(super) struct Given<'a, 'v, T, U> {
    pub(super) x: &'a TensorView<'v, T>,
    pub(super) dt: &'a TensorView<'v, U>,
    pub(super) a: &'a TensorView<'v, f32>,
    pub(super) b: &'a TensorView<'v, T>,
    pub(super) c: &'a TensorView<'v, T>,
    pub(super) dy: &'a TensorView<'v, T>,
    pub(super) z: Option<&'a TensorView<'v, T>>,
    pub(super) initial: Option<&'a TensorView<'v, f32>>,
    pub(super) d_last: Option<&'a TensorView<'v, f32>>,
    pub(super) packed: Option<&'a Packed<'v>>,
    pub(super) time: &'a Time<'v>,
}

/// Where gradients are to be written.
pub(super) struct Wanted<'a, T, U> {
    pub(super) x: Option<TensorViewMut<'a, T>>,
    pub(super) dt: Option<TensorViewMut<'a, U>>,
    pub(super) a: Option<TensorViewMut<'a, f32>>,
    pub(super) b: Option<TensorViewMut<'a, T>>,
    pub(super) c: Option<TensorViewMut<'a, T>>,
    pub(super) skip: Option<TensorViewMut<'a, f32>>,
    pub(super) z: Option<TensorViewMut<'a, T>>,
    pub(super) bias: Option<TensorViewMut<'a, f32>>,
    pub(super) initial: Option<TensorViewMut<'a, f32>>,
}

impl<T, U> Wanted<'_, T, U> {
    pub(super) const fn none() -> Self {
        Wanted {
            x: None,
            dt: None,
            a: None,
            b: None,
            c: None,
            skip: None,
            z: None,
            bias: None,
            initial: None,
        }
    }
}

/// Checked gradients. Tensors of tokens are \[batch, heads or groups, length, columns\] here.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    pub(super) size: Size,
    pub(super) extent: Extent,
    /// x, B, C and dy.
    pub(super) inputs: [Untyped; 4],
    /// Those of them that are read to shared memory.
    pub(super) operands: Vec<Operand>,
    pub(super) dt: Untyped,
    pub(super) decay: Untyped,
    pub(super) time: Told,
    pub(super) z: Option<Untyped>,
    pub(super) initial: Option<Untyped>,
    pub(super) d_last: Option<Untyped>,
    pub(super) dx: Option<Untyped>,
    pub(super) d_z: Option<Untyped>,
    /// By B and by C.
    pub(super) d_bc: [Option<Untyped>; 2],
    pub(super) d_dt: Option<Untyped>,
    /// By A, D and dt's bias.
    pub(super) d_heads: [Option<Untyped>; 3],
    pub(super) d_initial: Option<Untyped>,
    /// Blocks of a chunk, if that is asked for.
    pub(super) blocks: Option<usize>,
    pub(super) kernels: &'static [Compiled],
}

/// \[batch, heads or groups, length, columns\] of a tensor of tokens.
fn by_head(of: Untyped) -> Result<Untyped> {
    Ok(Untyped { layout: of.layout.transpose(1, 2)?, ..of })
}

/// The shape and the type of a tensor that may be written.
fn written<T: crate::Element>(of: &Option<TensorViewMut<'_, T>>) -> Option<Untyped> {
    of.as_ref().map(TensorViewMut::untyped)
}

impl Problem {
    pub(super) fn new<T: HalfElement, U: FloatElement>(
        given: Given<'_, '_, T, U>,
        wanted: &Wanted<'_, T, U>,
        chunk: Option<usize>,
        workspace: Option<Named<'_>>,
    ) -> Result<Self> {
        let Given { x, dt, a, b, c, dy, z, initial, d_last, packed, time } = given;
        let size = Size::new(x.shape(), b.shape(), c.shape())?;
        check_time(time, dt.shape(), a.shape(), x.shape())?;
        expect("dy", dy.shape(), x.shape(), "that of `x`")?;
        z.map_or(Ok(()), |z| expect("z", z.shape(), x.shape(), "that of `x`"))?;
        if z.is_none() && wanted.z.is_some() {
            return Err(Error::argument(
                "d_gate",
                "wanted of a scan without a gate",
                "left out, or `gate` given",
            ));
        }
        let extent = Extent::new(packed, [size.matrices, size.rows])?;
        let state = [extent.count, size.heads, size.p, size.n];
        check_state("initial_state", initial.map(TensorView::shape), state)?;
        check_state("d_final_state", d_last.map(TensorView::shape), state)?;
        check_state("d_initial_state", wanted.initial.as_ref().map(TensorViewMut::shape), state)?;
        let shapes = [
            ("dx", wanted.x.as_ref().map(TensorViewMut::shape), x.shape(), "that of `x`"),
            ("d_gate", wanted.z.as_ref().map(TensorViewMut::shape), x.shape(), "that of `x`"),
            ("d_dt", wanted.dt.as_ref().map(TensorViewMut::shape), dt.shape(), "that of `dt`"),
            ("d_b", wanted.b.as_ref().map(TensorViewMut::shape), b.shape(), "that of `b`"),
            ("d_c", wanted.c.as_ref().map(TensorViewMut::shape), c.shape(), "that of `c`"),
            ("d_a", wanted.a.as_ref().map(TensorViewMut::shape), a.shape(), "the heads of `x`"),
            ("d_skip", wanted.skip.as_ref().map(TensorViewMut::shape), a.shape(), "the heads of `x`"),
            ("d_dt_bias", wanted.bias.as_ref().map(TensorViewMut::shape), a.shape(), "the heads of `x`"),
        ];
        for (name, shape, want, because) in shapes {
            shape.map_or(Ok(()), |shape| expect(name, shape, want, because))?;
        }
        let inputs = [Named::read("x", x), Named::read("dt", dt), Named::read("a", a)].into_iter();
        let inputs = inputs.chain([Named::read("b", b), Named::read("c", c), Named::read("dy", dy)]);
        let inputs = inputs.chain(time.named()).chain(z.map(|z| Named::read("z", z)));
        let inputs = inputs.chain(initial.map(|initial| Named::read("initial_state", initial)));
        let inputs = inputs.chain(d_last.map(|d_last| Named::read("d_final_state", d_last)));
        let inputs = inputs.chain(packed.map(Packed::named));
        let of_tokens = [("dx", &wanted.x), ("d_gate", &wanted.z), ("d_b", &wanted.b), ("d_c", &wanted.c)];
        let of_tokens =
            of_tokens.into_iter().filter_map(|(name, to)| Some(Named::written(name, to.as_ref()?)));
        let of_heads = [
            ("d_a", &wanted.a),
            ("d_skip", &wanted.skip),
            ("d_dt_bias", &wanted.bias),
            ("d_initial_state", &wanted.initial),
        ];
        let of_heads = of_heads.into_iter().filter_map(|(name, to)| Some(Named::written(name, to.as_ref()?)));
        let outputs =
            of_tokens.chain(of_heads).chain(wanted.dt.as_ref().map(|to| Named::written("d_dt", to)));
        let device = x.device();
        check(device, inputs.chain(outputs).chain(workspace))?;
        let inputs = [x.untyped(), b.untyped(), c.untyped(), dy.untyped()];
        let [x, b, c, dy] = inputs.map(by_head);
        let inputs = [x?, b?, c?, dy?];
        let names = ["x", "B", "C", "dy"].into_iter().zip([size.p, size.n, size.n, size.p]);
        // dy of a gated scan is read to registers, and multiplied by the gate.
        let read = inputs.iter().zip(names).take(if z.is_some() { 3 } else { 4 });
        let operands = read.map(|(of, (name, line))| {
            let reading = of.reading(device.backend(), true)?;
            Ok::<_, Error>(Operand { name, reading, row_major: true, line })
        });
        let tokens = |to: Option<Untyped>| to.map(by_head).transpose();
        Ok(Problem {
            device: device.clone(),
            size,
            extent,
            operands: operands.collect::<Result<_>>()?,
            inputs,
            dt: dt.untyped(),
            decay: a.untyped(),
            time: time.told(),
            z: z.map(|z| by_head(z.untyped())).transpose()?,
            initial: initial.map(TensorView::untyped),
            d_last: d_last.map(TensorView::untyped),
            dx: tokens(written(&wanted.x))?,
            d_z: tokens(written(&wanted.z))?,
            d_bc: [tokens(written(&wanted.b))?, tokens(written(&wanted.c))?],
            d_dt: written(&wanted.dt),
            d_heads: [written(&wanted.a), written(&wanted.skip), written(&wanted.bias)],
            d_initial: written(&wanted.initial),
            blocks: blocks_of(chunk, size.rows)?,
            kernels: choose::kernels(T::DTYPE.name()),
        })
    }

    /// Nothing to compute.
    pub(super) fn is_empty(&self) -> bool {
        self.extent.count == 0 || self.size.heads == 0 || self.size.p == 0
    }

    /// Whether gradients by dt, A, D or the bias are wanted, which sums of all blocks make.
    pub(super) fn of_time(&self) -> bool {
        self.d_dt.is_some() || self.d_heads.iter().any(Option::is_some)
    }

    /// Whether the gradients by C and z, or those by B and x, have to be computed.
    pub(super) fn sides(&self) -> [bool; 2] {
        let [d_b, d_c] = &self.d_bc;
        [
            d_c.is_some() || self.d_z.is_some() || self.of_time(),
            d_b.is_some() || self.dx.is_some() || self.of_time(),
        ]
    }
}
