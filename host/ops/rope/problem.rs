//! What a rotary embedding is asked to compute, checked.

use tilewright_device::tile::division::Division;
use tilewright_pointwise::{Operator, RopeCaches, RopeShape, RopeTable};

use super::{Pairs, Rope};
use crate::ops::frame::{Named, check, of_shape};
use crate::ops::pointwise::{Call, Lies, Operand};
use crate::ops::{FloatElement, Indices};
use crate::{DType, Device, Element, Error, Result, TensorView, TensorViewMut};

/// Of which shape q and k are.
const SHAPES: &str = "[tokens, heads, columns] or [batch, sequence, heads, columns]";

/// The tensors of a call.
pub(super) struct Problem {
    pub(super) device: Device,
    /// q, k and what they become; k is q where there is none.
    pub(super) tensors: [Operand; 4],
    heads: [usize; 2],
    /// Whether there are columns to copy, if not all are rotated.
    apart: bool,
    /// Pairs that are rotated.
    pub(super) pairs: usize,
    pub(super) positions: Option<Operand>,
    table: Option<[Operand; 2]>,
    pub(super) appended: Option<Appended>,
}

/// Values, and where they and the rotated keys go.
pub(super) struct Appended {
    pub(super) v: Operand,
    caches: [Operand; 2],
    slots: Operand,
    /// Pages, and rows of a page.
    pages: [usize; 2],
    /// As kernels are told what the caches hold.
    codes: u32,
    /// Of keys and of values, if there are some.
    scales: Option<[Operand; 2]>,
}

impl Appended {
    pub(super) fn caches(&self) -> RopeCaches {
        let [keys, values] = self.caches.map(|cache| cache.strided());
        // Sizes are below 2^31.
        let [pages, rows] = self.pages.map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let slots = self.slots.strided();
        let (mut scales, mut steps) = ([0; 2], [0; 2]);
        for (i, Operand { tensor, .. }) in self.scales.iter().flatten().enumerate() {
            scales[i] = tensor.address;
            // Strides were checked.
            let stride = if tensor.layout.shape() == [1] { 0 } else { tensor.layout.strides()[0] };
            steps[i] = u32::try_from(stride * 4).unwrap_or(u32::MAX);
        }
        let (by_page, rows) = (Division::by(rows), pages.saturating_mul(rows));
        RopeCaches { keys, values, slots, by_page, rows, codes: self.codes, scales, steps }
    }
}

impl Problem {
    /// Checks tensors that are read, and others that are written.
    pub(super) fn apart<T: FloatElement, const N: usize>(
        rope: &Rope<'_>,
        read: [(&'static str, &TensorView<'_, T>); N],
        written: [(&'static str, &TensorViewMut<'_, T>); N],
    ) -> Result<Self> {
        for ((name, from), (other, to)) in read.iter().zip(&written) {
            if to.shape() != from.shape() {
                let allowed = format!("{}, the shape of `{name}`", of_shape(from.shape()));
                return Err(Error::argument(*other, of_shape(to.shape()), allowed));
            }
        }
        let named = read.iter().map(|&(name, view)| Named::read(name, view));
        let named: Vec<_> =
            named.chain(written.iter().map(|&(name, view)| Named::written(name, view))).collect();
        let from = read.map(|(name, view)| Operand { name, tensor: view.untyped() });
        let to = written.map(|(name, view)| Operand { name, tensor: view.untyped() });
        Self::new(rope, written[0].1.device(), named, [from, to], true)
    }

    /// Checks tensors that are read and written.
    pub(super) fn in_place<T: FloatElement, const N: usize>(
        rope: &Rope<'_>,
        tensors: [(&'static str, &TensorViewMut<'_, T>); N],
    ) -> Result<Self> {
        let named = tensors.iter().map(|&(name, view)| Named::written(name, view)).collect();
        let operands = tensors.map(|(name, view)| Operand { name, tensor: view.untyped() });
        Self::new(rope, tensors[0].1.device(), named, [operands; 2], false)
    }

    /// Checks queries, keys and values of the same tokens, what the queries become, and the caches that the others go to.
    pub(super) fn appending<T: FloatElement, C: Element>(
        rope: &Rope<'_>,
        [q, k, v]: [&TensorView<'_, T>; 3],
        q_to: &TensorViewMut<'_, T>,
        [k_cache, v_cache]: [&TensorViewMut<'_, C>; 2],
        slots: &Indices<'_>,
    ) -> Result<Self> {
        let differ = |name, was: &[usize], of: &str, wanted: &[usize]| {
            Err(Error::argument(name, of_shape(was), format!("{}, {of}", of_shape(wanted))))
        };
        if q_to.shape() != q.shape() {
            return differ("q_to", q_to.shape(), "the shape of `q`", q.shape());
        }
        if v.shape() != k.shape() {
            return differ("v", v.shape(), "the shape of `k`", k.shape());
        }
        let named = [Named::read("q", q), Named::read("k", k), Named::read("v", v), slots.named("slots")];
        let caches = [("k_cache", k_cache), ("v_cache", v_cache)];
        let written = caches.map(|(name, cache)| Named::written(name, cache));
        let scales = rope.scales.map(|[k, v]| [("k_scale", k), ("v_scale", v)]);
        let read = scales.iter().flatten().map(|&(name, scale)| Named::read(name, scale));
        let named =
            named.into_iter().chain([Named::written("q_to", q_to)]).chain(written).chain(read).collect();
        let operand = |name, view: &TensorView<'_, T>| Operand { name, tensor: view.untyped() };
        let (from, to) =
            ([operand("q", q), operand("k", k)], Operand { name: "q_to", tensor: q_to.untyped() });
        let problem = Self::new(rope, q_to.device(), named, [from, [to, from[1]]], true)?;
        let Some((tokens, heads)) = k.shape().split_last_chunk::<2>() else { return Ok(problem) };
        for (name, cache) in caches {
            let allowed = format!("of shape [pages, rows of a page, {}, {}]", heads[0], heads[1]);
            if cache.rank() != 4 || cache.shape()[2..] != *heads || cache.shape() != k_cache.shape() {
                return Err(Error::argument(name, of_shape(cache.shape()), allowed));
            }
        }
        if slots.shape() != tokens {
            return differ("slots", slots.shape(), "a row of the caches for each token", tokens);
        }
        for (name, scale) in scales.iter().flatten() {
            if C::DTYPE == T::DTYPE {
                let allowed = "left out: caches of the type of `k` have no scales";
                return Err(Error::argument(*name, "given", allowed));
            }
            if scale.shape() != [1] && scale.shape() != [heads[0]] {
                let allowed =
                    format!("of shape [1] or [{}]: for all KV heads, or for each of them", heads[0]);
                return Err(Error::argument(*name, of_shape(scale.shape()), allowed));
            }
            if scale.shape() != [1] && scale.strides()[0] >= 1 << 30 {
                let was = format!("of stride {}", scale.strides()[0]);
                return Err(Error::argument(*name, was, "of a stride below 2^30"));
            }
        }
        let codes = match C::DTYPE {
            DType::E4M3 => 1,
            DType::I8 => 2,
            _ => 0,
        };
        let scales =
            scales.map(|scales| scales.map(|(name, scale)| Operand { name, tensor: scale.untyped() }));
        let pages = [k_cache.shape()[0], k_cache.shape()[1]];
        if pages[0].checked_mul(pages[1]).is_none_or(|rows| rows >= 1 << 31) {
            return Err(Error::argument("k_cache", of_shape(k_cache.shape()), "of fewer than 2^31 rows"));
        }
        let caches = caches.map(|(name, cache)| Operand { name, tensor: cache.untyped() });
        let slots = Operand { name: "slots", tensor: slots.words()? };
        Ok(Problem {
            appended: Some(Appended { v: operand("v", v), caches, slots, pages, codes, scales }),
            ..problem
        })
    }

    fn new<'a, const N: usize>(
        rope: &'a Rope<'_>,
        device: &Device,
        mut named: Vec<Named<'a>>,
        [from, to]: [[Operand; N]; 2],
        apart: bool,
    ) -> Result<Self> {
        let shape = |operand: &Operand| operand.tensor.layout.shape().to_vec();
        let first = shape(&from[0]);
        if !matches!(first.len(), 3 | 4) {
            return Err(Error::argument(from[0].name, of_shape(&first), SHAPES));
        }
        let (tokens, cols) = (&first[..first.len() - 2], first[first.len() - 1]);
        for operand in &from[1..] {
            let its = shape(operand);
            let fits = its.len() == first.len() && its.starts_with(tokens) && its.ends_with(&[cols]);
            if !fits {
                let allowed = format!("that of `{}`, {first:?}, but for the heads", from[0].name);
                return Err(Error::argument(operand.name, of_shape(&its), allowed));
            }
        }
        let rotated = rope.columns.unwrap_or(cols);
        if rotated > cols || !rotated.is_multiple_of(2) {
            return Err(Error::argument("columns", rotated.to_string(), format!("even, and at most {cols}")));
        }
        if !(rope.theta > 1.0 && rope.theta.is_finite()) {
            return Err(Error::argument("theta", rope.theta.to_string(), "above 1, and finite"));
        }
        if let Some(positions) = &rope.positions {
            if positions.shape() != tokens {
                let allowed = format!("{}: one for each token", of_shape(tokens));
                return Err(Error::argument("positions", of_shape(positions.shape()), allowed));
            }
            named.push(positions.named("positions"));
        }
        for (name, view) in rope.table.iter().flat_map(|[cos, sin]| [("cos", cos), ("sin", sin)]) {
            if view.rank() != 2 || view.shape()[1] != rotated / 2 {
                let allowed = format!("of shape [positions, {}]: one for each pair", rotated / 2);
                return Err(Error::argument(name, of_shape(view.shape()), allowed));
            }
            named.push(Named::read(name, view));
        }
        if let Some([cos, sin]) = rope.table.filter(|[cos, sin]| cos.shape() != sin.shape()) {
            let allowed = format!("{}, the shape of `cos`", of_shape(cos.shape()));
            return Err(Error::argument("sin", of_shape(sin.shape()), allowed));
        }
        check(device, named)?;
        let positions = rope
            .positions
            .as_ref()
            .map(|positions| Ok::<_, Error>(Operand { name: "positions", tensor: positions.words()? }));
        let positions = positions.transpose()?;
        let last = N - 1;
        let heads = |operand: &Operand| first_of_last_two(&shape(operand));
        Ok(Problem {
            device: device.clone(),
            heads: [heads(&from[0]), if N > 1 { heads(&from[last]) } else { 0 }],
            tensors: [from[0], from[last], to[0], to[last]],
            apart,
            pairs: rotated / 2,
            positions,
            table: rope.table.map(|[cos, sin]| {
                [("cos", cos), ("sin", sin)].map(|(name, view)| Operand { name, tensor: view.untyped() })
            }),
            appended: None,
        })
    }

    fn cols(&self) -> usize {
        self.tensors[0].tensor.layout.shape().last().copied().unwrap_or(0)
    }

    /// Batch and sequence.
    fn tokens(&self) -> [usize; 2] {
        match self.tensors[0].tensor.layout.shape() {
            [tokens, _, _] => [1, *tokens],
            shape => [shape[0], shape[1]],
        }
    }

    /// Columns that are read and written.
    fn touched(&self) -> usize {
        if self.apart { self.cols() } else { 2 * self.pairs }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tokens().contains(&0) || self.heads == [0, 0] || self.touched() == 0
    }

    /// How its tensors lie.
    pub(super) fn lies(&self) -> Vec<Lies> {
        let appended = self.appended.iter().flat_map(|appended| appended.caches.iter().chain([&appended.v]));
        self.tensors.iter().chain(self.table.iter().flatten()).chain(appended).map(Operand::lies).collect()
    }

    pub(super) fn call<'a>(&'a self, tensors: &'a [Lies]) -> Call<'a> {
        let dtype = self.tensors[0].tensor.dtype;
        let rest = if self.apart { self.cols() - 2 * self.pairs } else { 0 };
        let [batch, sequence] = self.tokens();
        let [queries, keys] = self.heads;
        let (operator, heads) = match self.appended {
            None => (Operator::Rope, queries + keys),
            Some(_) => (Operator::RopeAppend, queries + 2 * keys),
        };
        let rows = batch.saturating_mul(sequence).saturating_mul(heads);
        Call {
            device: &self.device,
            operator,
            element: dtype.name(),
            copies: false,
            width: dtype.bytes(),
            tensors,
            runs: vec![self.pairs, rest],
            elements: rows.saturating_mul(2 * self.touched()),
        }
    }

    /// The work of threads that take so many pairs at a time.
    pub(super) fn shape(&self, rope: &Rope<'_>, piece: u32) -> Result<RopeShape> {
        let count = |size: usize| u32::try_from(size).ok();
        let both = |[a, b]: [usize; 2]| Some([count(a)?, count(b)?]);
        let shape = || {
            let (tokens, heads) = (both(self.tokens())?, both(self.heads)?);
            let copies = (self.apart, self.appended.is_some());
            RopeShape::new(tokens, heads, both([self.cols(), self.pairs])?, piece, copies)
        };
        let mut shape = shape().ok_or_else(|| {
            let Operand { name, tensor } = self.tensors[0];
            let allowed = format!("of at most {} pieces of {piece} pairs of 4 heads", RopeShape::MOST);
            Error::argument(name, of_shape(tensor.layout.shape()), allowed)
        })?;
        shape.first = rope.offset;
        shape.interleaved = u32::from(rope.pairs == Pairs::Interleaved);
        shape.inverse = u32::from(rope.inverse);
        shape.given = u32::from(rope.positions.is_some());
        Ok(shape)
    }

    pub(super) fn table(&self) -> RopeTable {
        self.table.map_or(RopeTable::NONE, |[cos, sin]| RopeTable {
            cos: cos.strided(),
            sin: sin.strided(),
            // Positions are below 2^31.
            positions: u32::try_from(cos.tensor.layout.shape()[0]).unwrap_or(u32::MAX),
            given: 1,
        })
    }
}

/// Heads, of a shape that ends with heads and columns.
fn first_of_last_two(shape: &[usize]) -> usize {
    shape[shape.len() - 2]
}
