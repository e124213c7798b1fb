//! What a linear attention is asked to compute, checked.

use tilewright_linear_attention::{CHUNK, Way, Work};

use super::choose::Compiled;
use super::plan::{Others, named};
use crate::ops::Indices;
use crate::ops::frame::{Named, Operand, Places, check, of_shape};
use crate::ops::indices::log2_bytes;
use crate::ops::scores::scale;
use crate::tensor::{Layout, Untyped};
use crate::{DType, Device, Element, Error, Result, TensorView, TensorViewMut};

/// The most columns of a head.
const MAX_COLUMNS: usize = 256;
/// The most segments of a sequence.
const MAX_SEGMENTS: u32 = 1024;
/// The most heads, and sequences: what a grid has room for.
const MOST: usize = 65535;

/// What states have the shape of.
const OF_STATES: &str = "sequences, heads, and the head dimensions of `k` and `v`";

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    /// 1 / sqrt(DK) if it is not given.
    pub(super) scale: Option<f32>,
    /// The most rows of a packed sequence.
    pub(super) longest: usize,
    pub(super) segments: Option<usize>,
}

/// The tensors beside Q, K, V and O.
#[derive(Default)]
pub(super) struct Tensors<'a> {
    pub(super) decay: Option<TensorView<'a, f32>>,
    pub(super) gates: Option<TensorView<'a, f32>>,
    pub(super) channel_gates: Option<TensorView<'a, f32>>,
    pub(super) beta: Option<TensorView<'a, f32>>,
    pub(super) initial: Option<TensorView<'a, f32>>,
    pub(super) last: Option<TensorViewMut<'a, f32>>,
    pub(super) offsets: Option<Indices<'a>>,
}

impl Tensors<'_> {
    /// The same, borrowed.
    pub(super) fn others(&self) -> Others<'_> {
        let Tensors { decay, gates, channel_gates, beta, initial, last, offsets } = self;
        Others {
            read: [decay, gates, channel_gates, beta, initial].map(Option::as_ref),
            last: last.as_ref(),
            offsets: offsets.as_ref(),
        }
    }

    /// As tensors of the call.
    pub(super) fn named(&self) -> impl Iterator<Item = Named<'_>> + Clone {
        self.others().named().into_iter().flatten()
    }
}

/// The tensors of a linear attention.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    /// Q, K and V, \[batch, heads, length, columns\].
    pub(super) inputs: [Untyped; 3],
    /// Q, K and V as kernels read them.
    pub(super) operands: [Operand; 3],
    pub(super) o: Untyped,
    /// Of each head.
    pub(super) decay: Option<Untyped>,
    /// \[batch, length, heads\].
    pub(super) gates: Option<Untyped>,
    /// \[batch, heads, length, DK\].
    pub(super) channel_gates: Option<Untyped>,
    /// \[batch, heads, length\].
    pub(super) beta: Option<Untyped>,
    pub(super) way: Way,
    /// The states, \[sequences, heads, DV, DK\]; without rows where they are not wanted.
    pub(super) states: [Untyped; 2],
    pub(super) offsets: Option<Untyped>,
    pub(super) size: Size,
    pub(super) scale: f32,
    /// If they are asked for.
    pub(super) segments: Option<u32>,
}

/// The sizes of a linear attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) sequences: usize,
    pub(super) heads: usize,
    /// The most rows of a sequence.
    pub(super) rows: usize,
    /// Columns of Q and K, and of V and O.
    pub(super) columns: [usize; 2],
}

impl Problem {
    /// Checks that the views fit together, and are apart where they are written.
    pub(super) fn checked<T: Element>(
        options: &Options,
        tensors: &Tensors<'_>,
        [q, k, v]: [&TensorView<'_, T>; 3],
        o: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        check(o.device(), named([q, k, v], o, &tensors.others(), None).into_iter().flatten())?;
        Self::new(options, tensors, [q, k, v], o)
    }

    /// Checks that the views fit together.
    pub(super) fn new<T: Element>(
        options: &Options,
        tensors: &Tensors<'_>,
        [q, k, v]: [&TensorView<'_, T>; 3],
        o: &TensorViewMut<'_, T>,
    ) -> Result<Self> {
        let device = o.device();
        let shapes = [("q", q.shape()), ("k", k.shape()), ("v", v.shape()), ("o", o.shape())];
        let [batch, rows, heads, d, dv] = fit(shapes)?;
        let size = Size { sequences: batch, heads, rows, columns: [d, dv] };
        let size = match &tensors.offsets {
            None => size,
            Some(offsets) => packed(&offsets.untyped().layout, size, options.longest)?,
        };
        for (name, count, what) in [("q", heads, "heads"), ("q", size.sequences, "sequences")] {
            if count > MOST {
                let allowed = format!("of up to {MOST} {what}");
                return Err(Error::argument(name, of_shape(q.shape()), allowed));
            }
        }
        let of_rows = vec![batch, rows, heads];
        let gates = [
            ("decay", &tensors.decay, vec![heads], "the heads of `q`"),
            ("gates", &tensors.gates, of_rows.clone(), "batch, length and heads of `q`"),
            ("channel_gates", &tensors.channel_gates, vec![batch, rows, heads, d], "that of `q`"),
            ("beta", &tensors.beta, of_rows, "batch, length and heads of `q`"),
        ];
        for (name, view, shape, because) in gates {
            view.as_ref().map_or(Ok(()), |view| expect(name, view.shape(), &shape, because))?;
        }
        let others = [("decay", tensors.decay.is_some()), ("gates", tensors.gates.is_some())];
        if let Some((name, _)) =
            others.into_iter().find(|(_, given)| *given && tensors.channel_gates.is_some())
        {
            return Err(Error::argument(
                name,
                "given beside `channel_gates`",
                "left out: those are all decays",
            ));
        }
        let state = [size.sequences, heads, d, dv];
        let states = [tensors.initial.as_ref().map(|view| ("initial_state", view.untyped())), {
            tensors.last.as_ref().map(|view| ("final_state", view.untyped()))
        }];
        let none =
            Untyped { address: o.address(), dtype: DType::F32, layout: Layout::contiguous(&[1, 1, 0, 1])? };
        let mut transposed = [none, none];
        for (state_of, to) in states.into_iter().zip(&mut transposed) {
            let Some((name, view)) = state_of else { continue };
            expect(name, view.layout.shape(), &state, OF_STATES)?;
            *to = Untyped { layout: view.layout.transpose(2, 3)?, ..view };
        }
        let segments = options.segments.map(|segments| match u32::try_from(segments) {
            Ok(segments @ 1..=MAX_SEGMENTS) => Ok(segments),
            _ => Err(Error::argument("segments", format!("{segments}"), format!("from 1 to {MAX_SEGMENTS}"))),
        });
        let way = match (&tensors.beta, &tensors.channel_gates) {
            (Some(_), Some(_)) => Way::ChannelsDelta,
            (Some(_), None) => Way::Delta,
            (None, Some(_)) => Way::Channels,
            (None, None) => Way::Heads,
        };
        let by_heads = |of: Untyped| Ok::<_, Error>(Untyped { layout: of.layout.transpose(1, 2)?, ..of });
        let inputs = [by_heads(q.untyped())?, by_heads(k.untyped())?, by_heads(v.untyped())?];
        let [reads_q, reads_k, reads_v] =
            inputs.each_ref().map(|input| input.reading(device.backend(), true));
        let operand = |name, reading, line| Operand { name, reading, row_major: true, line };
        Ok(Problem {
            device: device.clone(),
            inputs,
            operands: [operand("Q", reads_q?, d), operand("K", reads_k?, d), operand("V", reads_v?, dv)],
            o: by_heads(o.untyped())?,
            decay: tensors.decay.as_ref().map(TensorView::untyped),
            gates: tensors.gates.as_ref().map(TensorView::untyped),
            channel_gates: tensors
                .channel_gates
                .as_ref()
                .map(|gates| by_heads(gates.untyped()))
                .transpose()?,
            beta: tensors.beta.as_ref().map(|beta| by_heads(beta.untyped())).transpose()?,
            way,
            states: transposed,
            offsets: tensors.offsets.as_ref().map(Indices::untyped),
            size,
            scale: scale(options.scale, d)?,
            segments: segments.transpose()?,
        })
    }

    /// The same with the tensors of a run.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let at = |of: &Option<Untyped>| of.as_ref().map(|of| places.of(of));
        Problem {
            device: self.device.clone(),
            inputs: self.inputs.each_ref().map(|input| places.of(input)),
            o: places.of(&self.o),
            decay: at(&self.decay),
            gates: at(&self.gates),
            channel_gates: at(&self.channel_gates),
            beta: at(&self.beta),
            states: self.states.each_ref().map(|state| places.of(state)),
            offsets: at(&self.offsets),
            ..*self
        }
    }

    /// Checks the shape of states.
    pub(super) fn expect_state(&self, name: &'static str, shape: &[usize]) -> Result<()> {
        let Size { sequences, heads, columns: [d, dv], .. } = self.size;
        expect(name, shape, &[sequences, heads, d, dv], OF_STATES)
    }

    /// Nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        let Size { sequences, heads, .. } = self.size;
        let rows = self.o.layout.len() > 0;
        sequences == 0 || heads == 0 || !(rows || self.states[1].layout.len() > 0)
    }

    /// What kernels are told of where sequences lie; one chunk and one block, and the rest not yet.
    pub(super) fn work(&self) -> Work {
        let (offsets, log2_bytes) =
            self.offsets.as_ref().map_or((0, 0), |offsets| (offsets.address, log2_bytes(offsets)));
        Work { offsets, log2_bytes, rows: 0, chunks: 1, blocks: 1, sequences: 0, slots: 0 }
    }

    /// The chunks of the longest sequence.
    pub(super) fn chunks(&self) -> usize {
        self.size.rows.div_ceil(CHUNK)
    }

    /// Elements of the workspace for this kernel: what chunks are prepared to, and the states of segments.
    pub(super) fn workspace_len(&self, kernel: &Compiled, segments: u32) -> usize {
        let prepared = match kernel.way {
            Way::Heads => 0,
            Way::Delta => self.solved(kernel).len,
            Way::Channels | Way::ChannelsDelta => self.prepared(kernel).len,
        };
        prepared.saturating_add(self.passed(kernel, segments).len)
    }
}

/// Batch, length, heads and the head dimensions, of the shapes of Q, K, V and O.
fn fit(shapes: [(&'static str, &[usize]); 4]) -> Result<[usize; 5]> {
    let mut all = [[0; 4]; 4];
    for ((name, shape), to) in shapes.into_iter().zip(&mut all) {
        *to = shape.try_into().map_err(|_| {
            let allowed = "of 4 dimensions: batch, length, heads, head dimension";
            Error::argument(name, of_shape(shape), allowed)
        })?;
    }
    let [q @ [batch, rows, heads, d], k, v @ [.., dv], o] = all;
    expect("k", &k, &q, "that of `q`")?;
    expect("v", &v, &[batch, rows, heads, dv], "batch, length and heads of `q`")?;
    expect("o", &o, &[batch, rows, heads, dv], "that of `v`")?;
    for (name, shape, columns) in [("q", q, d), ("v", v, dv)] {
        if !(1..=MAX_COLUMNS).contains(&columns) {
            let allowed = format!("of a head dimension from 1 to {MAX_COLUMNS}");
            return Err(Error::argument(name, of_shape(&shape), allowed));
        }
    }
    if u32::try_from(rows).is_err() {
        return Err(Error::argument("q", of_shape(&q), "of a length below 2^32"));
    }
    Ok([batch, rows, heads, d, dv])
}

/// The sizes of packed sequences, given those of the tensors.
fn packed(offsets: &Layout, tensors: Size, longest: usize) -> Result<Size> {
    if tensors.sequences != 1 {
        let was = format!("of a batch of {}", tensors.sequences);
        let allowed = "of a batch of 1: packed sequences follow each other in its rows";
        return Err(Error::argument("q", was, allowed));
    }
    if offsets.rank() != 1 || offsets.len() == 0 || !offsets.is_contiguous() {
        let was = format!("of shape {:?} and strides {:?}", offsets.shape(), offsets.strides());
        let allowed = "of one dimension, contiguous: where each sequence begins and the last one ends";
        return Err(Error::argument("offsets", was, allowed));
    }
    Ok(Size { sequences: offsets.len() - 1, rows: longest.min(tensors.rows), ..tensors })
}

fn expect(name: &'static str, shape: &[usize], want: &[usize], because: &str) -> Result<()> {
    if shape == want {
        return Ok(());
    }
    Err(Error::argument(name, of_shape(shape), format!("of shape {want:?}: {because}")))
}
