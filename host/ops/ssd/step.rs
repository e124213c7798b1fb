//! The scan's step of one token, for decoding.

use std::fmt;
use std::sync::LazyLock;

use tilewright_device::kernel::Listed;
use tilewright_ssd::{KERNELS, STATE_STEP, StateStepKernel};

use super::problem::{Size, check_state, check_time};
use super::sequences::expect;
use super::step_plan::{Others, SsdStepPlan, named};
use super::time::Time;
use crate::ops::FloatElement;
use crate::ops::HalfElement;
use crate::ops::frame::{Candidate, Choice, Cycles, Rated, Rejection, Table, check, of_shape};
use crate::{DType, Device, Error, KernelSet, Result, Stream, TensorView, TensorViewMut};

/// One compiled kernel.
pub type Compiled = Listed<StateStepKernel>;
/// A kernel that could compute a step, or why it could not.
pub type SsdStepCandidate = Candidate<Compiled>;

impl Rated for StateStepKernel {
    type Estimate = Cycles;
    const KERNELS: &'static KernelSet = &KERNELS;

    fn size(&self) -> [u32; 3] {
        [self.rows, 1, 1]
    }
    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows of a state, dt of {}, state of {}", self.rows, self.time, self.state)
    }
}

/// Element types of x, dt and the state.
type Kind = [&'static str; 3];

static TABLE: LazyLock<Table<Kind, Compiled>> =
    LazyLock::new(|| Table::new(STATE_STEP.iter().map(|k| ([k.element, k.time, k.state], *k))));

/// One token of each sequence: H = exp(dt A) H + dt x Bᵀ in place, y = H C + D x. The scan of [`Ssd`](super::Ssd) for a length of 1, with
/// its options.
///
/// | tensor | shape | |
/// | --- | --- | --- |
/// | x, y, z | \[batch, heads, P\] | f16 or bf16 |
/// | dt | \[batch, heads\] | as x, or f32 |
/// | A, D, dt's bias | \[heads\] | f32 |
/// | B, C | \[batch, groups, N\] | as x |
/// | state | \[batch, heads, P, N\] | f32, or as x |
///
/// Everything is computed in f32 and rounded once. Strides are any, P and N too; states whose columns are contiguous and aligned to 16 bytes are
/// read and written 16 bytes at a time. A call allocates nothing and does not wait; it can be captured in a [`Graph`](crate::Graph). What is called again and
/// again is [planned](Self::plan) once.
#[derive(Clone)]
pub struct SsdStep<'a, T> {
    pub(super) time: Time<'a>,
    pub(super) z: Option<TensorView<'a, T>>,
    pub(super) kernel: Option<&'a str>,
}

impl<T: HalfElement> Default for SsdStep<'_, T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A checked step.
pub(super) struct Problem {
    device: Device,
    pub(super) size: Size,
    kind: Kind,
}

impl Choice for Problem {
    type Kernel = Compiled;

    fn device(&self) -> &Device {
        &self.device
    }
    fn kernels(&self) -> &'static [Compiled] {
        TABLE.kernels(&self.kind)
    }
    fn what(&self) -> String {
        let [x, dt, state] = self.kind;
        format!("x of {x}, dt of {dt} and a state of {state}")
    }

    /// The state comes and goes once: 36 bytes a cycle of an SM of an H200.
    fn rate(&self, kernel: &Compiled) -> Result<Cycles, Rejection> {
        let Size { matrices, heads, p, n, .. } = self.size;
        let elements = [heads, p, n].into_iter().fold(matrices, usize::saturating_mul) as u64;
        let bytes = elements.saturating_mul(if kernel.state == DType::F32.name() { 8 } else { 4 });
        let sms = u64::from(self.device.sm_count()).max(1);
        Ok(Cycles((bytes / (36 * sms)).saturating_add(Cycles::of_launch(kernel.arch))))
    }
}

impl<'a, T: HalfElement> SsdStep<'a, T> {
    /// Without D, gate, bias, softplus.
    pub fn new() -> Self {
        SsdStep { time: Time::NEW, z: None, kernel: None }
    }
    /// D, \[heads\]: what of x is added to y.
    pub fn skip(mut self, d: &TensorView<'a, f32>) -> Self {
        self.time.skip = Some(d.clone());
        self
    }
    /// What is added to dt, \[heads\].
    pub fn dt_bias(mut self, bias: &TensorView<'a, f32>) -> Self {
        self.time.bias = Some(bias.clone());
        self
    }
    /// dt becomes ln(1 + exp(dt + bias)).
    pub fn softplus(mut self) -> Self {
        self.time.softplus = true;
        self
    }
    /// The least and the most that dt is cut off at, behind softplus; 0 and infinity unless set.
    pub fn dt_limits(mut self, least: f32, most: f32) -> Self {
        self.time.limits = [least, most];
        self
    }
    /// z, of the shape of x: y is multiplied by silu(z).
    pub fn gate(self, z: &TensorView<'a, T>) -> Self {
        SsdStep { z: Some(z.clone()), ..self }
    }
    /// Forces a kernel by its name; see [`candidates`](Self::candidates).
    pub fn kernel(self, name: &'a str) -> Self {
        SsdStep { kernel: Some(name), ..self }
    }

    /// Every compiled kernel for these element types.
    pub fn candidates<U: FloatElement, S: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        y: &TensorViewMut<'_, T>,
        state: &TensorViewMut<'_, S>,
    ) -> Result<Vec<SsdStepCandidate>> {
        Ok(self.problem(x, dt, a, bc, y, state)?.candidates())
    }

    /// A plan for tensors of these shapes, strides and alignments, which runs many times: the kernel, and how it is launched. The tensors, those
    /// among the options too, may be [views without memory](TensorView::without_memory).
    ///
    /// Loads the kernel, which takes the driver a while the first time.
    pub fn plan<U: FloatElement, S: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        y: &TensorViewMut<'_, T>,
        state: &TensorViewMut<'_, S>,
    ) -> Result<SsdStepPlan> {
        SsdStepPlan::new(self, (x, dt, a), bc, y, state)
    }

    /// Queues the step on `stream`: [`plan`](Self::plan), and [`SsdStepPlan::run`], of x, dt, A, B and C to y and the state.
    ///
    /// Fails when shapes or element types do not fit, a view lies on another device, or what is written overlaps another tensor.
    #[expect(clippy::too_many_arguments, reason = "the tensors of the step, each of its own shape")]
    pub fn run<U: FloatElement, S: FloatElement>(
        &self,
        stream: &Stream,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        bc: [&TensorView<'_, T>; 2],
        y: &mut TensorViewMut<'_, T>,
        state: &mut TensorViewMut<'_, S>,
    ) -> Result<()> {
        let plan = self.plan(x, dt, a, bc, y, state)?;
        plan.queue(stream, named((x, dt, a), bc, y, state, &self.others()))
    }

    /// The tensors of the call beside x, dt, A, B, C, y and the state.
    pub(super) fn others(&self) -> Others<'_, T> {
        Others { z: self.z.as_ref(), bias: self.time.bias.as_ref(), skip: self.time.skip.as_ref() }
    }

    /// Checks the arguments.
    pub(super) fn problem<U: FloatElement, S: FloatElement>(
        &self,
        x: &TensorView<'_, T>,
        dt: &TensorView<'_, U>,
        a: &TensorView<'_, f32>,
        [b, c]: [&TensorView<'_, T>; 2],
        y: &TensorViewMut<'_, T>,
        state: &TensorViewMut<'_, S>,
    ) -> Result<Problem> {
        let &[matrices, heads, p] = x.shape() else {
            return Err(Error::argument("x", of_shape(x.shape()), "of 3 dimensions: batch, heads, columns"));
        };
        let &[_, groups, n] = b.shape() else {
            return Err(Error::argument("b", of_shape(b.shape()), "of 3 dimensions: batch, groups, columns"));
        };
        let size = Size { matrices, rows: 1, heads, groups, p, n };
        expect("b", b.shape(), &[matrices, groups, n], "the batch of `x`, groups, columns")?;
        size.check_groups(b.shape())?;
        expect("c", c.shape(), b.shape(), "that of `b`")?;
        check_time(&self.time, dt.shape(), a.shape(), x.shape())?;
        expect("y", y.shape(), x.shape(), "that of `x`")?;
        let z = self.z.as_ref();
        z.map_or(Ok(()), |z| expect("z", z.shape(), x.shape(), "that of `x`"))?;
        check_state("state", Some(state.shape()), [matrices, heads, p, n])?;
        for (name, dtype) in [("dt", U::DTYPE), ("state", S::DTYPE)] {
            if dtype != DType::F32 && dtype != T::DTYPE {
                let allowed = format!("of f32 or of {}, the element type of `x`", T::DTYPE);
                return Err(Error::argument(name, format!("of {dtype}"), allowed));
            }
        }
        let tensors = named((x, dt, a), [b, c], y, state, &self.others());
        check(y.device(), tensors.into_iter().flatten())?;
        let kind = [T::DTYPE.name(), U::DTYPE.name(), S::DTYPE.name()];
        Ok(Problem { device: y.device().clone(), size, kind })
    }
}
