//! What the gradients of an attention are asked of, checked.

use std::f32::consts::LOG2_E;

use tilewright_attention::HeadTerms;
use tilewright_attention::gradient::{ALIGNED, LINE, Ranges, Scales};

use super::choose::{Compiled, kernels};
use crate::ops::attention::cache::{Cached, int};
use crate::ops::attention::packed::Offsets;
use crate::ops::attention::problem::{MAX_COLUMNS, Options, Size, seen};
use crate::ops::attention::terms::Terms;
use crate::ops::frame::{Operand, of_shape};
use crate::ops::scores::{scale, softcap};
use crate::tensor::{Places, Untyped};
use crate::{Device, Element, Error, Result, TensorView, TensorViewMut};

/// The most CTAs of a dimension of a grid but the first.
pub(super) const MOST: usize = 65535;
/// Bytes that L2 holds beside what else goes through it.
const IN_L2: usize = 32 << 20;
/// The most tiles of a head that begin together where they add in turn.
const BEGIN_TOGETHER: usize = 4;
/// Heads at work together, times an SM's steps, are at least so many times the SMs: a tile is some 1.3 steps behind the one before it of its head, and the last of those that
/// begin together then waits for a twentieth of an SM's steps.
const WAIT: usize = 26;

/// What is added to scores, and where the gradients by it go.
#[derive(Debug)]
pub(super) struct Added {
    pub(super) terms: Terms,
    pub(super) d_bias: Option<Untyped>,
    pub(super) d_sinks: Option<Untyped>,
}

/// The tensors of a gradient, each of four dimensions.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    pub(super) device: Device,
    /// Q, K, V and dO, and as kernels read them.
    pub(super) inputs: [Untyped; 4],
    pub(super) operands: [Operand; 4],
    pub(super) o: Untyped,
    /// With one column.
    pub(super) lse: Untyped,
    /// dQ, dK and dV.
    pub(super) outputs: [Untyped; 3],
    /// Of sequences: `queries` and `keys` of the longest.
    pub(super) size: Size,
    /// Matrices of the tensors, and lines of each one's statistics.
    pub(super) matrices: usize,
    pub(super) lines: usize,
    pub(super) ranges: Ranges,
    pub(super) scales: Scales,
    /// Slopes and sinks.
    pub(super) terms: HeadTerms,
    /// What is added to scores, stretched to all of them.
    pub(super) bias: Option<Untyped>,
    pub(super) d_bias: Option<Untyped>,
    /// Of two dimensions.
    pub(super) d_sinks: Option<Untyped>,
    /// A mask gives tiles of a head unequal numbers of blocks.
    pub(super) uneven: bool,
    pub(super) deterministic: bool,
    /// The parts of tiles' walks that were asked for.
    pub(super) splits: Option<usize>,
    pub(super) kernels: &'static [Compiled],
}

impl Problem {
    /// Checks that the views fit together.
    pub(super) fn new<T: Element>(
        (options, longest_keys, deterministic, splits): (&Options, Option<usize>, bool, Option<usize>),
        [q, k, v, o, d_o]: [&TensorView<'_, T>; 5],
        lse: &TensorView<'_, f32>,
        outputs: [&TensorViewMut<'_, T>; 3],
        (packed, added): (Option<Offsets>, Added),
    ) -> Result<Self> {
        let [d_q, d_k, d_v] = outputs;
        let device = d_q.device();
        let size =
            Size::new([q.shape(), k.shape(), v.shape(), o.shape()], &Cached::default(), None, MAX_COLUMNS)?;
        let expect = |name, shape: &[usize], want: &[usize], because: &str| {
            let wrong = || Error::argument(name, of_shape(shape), format!("of shape {want:?}: {because}"));
            if shape == want { Ok(()) } else { Err(wrong()) }
        };
        expect("d_o", d_o.shape(), o.shape(), "that of `o`")?;
        expect("d_q", d_q.shape(), q.shape(), "that of `q`")?;
        expect("d_k", d_k.shape(), k.shape(), "that of `k`")?;
        expect("d_v", d_v.shape(), v.shape(), "that of `v`")?;
        let Size { batch: matrices, heads, kv_heads, queries: rows, keys, columns: [d, _], .. } = size;
        expect("lse", lse.shape(), &[matrices, heads, rows], "batch, heads and queries")?;
        let factor = scale(options.scale, d)?;
        let scales = match options.softcap {
            None => Scales { cap: 0.0, log2: factor * LOG2_E, factor },
            Some(cap) => {
                let cap = softcap(cap)?;
                Scales { cap: factor / cap, log2: cap * LOG2_E, factor }
            }
        };
        let shared_by = (heads / kv_heads.max(1)) as u32;
        let (size, lines, ranges) = match &packed {
            None => {
                let seen = seen(rows, keys, options)?;
                let longest = int("q", rows)? as u32;
                (
                    size,
                    rows.div_ceil(ALIGNED as usize) * (ALIGNED / LINE) as usize,
                    Ranges::equal(seen, longest, shared_by),
                )
            }
            Some(packed) => {
                let told = packed.argument(&size, options, &Cached::default())?;
                let of_sequences = packed.size(size)?;
                let longest = of_sequences.queries as u32;
                let lines = Ranges::lines(of_sequences.batch, rows);
                let most = longest_keys.unwrap_or(keys).min(keys);
                (Size { keys: most, ..of_sequences }, lines, Ranges::packed(told, longest, shared_by))
            }
        };
        if packed.is_none() && longest_keys.is_some() {
            let allowed = "left out: it is of packed sequences";
            return Err(Error::argument("longest_keys", "given", allowed));
        }
        for (name, count, what) in [("q", heads, "heads"), ("q", size.batch, "sequences")] {
            if count > MOST {
                return Err(Error::argument(
                    name,
                    format!("of {count} {what}"),
                    format!("of at most {MOST}"),
                ));
            }
        }
        if let (Some(bias), Some(_)) = (&added.terms.bias, &packed) {
            let was = format!("{} beside packed sequences", of_shape(bias.layout.shape()));
            return Err(Error::argument("bias", was, "left out: packed sequences have none"));
        }
        let inputs = [q.untyped(), k.untyped(), v.untyped(), d_o.untyped()];
        let names = ["Q", "K", "V", "dO"];
        let operand = |i: usize| {
            let reading = inputs[i].reading(device.backend(), true)?;
            let line = inputs[i].layout.shape()[3];
            Ok::<_, Error>(Operand { name: names[i], reading, row_major: true, line })
        };
        Self::expect_splits(splits)?;
        Ok(Problem {
            device: device.clone(),
            inputs,
            operands: [operand(0)?, operand(1)?, operand(2)?, operand(3)?],
            o: o.untyped(),
            lse: Untyped { layout: lse.untyped().layout.insert(3)?, ..lse.untyped() },
            outputs: outputs.map(|output| output.untyped()),
            size,
            matrices,
            lines,
            ranges,
            scales,
            terms: added.terms.argument(&size, scales.log2)?,
            bias: added.terms.bias(&size, T::DTYPE)?,
            d_bias: added.d_bias(&size)?,
            d_sinks: added.d_sinks(size.heads)?,
            uneven: options.causal || options.window.is_some(),
            deterministic,
            splits,
            kernels: kernels(T::DTYPE.name()),
        })
    }

    /// Those of a run, of a plan's.
    pub(super) fn placed(&self, places: &Places) -> Self {
        let mut placed = self.clone();
        let others = [&mut placed.o, &mut placed.lse];
        for tensor in placed.inputs.iter_mut().chain(&mut placed.outputs).chain(others) {
            *tensor = places.of(tensor);
        }
        for tensor in [&mut placed.bias, &mut placed.d_bias, &mut placed.d_sinks].into_iter().flatten() {
            *tensor = places.of(tensor);
        }
        let terms = &mut placed.terms;
        [terms.sinks, terms.slopes] = [terms.sinks, terms.slopes].map(|at| places.at(at));
        let packed = &mut placed.ranges.packed;
        packed.query_offsets = places.at(packed.query_offsets);
        packed.keys = places.at(packed.keys);
        placed
    }

    /// Heads, or parts of such, whose tiles are taken together, those with the most blocks first: under a mask that gives tiles unequal numbers the last CTAs then have few. As many as
    /// L2 holds what their tiles walk over. Of tiles that add in turn those of any sequences, and so many that few tiles of a head begin together, each of which waits
    /// for the one before it.
    pub(super) fn together(&self, kernel: &Compiled) -> usize {
        let Size { batch, heads, kv_heads, queries, keys, columns: [d, dv], .. } = self.size;
        let (shared_by, parts) = (heads / kv_heads.max(1), self.parts(kernel) as usize);
        let (own, walked) = if kernel.of_keys {
            (kv_heads * parts, queries * shared_by / parts)
        } else {
            (heads, keys / shared_by.max(1))
        };
        let bytes = walked.saturating_mul(2 * (d + dv)).max(1);
        if self.in_turn(kernel) {
            let [m, n] = kernel.tile.map(|size| size as usize);
            let blocks = walked.div_ceil(n).saturating_mul(keys.div_ceil(m)).saturating_mul(own * batch);
            return self.together_in_turn(kernel, bytes, blocks).min(own * batch);
        }
        let most = if self.uneven { IN_L2 / bytes } else { 1 };
        (1..=own.min(most)).rev().find(|some| own.is_multiple_of(*some)).unwrap_or(1)
    }

    /// The same of tiles that add in turn and walk over so many blocks in all, of heads that walk over so many bytes: so few tiles of a head begin together that they do not wait long.
    ///
    /// Where the blocks of all tiles at work are more than L2 holds from one tile of a head to the next, heads are fewer, of which it holds all, dQ too.
    fn together_in_turn(&self, kernel: &Compiled, bytes: usize, blocks: usize) -> usize {
        let sms = self.device.sm_count() as usize;
        if !kernel.divides_columns {
            return (IN_L2 / bytes).max(sms.div_ceil(BEGIN_TOGETHER));
        }
        let steps = blocks / sms.max(1);
        let few = (WAIT * sms).div_ceil(steps.max(1));
        (IN_L2 / bytes.saturating_mul(2)).max(if self.uneven { 4 * few } else { few })
    }

    /// Whether tiles add dQ up one behind the other.
    pub(super) fn in_turn(&self, kernel: &Compiled) -> bool {
        self.deterministic && kernel.adds && self.size.queries > 0
    }

    /// Scores have slopes or a bias added.
    pub(super) fn adds(&self) -> bool {
        self.bias.is_some() || self.terms.slopes != 0
    }

    /// Without a head of any sequence.
    pub(super) fn is_empty(&self) -> bool {
        self.size.batch == 0 || self.size.heads == 0
    }

    /// Gradients by what sequences share are zeros without any.
    pub(super) fn stores_nothing(&self) -> bool {
        self.is_empty() && self.d_bias.is_none() && self.d_sinks.is_none()
    }
}

impl Added {
    /// The gradient by the bias, of four dimensions.
    fn d_bias(&self, size: &Size) -> Result<Option<Untyped>> {
        let Some(d_bias) = self.d_bias else { return Ok(None) };
        let wrong = |allowed: String| Error::argument("d_bias", of_shape(d_bias.layout.shape()), allowed);
        let Some(bias) = &self.terms.bias else {
            return Err(wrong("left out: there is no bias".to_owned()));
        };
        if (d_bias.dtype, d_bias.layout.shape()) != (bias.dtype, bias.layout.shape()) {
            let was = format!("{} {}", d_bias.dtype, of_shape(d_bias.layout.shape()));
            let allowed = format!("{} {}, as the bias is", bias.dtype, of_shape(bias.layout.shape()));
            return Err(Error::argument("d_bias", was, allowed));
        }
        let mut layout = d_bias.layout;
        while layout.shape().len() < 4 {
            layout = layout.insert(0)?;
        }
        let scores = [size.queries, size.keys];
        if layout.shape()[2..] != scores {
            return Err(wrong(format!(
                "left out, or of {scores:?} queries and keys: these share no element"
            )));
        }
        Ok(Some(Untyped { layout, ..d_bias }))
    }

    /// The gradient by the sinks, a row of heads.
    fn d_sinks(&self, heads: usize) -> Result<Option<Untyped>> {
        let Some(d_sinks) = self.d_sinks else { return Ok(None) };
        let was = of_shape(d_sinks.layout.shape());
        if self.terms.sinks.is_none() {
            return Err(Error::argument("d_sinks", was, "left out: there are no sinks"));
        }
        if d_sinks.layout.shape() != [heads] {
            return Err(Error::argument("d_sinks", was, format!("of shape [{heads}]: that of `sinks`")));
        }
        Ok(Some(Untyped { layout: d_sinks.layout.insert(0)?, ..d_sinks }))
    }
}
