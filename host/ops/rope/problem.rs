//! What a rotary embedding is asked to compute, checked.

use tilewright_device::tile::division::Division;
use tilewright_pointwise::{Operator, RopeCaches, RopeShape, RopeTable};

use super::tensors::{
    COS, K, K_CACHE, K_SCALE, K_TO, POSITIONS, Q, Q_TO, SIN, SLOTS, Tensors, V, V_CACHE, V_SCALE,
};
use super::{Pairs, Rope};
use crate::ops::frame::{Named, Operands, of_shape};
use crate::ops::indices::words;
use crate::ops::pointwise::{Call, Lies, Operand};
use crate::{DType, Device, Error, Result};

/// Of which shape q and k are.
const SHAPES: &str = "[tokens, heads, columns] or [batch, sequence, heads, columns]";

/// The tensors of a call, at the places of a plan.
pub(super) struct Problem {
    pub(super) device: Device,
    pub(super) operands: Operands,
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
    scales: [Option<Operand>; 2],
}

impl Appended {
    /// Of tensors whose queries and keys fit together, if keys and values are appended.
    fn new(tensors: &Tensors<'_>) -> Result<Option<Self>> {
        let [Some(q), Some(k), Some(v)] = [Q, K, V].map(|i| tensors[i]) else { return Ok(None) };
        let [Some(k_cache), Some(v_cache), Some(slots)] = [K_CACHE, V_CACHE, SLOTS].map(|i| tensors[i])
        else {
            return Ok(None);
        };
        let Some((tokens, heads)) = k.shape().split_last_chunk::<2>() else { return Ok(None) };
        expect_shape(&v, k.shape(), "the shape of `k`")?;
        let shape = k_cache.shape();
        for cache in [&k_cache, &v_cache] {
            if cache.shape().len() != 4 || cache.shape()[2..] != *heads || cache.shape() != shape {
                let allowed = format!("of shape [pages, rows of a page, {}, {}]", heads[0], heads[1]);
                return Err(Error::argument(cache.name(), of_shape(cache.shape()), allowed));
            }
        }
        expect_shape(&slots, tokens, "a row of the caches for each token")?;
        let scales = [K_SCALE, V_SCALE].map(|i| tensors[i].map(|scale| (scale, operand(&scale, i))));
        for (scale, operand) in scales.iter().flatten() {
            expect_scale(scale, operand, k_cache.dtype() == q.dtype(), heads[0])?;
        }
        let codes = match k_cache.dtype() {
            DType::E4M3 => 1,
            DType::I8 => 2,
            _ => 0,
        };
        let pages = [shape[0], shape[1]];
        if pages[0].checked_mul(pages[1]).is_none_or(|rows| rows >= 1 << 31) {
            return Err(Error::argument("k_cache", of_shape(shape), "of fewer than 2^31 rows"));
        }
        Ok(Some(Appended {
            v: operand(&v, V),
            caches: [operand(&k_cache, K_CACHE), operand(&v_cache, V_CACHE)],
            slots: numbers(&slots, SLOTS)?,
            pages,
            codes,
            scales: scales.map(|scale| scale.map(|(_, operand)| operand)),
        }))
    }

    pub(super) fn caches(&self) -> RopeCaches {
        let [keys, values] = self.caches.map(|cache| cache.strided());
        // Sizes are below 2^31.
        let [pages, rows] = self.pages.map(|size| u32::try_from(size).unwrap_or(u32::MAX));
        let slots = self.slots.strided();
        let (mut scales, mut steps) = ([0; 2], [0; 2]);
        for (i, Operand { tensor, .. }) in
            self.scales.iter().enumerate().filter_map(|(i, s)| Some((i, s.as_ref()?)))
        {
            scales[i] = tensor.address;
            // Strides were checked.
            let stride = if tensor.layout.shape() == [1] { 0 } else { tensor.layout.strides()[0] };
            steps[i] = u32::try_from(stride * 4).unwrap_or(u32::MAX);
        }
        let (by_page, rows) = (Division::by(rows), pages.saturating_mul(rows));
        RopeCaches { keys, values, slots, by_page, rows, codes: self.codes, scales, steps }
    }
}

/// A tensor where a plan has it.
fn operand(tensor: &Named<'_>, number: usize) -> Operand {
    Operand { name: tensor.name(), tensor: tensor.planned(number) }
}

/// The same of indices.
fn numbers(tensor: &Named<'_>, number: usize) -> Result<Operand> {
    Ok(Operand { name: tensor.name(), tensor: words(tensor.planned(number))? })
}

fn expect_shape(tensor: &Named<'_>, wanted: &[usize], of: &str) -> Result<()> {
    if tensor.shape() == wanted {
        return Ok(());
    }
    let allowed = format!("{}, {of}", of_shape(wanted));
    Err(Error::argument(tensor.name(), of_shape(tensor.shape()), allowed))
}

/// Checks the scale of a cache, for so many KV heads, which holds no codes if it is `plain`.
fn expect_scale(scale: &Named<'_>, operand: &Operand, plain: bool, heads: usize) -> Result<()> {
    let name = scale.name();
    if plain {
        let allowed = "left out: caches of the type of `k` have no scales";
        return Err(Error::argument(name, "given", allowed));
    }
    if scale.shape() != [1] && scale.shape() != [heads] {
        let allowed = format!("of shape [1] or [{heads}]: for all KV heads, or for each of them");
        return Err(Error::argument(name, of_shape(scale.shape()), allowed));
    }
    let stride = operand.tensor.layout.strides()[0];
    if scale.shape() != [1] && stride >= 1 << 30 {
        return Err(Error::argument(name, format!("of stride {stride}"), "of a stride below 2^30"));
    }
    Ok(())
}

impl Problem {
    /// Checks that the tensors fit together.
    pub(super) fn new(rope: &Rope<'_>, device: &Device, tensors: &Tensors<'_>) -> Result<Self> {
        let Some(q) = tensors[Q] else { return Err(Error::argument("q", "not given", "given")) };
        let (k, apart) = (tensors[K], tensors[Q_TO].is_some());
        for (from, to) in [(Some(q), Q_TO), (k, K_TO)] {
            if let (Some(from), Some(to)) = (from, tensors[to]) {
                expect_shape(&to, from.shape(), &format!("the shape of `{}`", from.name()))?;
            }
        }
        let first = q.shape();
        if !matches!(first.len(), 3 | 4) {
            return Err(Error::argument(q.name(), of_shape(first), SHAPES));
        }
        let (tokens, cols) = (&first[..first.len() - 2], first[first.len() - 1]);
        if let Some(k) = &k {
            let its = k.shape();
            if its.len() != first.len() || !its.starts_with(tokens) || !its.ends_with(&[cols]) {
                let allowed = format!("that of `{}`, {first:?}, but for the heads", q.name());
                return Err(Error::argument(k.name(), of_shape(its), allowed));
            }
        }
        let appended = Appended::new(tensors)?;
        let rotated = rope.columns.unwrap_or(cols);
        if rotated > cols || !rotated.is_multiple_of(2) {
            return Err(Error::argument("columns", rotated.to_string(), format!("even, and at most {cols}")));
        }
        if !(rope.theta > 1.0 && rope.theta.is_finite()) {
            return Err(Error::argument("theta", rope.theta.to_string(), "above 1, and finite"));
        }
        if let Some(positions) = &tensors[POSITIONS] {
            expect_shape(positions, tokens, "one for each token")?;
        }
        for table in [COS, SIN].iter().filter_map(|&i| tensors[i]) {
            if table.shape().len() != 2 || table.shape()[1] != rotated / 2 {
                let allowed = format!("of shape [positions, {}]: one for each pair", rotated / 2);
                return Err(Error::argument(table.name(), of_shape(table.shape()), allowed));
            }
        }
        if let (Some(cos), Some(sin)) = (tensors[COS], tensors[SIN]) {
            expect_shape(&sin, cos.shape(), "the shape of `cos`")?;
        }
        let operands = Operands::checked(device, *tensors)?;
        let at = |i: usize| tensors[i].map(|tensor| operand(&tensor, i));
        let q = operand(&q, Q);
        let (to, keys) = (at(Q_TO).unwrap_or(q), at(K).unwrap_or(q));
        let keys_to = match (k, apart) {
            // Where keys are appended these are not used.
            (Some(_), true) => at(K_TO).unwrap_or(keys),
            (Some(_), false) => keys,
            (None, _) => to,
        };
        Ok(Problem {
            device: device.clone(),
            operands,
            heads: [first_of_last_two(first), k.map_or(0, |k| first_of_last_two(k.shape()))],
            tensors: [q, keys, to, keys_to],
            apart,
            pairs: rotated / 2,
            positions: tensors[POSITIONS].map(|positions| numbers(&positions, POSITIONS)).transpose()?,
            table: at(COS).zip(at(SIN)).map(|(cos, sin)| [cos, sin]),
            appended,
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
            columns: self.cols(),
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
        shape.given = u32::from(self.positions.is_some());
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
