//! What the gradients of a linear attention are asked of, checked.

use super::LinearAttentionGradient;
use super::choose::Compiled;
use crate::ops::HalfElement;
use crate::ops::frame::{Named, Operand, check, of_shape};
use crate::ops::linear_attention::problem::{Problem, Size};
use crate::tensor::{Layout, Untyped};
use crate::{DType, Error, Result, TensorView, TensorViewMut};

use tilewright_linear_attention::{CHUNK, Way};

/// Elements of f32 to multiples of which tensors in the workspace are rounded up: 128 bytes.
const ALIGNED: usize = 32;
/// Elements to multiples of which lines of states are rounded up: 16 bytes.
const LINE: usize = 8;

/// The tensors of a gradient.
#[derive(Clone, Debug)]
pub(super) struct GradientProblem {
    /// The linear attention itself, with the gradient by V in the place of O.
    pub(super) of: Problem,
    /// \[batch, heads, length, DV\].
    pub(super) d_o: Untyped,
    /// As kernels read it.
    pub(super) d_o_operand: Operand,
    /// By Q and K, \[batch, heads, length, DK\].
    pub(super) outputs: [Untyped; 2],
    /// \[batch, heads, length, DK or 1\]; without rows where it is not wanted.
    pub(super) d_gates: Untyped,
    /// \[heads\], if it is wanted.
    pub(super) d_decay: Option<Untyped>,
    /// The gradients by the last and by the first state, \[sequences, heads, DV, DK\]; without rows where there are none.
    pub(super) d_states: [Untyped; 2],
}

/// How tensors lie in the workspace: elements of f32 to where each begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lies {
    /// States and their gradients.
    pub(super) states: [usize; 2],
    /// Q and K decayed, the scores, and what is left of states behind chunks.
    pub(super) prepared: [usize; 4],
    /// Gradients of gates that only decays are made of.
    pub(super) gates: usize,
    /// States of segments, and what these leave of one from before them.
    pub(super) passed: [usize; 2],
    /// Segments of a sequence.
    pub(super) segments: u32,
    /// Chunks of a head.
    pub(super) slots: usize,
    /// Elements of all.
    pub(super) len: usize,
}

impl GradientProblem {
    /// Checks that the views fit together.
    pub(super) fn new<T: HalfElement>(
        options: &LinearAttentionGradient<'_>,
        inputs: [&TensorView<'_, T>; 3],
        d_o: &TensorView<'_, T>,
        outputs: [&TensorViewMut<'_, T>; 3],
    ) -> Result<Self> {
        let LinearAttentionGradient { options, tensors, gradients, workspace, .. } = options;
        let refused = [
            ("beta", tensors.beta.is_some(), "the delta rule has no gradient"),
            ("final_state", tensors.last.is_some(), "it is not computed with gradients"),
        ];
        if let Some((name, _, why)) = refused.into_iter().find(|(_, given, _)| *given) {
            return Err(Error::argument(name, "given for a gradient", format!("left out: {why}")));
        }
        let ([q, k, v], [d_q, d_k, d_v]) = (inputs, outputs);
        let read = [Named::read("q", q), Named::read("k", k), Named::read("v", v), Named::read("d_o", d_o)];
        let written = [Named::written("d_q", d_q), Named::written("d_k", d_k), Named::written("d_v", d_v)];
        let last = gradients.last.iter().map(|view| Named::read("d_final_state", view));
        let others = [
            ("d_initial_state", &gradients.initial),
            ("d_gates", &gradients.gates),
            ("d_decay", &gradients.decay),
        ];
        let others = others.into_iter().filter_map(|(name, view)| Some(Named::written(name, view.as_ref()?)));
        let all = read.into_iter().chain(written).chain(tensors.named()).chain(last).chain(others);
        check(d_v.device(), all.chain(workspace.named()))?;
        let same = [
            ("d_o", d_o.shape(), v.shape(), "that of `v`"),
            ("d_q", d_q.shape(), q.shape(), "that of `q`"),
            ("d_k", d_k.shape(), q.shape(), "that of `q`"),
            ("d_v", d_v.shape(), v.shape(), "that of `v`"),
        ];
        for (name, shape, want, because) in same {
            expect(name, shape, want, because)?;
        }
        let of = Problem::new(options, tensors, inputs, d_v)?;

        let by_heads = |of: Untyped| Ok::<_, Error>(Untyped { layout: of.layout.transpose(1, 2)?, ..of });
        let none = Untyped { layout: Layout::contiguous(&[1, 1, 0, 1])?, dtype: DType::F32, ..of.o };
        let states = [
            ("d_final_state", gradients.last.as_ref().map(TensorView::untyped)),
            ("d_initial_state", gradients.initial.as_ref().map(|view| view.untyped())),
        ];
        let mut d_states = [none, none];
        for ((name, view), to) in states.into_iter().zip(&mut d_states) {
            let Some(view) = view else { continue };
            of.expect_state(name, view.layout.shape())?;
            *to = Untyped { layout: view.layout.transpose(2, 3)?, ..view };
        }
        let d_gates = match &gradients.gates {
            None => none,
            Some(view) => {
                let [rows, heads] = [1, 2].map(|i| q.shape().get(i).copied().unwrap_or(0));
                let batch = q.shape().first().copied().unwrap_or(0);
                let channels = of.way.by_channels();
                let (want, because) = match channels {
                    true => (vec![batch, rows, heads, of.size.columns[0]], "that of `q`"),
                    false => (vec![batch, rows, heads], "batch, length and heads of `q`"),
                };
                expect("d_gates", view.shape(), &want, because)?;
                let view = by_heads(view.untyped())?;
                if channels { view } else { Untyped { layout: view.layout.insert(3)?, ..view } }
            }
        };
        let d_decay = gradients.decay.as_ref().map(|view| view.untyped());
        if let Some(d_decay) = &d_decay {
            expect("d_decay", d_decay.layout.shape(), &[of.size.heads], "the heads of `q`")?;
            if of.way == Way::Channels {
                let allowed = "left out: no head has a constant there";
                return Err(Error::argument("d_decay", "given beside `channel_gates`", allowed));
            }
        }
        let d_o = by_heads(d_o.untyped())?;
        let reading = d_o.reading(of.device.backend(), true)?;
        let d_o_operand = Operand { name: "dO", reading, row_major: true, line: of.size.columns[1] };
        let outputs = [by_heads(d_q.untyped())?, by_heads(d_k.untyped())?];
        Ok(GradientProblem { of, d_o, d_o_operand, outputs, d_gates, d_decay, d_states })
    }

    /// Nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        let Size { sequences, heads, .. } = self.of.size;
        let rows = self.of.o.layout.len() > 0;
        sequences == 0 || heads == 0 || !(rows || self.d_states[1].layout.len() > 0 || self.d_decay.is_some())
    }

    /// Batch, heads and rows of the tensors.
    pub(super) fn matrices(&self) -> [usize; 3] {
        let shape = self.of.o.layout.shape();
        [0, 1, 2].map(|i| shape[i])
    }

    /// What the workspace holds for this kernel of states.
    pub(super) fn lies(&self, kernel: &Compiled) -> Lies {
        let [batch, heads, rows] = self.matrices();
        let Size { sequences, columns: [_, dv], .. } = self.of.size;
        let slots = match self.of.offsets {
            None => batch.saturating_mul(rows.div_ceil(CHUNK)),
            Some(_) => rows / CHUNK + sequences + 1,
        };
        let mut len = 0usize;
        let mut take = |elements: usize| {
            let begin = len;
            len = len.saturating_add(elements.next_multiple_of(ALIGNED));
            begin
        };
        let all = slots.saturating_mul(heads);
        let state = self.line().saturating_mul(dv) / 2;
        let states = [take(all.saturating_mul(state)), take(all.saturating_mul(state))];
        let columns = kernel.columns[1] as usize;
        let lines = match self.of.way {
            Way::Channels | Way::ChannelsDelta => batch.saturating_mul(heads).saturating_mul(rows),
            Way::Heads | Way::Delta => 0,
        };
        let halves = [columns, columns, CHUNK].map(|columns| take(lines.saturating_mul(columns) / 2));
        let factors = if lines > 0 { all.saturating_mul(columns) } else { 0 };
        let prepared = [halves[0], halves[1], halves[2], take(factors)];
        let unasked = self.d_decay.is_some() && self.d_gates.layout.len() == 0;
        let gates = take(if unasked { batch.saturating_mul(heads).saturating_mul(rows) } else { 0 });
        let segments = self.segments(kernel);
        let parts = match segments {
            1 => 0,
            _ => sequences.saturating_mul(self.of.size.heads).saturating_mul(segments as usize),
        };
        let passed =
            [take(parts.saturating_mul(dv).saturating_mul(columns)), take(parts.saturating_mul(columns))];
        Lies { states, prepared, gates, passed, segments, slots, len }
    }

    /// Elements from one line of a state to the next.
    pub(super) fn line(&self) -> usize {
        self.of.size.columns[0].next_multiple_of(LINE)
    }
}

fn expect(name: &'static str, shape: &[usize], want: &[usize], because: &str) -> Result<()> {
    if shape == want {
        return Ok(());
    }
    Err(Error::argument(name, of_shape(shape), format!("of shape {want:?}: {because}")))
}
