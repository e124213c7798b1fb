//! The operators of a step, on a device's tensors.

use std::cell::RefCell;
use std::fmt;

use tilewright::ops::{Activation, AttentionViews};
use tilewright::ops::{Attention, Gated, Gemm, GemmViews, Norm, Pairs, Rope};
use tilewright::{Device, Result, Stream, Tensor, TensorViewMut, bf16};
use tilewright_support::random::normal;

use crate::case::{
    CONTEXT, Case, HEAD, HEADS, HIDDEN, INTERMEDIATE, KV_HEADS, LAYERS, PAGE, VOCABULARY, Weights,
};
use crate::weights::{Source, Weight, numbers};

/// An operator of each layer, or of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Norm,
    Qkv,
    Rope,
    Append,
    Attention,
    Output,
    SecondNorm,
    GateUp,
    Gated,
    Down,
    Logits,
}

impl Operator {
    pub const ALL: [Operator; 11] = [
        Operator::Norm,
        Operator::Qkv,
        Operator::Rope,
        Operator::Append,
        Operator::Attention,
        Operator::Output,
        Operator::SecondNorm,
        Operator::GateUp,
        Operator::Gated,
        Operator::Down,
        Operator::Logits,
    ];
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operator::Norm => "norm with residual",
            Operator::Qkv => "product: queries, keys, values",
            Operator::Rope => "rotation",
            Operator::Append => "append to the cache",
            Operator::Attention => "attention",
            Operator::Output => "product: output",
            Operator::SecondNorm => "second norm with residual",
            Operator::GateUp => "product: gate and up",
            Operator::Gated => "gated unit",
            Operator::Down => "product: down",
            Operator::Logits => "product: logits",
        })
    }
}

struct Layer {
    qkv: Weight,
    output: Weight,
    gate_up: Weight,
    down: Weight,
    /// Keys and values, \[pages, rows, heads, columns\].
    caches: RefCell<[Tensor<bf16>; 2]>,
}

/// Tensors between operators.
struct Between {
    /// The sums so far, each norm's in turn.
    sums: [Tensor<bf16>; 2],
    x: Tensor<bf16>,
    normed: Tensor<bf16>,
    qkv: Tensor<bf16>,
    q: Tensor<bf16>,
    attended: Tensor<bf16>,
    gate_up: Tensor<bf16>,
    gated: Tensor<bf16>,
    logits: Tensor<f32>,
    /// Of products, of attention.
    rooms: [Tensor<f32>; 2],
}

/// A step of decoding.
pub struct Step {
    case: Case,
    layers: Vec<Layer>,
    head: Weight,
    norm: Tensor<bf16>,
    positions: Tensor<i32>,
    slots: Tensor<i32>,
    lengths: Tensor<i32>,
    table: Tensor<i32>,
    between: RefCell<Between>,
}

impl Step {
    pub fn new(device: &Device, case: Case) -> Result<Self> {
        let (stream, batch) = (device.default_stream(), case.batch);
        let numbers = numbers(device)?;
        let of = |n, k| Source::new(case.weights, &numbers, [n, k]);
        let columns = HEADS * HEAD;
        let all = columns + 2 * KV_HEADS * HEAD;
        let shapes = [(all, HIDDEN), (HIDDEN, columns), (2 * INTERMEDIATE, HIDDEN), (HIDDEN, INTERMEDIATE)];
        let [qkv, output, gate_up, down] = shapes.map(|(n, k)| of(n, k));
        let (qkv, output, gate_up, down) = (qkv?, output?, gate_up?, down?);
        let pages = (CONTEXT + 1).div_ceil(PAGE);
        let layer = || {
            let cache = || Tensor::zeros(device, &[batch * pages, PAGE, KV_HEADS, HEAD]);
            Ok(Layer {
                qkv: qkv.make(&stream)?,
                output: output.make(&stream)?,
                gate_up: gate_up.make(&stream)?,
                down: down.make(&stream)?,
                caches: RefCell::new([cache()?, cache()?]),
            })
        };
        let zeros = |columns: usize| Tensor::zeros(device, &[batch, columns]);
        let table: Vec<_> = (0..batch * pages).map(|i| (i % pages * batch + i / pages) as i32).collect();
        let slots: Vec<_> =
            (0..batch).map(|i| ((CONTEXT / PAGE * batch + i) * PAGE + CONTEXT % PAGE) as i32).collect();
        let x = Tensor::from_slice(device, &normal::<bf16>(2, batch * HIDDEN), &[batch, HIDDEN])?;
        let step = Step {
            case,
            layers: (0..LAYERS).map(|_| layer()).collect::<Result<_>>()?,
            head: Source::new(Weights::Bf16, &numbers, [VOCABULARY, HIDDEN])?.make(&stream)?,
            norm: Tensor::filled(device, bf16::ONE, &[HIDDEN])?,
            positions: Tensor::filled(device, CONTEXT as i32, &[batch])?,
            slots: Tensor::from_slice(device, &slots, &[batch])?,
            lengths: Tensor::filled(device, CONTEXT as i32 + 1, &[batch])?,
            table: Tensor::from_slice(device, &table, &[batch, pages])?,
            between: RefCell::new(Between {
                sums: [zeros(HIDDEN)?, zeros(HIDDEN)?],
                x,
                normed: zeros(HIDDEN)?,
                qkv: zeros(all)?,
                q: zeros(columns)?,
                attended: zeros(columns)?,
                gate_up: zeros(2 * INTERMEDIATE)?,
                gated: zeros(INTERMEDIATE)?,
                logits: Tensor::zeros(device, &[batch, VOCABULARY])?,
                rooms: [Tensor::zeros(device, &[1 << 22])?, Tensor::zeros(device, &[1 << 22])?],
            }),
        };
        stream.synchronize()?;
        Ok(step)
    }

    /// Whether a step has it.
    pub fn has(&self, operator: Operator) -> bool {
        !(self.case.fused && [Operator::Append, Operator::Gated].contains(&operator))
    }

    /// What a step reads: weights, keys and values.
    pub fn bytes(&self) -> usize {
        let of = |layer: &Layer| {
            [&layer.qkv, &layer.output, &layer.gate_up, &layer.down].map(Weight::bytes).iter().sum::<usize>()
        };
        let keys = 2 * LAYERS * KV_HEADS * HEAD * 2 * CONTEXT * self.case.batch;
        self.layers.iter().map(of).sum::<usize>() + self.head.bytes() + keys
    }

    /// Computes it once; an error where logits are no numbers.
    pub fn check(&self) -> tilewright_support::Result<()> {
        let stream = Stream::new(self.norm.device())?;
        self.launch(&stream, None)?;
        let logits = self.between.borrow().logits.to_vec_on(&stream)?;
        match logits.iter().all(|x| x.is_finite()) && logits.iter().any(|&x| x != 0.0) {
            true => Ok(()),
            false => Err(format!("{}: logits are no numbers", self.case).into()),
        }
    }

    /// Queues it, without one operator of all layers.
    pub fn launch(&self, stream: &Stream, without: Option<Operator>) -> Result<()> {
        let between = &mut *self.between.borrow_mut();
        for layer in &self.layers {
            self.layer(stream, layer, between, |operator| without != Some(operator))?;
        }
        if without != Some(Operator::Logits)
            && let Weight::Wide(head) = &self.head
        {
            let (x, w) = (between.normed.view(), head.view().transpose(0, 1)?);
            let mut y = between.logits.view_mut();
            Gemm::new().plan(&x, &w, &y)?.run(stream, &x, &w, &mut y, &GemmViews::default())?;
        }
        Ok(())
    }

    fn layer(
        &self,
        stream: &Stream,
        layer: &Layer,
        between: &mut Between,
        has: impl Fn(Operator) -> bool,
    ) -> Result<()> {
        let batch = self.case.batch;
        let Between { sums: [even, odd], x, normed, qkv, q, attended, gate_up, gated, rooms, .. } = between;
        let [room, parts] = rooms;
        if has(Operator::Norm) {
            self.norm(stream, x, [even, odd], normed)?;
        }
        if has(Operator::Qkv) {
            layer.qkv.launch(stream, &normed.view(), &mut qkv.view_mut(), &mut room.view_mut())?;
        }
        let mut caches = layer.caches.borrow_mut();
        let [k_cache, v_cache] = &mut *caches;
        let heads = |first, count| {
            let all = qkv.view().reshape(&[batch, HEADS + 2 * KV_HEADS, HEAD])?;
            all.narrow(1, first, count)
        };
        if self.case.fused && has(Operator::Rope) {
            let tensors = [heads(0, HEADS)?, heads(HEADS, KV_HEADS)?, heads(HEADS + KV_HEADS, KV_HEADS)?];
            let mut q_to = q.view_mut().reshape(&[batch, HEADS, HEAD])?;
            let caches = [&mut k_cache.view_mut(), &mut v_cache.view_mut()];
            let rope = Rope::new(Pairs::Halves).theta(5e5).positions(self.positions.view());
            rope.run_append(stream, tensors.each_ref(), &mut q_to, caches, self.slots.view())?;
        } else if has(Operator::Rope) {
            let (q_from, k_from) = (heads(0, HEADS)?, heads(HEADS, KV_HEADS)?);
            let (mut q_to, mut k_to) = (q.view_mut().reshape(&[batch, HEADS, HEAD])?, last(k_cache, batch)?);
            let rope = Rope::new(Pairs::Halves).theta(5e5).positions(self.positions.view());
            rope.run_both(stream, [&q_from, &k_from], [&mut q_to, &mut k_to])?;
        }
        if !self.case.fused && has(Operator::Append) {
            let v = heads(HEADS + KV_HEADS, KV_HEADS)?;
            tilewright::ops::copy(stream, &v, &mut last(v_cache, batch)?)?;
        }
        if has(Operator::Attention) {
            let q = q.view().reshape(&[batch, 1, HEADS, HEAD])?.transpose(1, 2)?;
            let (k, v) = (k_cache.view().transpose(1, 2)?, v_cache.view().transpose(1, 2)?);
            let mut o = attended.view_mut().reshape(&[batch, 1, HEADS, HEAD])?.transpose(1, 2)?;
            let (table, lengths) = (self.table.view(), self.lengths.view());
            let plan = Attention::new().block_table(&table).lengths(&lengths).plan(&q, &k, &v, &o)?;
            let len = plan.workspace_len();
            let mut views = AttentionViews {
                block_table: Some((&table).into()),
                lengths: Some((&lengths).into()),
                workspace: if len == 0 { None } else { Some(parts.view_mut().narrow(0, 0, len)?) },
                ..AttentionViews::default()
            };
            plan.run(stream, &q, &k, &v, &mut o, &mut views)?;
        }
        if has(Operator::Output) {
            layer.output.launch(stream, &attended.view(), &mut x.view_mut(), &mut room.view_mut())?;
        }
        if has(Operator::SecondNorm) {
            self.norm(stream, x, [odd, even], normed)?;
        }
        if self.case.fused && has(Operator::GateUp) {
            layer.gate_up.launch_gated(stream, &normed.view(), &mut gated.view_mut())?;
        } else if has(Operator::GateUp) {
            layer.gate_up.launch(stream, &normed.view(), &mut gate_up.view_mut(), &mut room.view_mut())?;
        }
        if !self.case.fused && has(Operator::Gated) {
            Gated::new(Activation::Silu).run_packed(stream, &gate_up.view(), &mut gated.view_mut())?;
        }
        if has(Operator::Down) {
            layer.down.launch(stream, &gated.view(), &mut x.view_mut(), &mut room.view_mut())?;
        }
        Ok(())
    }

    fn norm(
        &self,
        stream: &Stream,
        x: &Tensor<bf16>,
        [from, to]: [&mut Tensor<bf16>; 2],
        y: &mut Tensor<bf16>,
    ) -> Result<()> {
        let weight = self.norm.view();
        let norm = Norm::rms().weight(&weight).epsilon(1e-5);
        norm.run_added(stream, &x.view(), &from.view(), &mut to.view_mut(), &mut y.view_mut())
    }
}

/// Where the next token of each sequence lies.
fn last(cache: &mut Tensor<bf16>, batch: usize) -> Result<TensorViewMut<'_, bf16>> {
    cache.view_mut().narrow(0, CONTEXT / PAGE * batch, batch)?.select(1, CONTEXT % PAGE)
}
