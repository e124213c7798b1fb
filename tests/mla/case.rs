//! One decoding step: run, and compared with its reference.

use std::fmt::Display;

use tilewright::ops::{HalfElement, LatentElement, Mla};
use tilewright::{Device, Stream, Tensor, bf16, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Row, Scores};
use tilewright_support::random::normal;
use tilewright_support::reference::sample;
use tilewright_support::suite::Outcome;

use crate::cache::{Cache, Kept, Layout};

/// Element types.
pub trait Input: Real + HalfElement {}
impl<T: Real + HalfElement> Input for T {}

/// Heads of each position that are compared; the others are checked to be written.
const HEADS: usize = 9;
/// Sequences that are compared.
const SEQUENCES: usize = 12;

/// A step's sizes and options.
#[derive(Clone, Debug)]
pub struct Case {
    pub heads: usize,
    pub positions: usize,
    /// Keys of each sequence.
    pub lengths: Vec<u32>,
    pub layout: Layout,
    /// Columns of keys and of values.
    pub columns: [usize; 2],
    pub causal: bool,
    pub splits: Option<usize>,
    /// What queries are multiplied by, which makes weights unequal.
    pub heat: f32,
    /// A column of the last key of each sequence that is NaN.
    pub nan: Option<usize>,
}

impl Case {
    /// One position, pages of 64 keys.
    pub fn new(heads: usize, lengths: &[u32]) -> Self {
        Case {
            heads,
            positions: 1,
            lengths: lengths.to_vec(),
            layout: Layout::Pages(64),
            columns: [576, 512],
            causal: false,
            splits: None,
            heat: 1.0,
            nan: None,
        }
    }

    /// With so many positions, of which each sees its own keys alone.
    pub fn causal(self, positions: usize) -> Self {
        Case { positions, causal: true, ..self }
    }

    /// With a cache that lies so.
    pub fn layout(self, layout: Layout) -> Self {
        Case { layout, ..self }
    }

    /// With every sequence in so many parts.
    pub fn splits(self, splits: usize) -> Self {
        Case { splits: Some(splits), ..self }
    }

    fn scores(&self) -> Scores {
        Scores::new(self.columns[0])
    }

    fn queries<T: Real>(&self) -> Vec<T> {
        let count = self.lengths.len() * self.positions * self.heads * self.columns[0];
        let values: Vec<f32> = normal(1, count);
        T::round(&values.into_iter().map(|x| x * self.heat).collect::<Vec<_>>())
    }

    /// Runs it on the kernel that is chosen for it.
    pub fn check<T: Input + Kept<T> + LatentElement<T>>(&self, device: &Device) -> Outcome {
        self.run::<T, T>(device, None)
    }

    /// Runs it with a cache of 8 bits, on every kernel that can compute it.
    pub fn check_codes(&self, device: &Device) -> Outcome {
        self.run_all::<bf16, u8>(device)
    }

    /// Runs it on every kernel that can compute it.
    pub fn check_all<T: Input + Kept<T> + LatentElement<T>>(&self, device: &Device) -> Outcome {
        self.run_all::<T, T>(device)
    }

    fn run_all<T: Input, C: Kept<T> + LatentElement<T>>(&self, device: &Device) -> Outcome {
        let [d, dv] = self.columns;
        let shape = |columns| [self.lengths.len(), self.positions, self.heads, columns];
        let (q, mut o) = (Tensor::<T>::zeros(device, &shape(d))?, Tensor::<T>::zeros(device, &shape(dv))?);
        let cache = Cache::<T, C>::new(device, self)?;
        let all = self.mla(&cache).candidates(&q.view(), &cache.tensor.view(), &o.view_mut())?;
        let names: Vec<_> =
            all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name()).collect();
        if names.is_empty() {
            return Err(format!("no kernel computes {self:?}").into());
        }
        names.into_iter().try_for_each(|name| self.run::<T, C>(device, Some(name)))
    }

    /// The operator with the case's options.
    pub fn mla<'a, T, C>(&self, cache: &'a Cache<T, C>) -> Mla<'a> {
        let mla = Mla::new().lengths(&self.lengths);
        let mla = if self.causal { mla.causal() } else { mla };
        let mla = match &cache.table {
            Some(table) => mla.block_table(table.view()),
            None if cache.pages.is_empty() => mla,
            None => mla.host_block_table(&cache.pages),
        };
        self.splits.into_iter().fold(mla, Mla::splits)
    }

    /// Runs it on the kernel of this name, with and without a log-sum-exp.
    pub fn run<T: Input, C: Kept<T> + LatentElement<T>>(
        &self,
        device: &Device,
        kernel: Option<&str>,
    ) -> Outcome {
        let [d, dv] = self.columns;
        let shape = [self.lengths.len(), self.positions, self.heads];
        let [batch, positions, heads] = shape;
        let queries = self.queries::<T>();
        let q = Tensor::from_slice(device, &queries, &[batch, positions, heads, d])?;
        let cache = Cache::<T, C>::new(device, self)?;
        let stream = Stream::new(device)?;
        let mla = || kernel.into_iter().fold(self.mla(&cache), Mla::kernel);
        for with_lse in [true, false] {
            let mut o = Tensor::filled(device, T::POISON, &[batch, positions, heads, dv])?;
            let mut lse = Tensor::filled(device, f32::NAN, &shape)?;
            let plan = mla().plan(&q.view(), &cache.tensor.view(), &o.view_mut())?;
            let wrong = |what: &dyn Display| format!("{plan}: {what}\n{self:?}");
            let mut rows = lse.view_mut();
            let mut mla = if with_lse { mla().lse(&mut rows) } else { mla() };
            mla.run(&stream, &q.view(), &cache.tensor.view(), &mut o.view_mut())
                .map_err(|error| wrong(&error))?;
            let out = T::widen(&o.to_vec_on(&stream).map_err(|error| wrong(&error))?);
            drop(mla);
            let lse = lse.to_vec_on(&stream)?;
            self.compare(&queries, &cache, &out, with_lse.then_some(&lse)).map_err(|error| wrong(&error))?;
        }
        Ok(())
    }

    /// The reference's rows of some heads of a sequence's position.
    fn reference<T: Real, C: Kept<T>>(
        &self,
        queries: &[T],
        cache: &Cache<T, C>,
        [sequence, position]: [usize; 2],
        heads: &[usize],
    ) -> Vec<Row> {
        let [d, dv] = self.columns;
        let length = self.lengths[sequence] as usize;
        let scores = Scores { causal: self.causal, ..self.scores() };
        let seen = scores.seen(position, self.positions, length).end;
        let k = &cache.keys(sequence)[..seen * d];
        let v: Vec<T> = k.chunks(d).flat_map(|key| &key[..dv]).copied().collect();
        let first = (sequence * self.positions + position) * self.heads * d;
        let q = &queries[first..][..self.heads * d];
        Head::new([q, k, &v], self.heads, seen, self.columns).rows(heads, &self.scores())
    }

    fn compare<T: Real, C: Kept<T>>(
        &self,
        queries: &[T],
        cache: &Cache<T, C>,
        out: &[f32],
        lse: Option<&Vec<f32>>,
    ) -> Result<(), String> {
        let [d, dv] = self.columns;
        let heads = sample(self.heads, HEADS);
        for sequence in sample(self.lengths.len(), SEQUENCES) {
            for position in 0..self.positions {
                let rows = self.reference(queries, cache, [sequence, position], &heads);
                for (row, &head) in rows.iter().zip(&heads) {
                    let at = (sequence * self.positions + position) * self.heads + head;
                    let mut out = out[at * dv..][..dv].to_vec();
                    // A value that is NaN reaches positions that do not see it, with a weight of 0.
                    if let Some(column) = self.nan.filter(|&column| column < dv && out[column].is_nan()) {
                        out[column] = row.o[column] as f32;
                    }
                    row.agrees::<T>(d, 0.0, &out, lse.map(|lse| lse[at])).map_err(|what| {
                        format!("sequence {sequence}, position {position}, head {head}: {what}")
                    })?;
                }
            }
        }
        match out.iter().position(|x| x.is_nan() && self.nan.is_none()) {
            Some(at) => Err(format!("O's element {at} is NaN or was not written")),
            None => Ok(()),
        }
    }
}

/// What f32 gives is accepted; a row that lacks one key, or is of another query, is not.
pub fn finds_what_is_wrong(device: &Device) -> Outcome {
    let case = Case::new(2, &[130]);
    let (queries, cache) = (case.queries::<f16>(), Cache::<f16>::new(device, &case)?);
    let (mut out, mut lse) = (Vec::new(), Vec::new());
    for row in case.reference(&queries, &cache, [0, 0], &[0, 1]) {
        out.extend(row.o.iter().map(|&x| f16::from_f64(x).to_f32()));
        lse.push(row.lse as f32);
    }
    case.compare(&queries, &cache, &out, Some(&lse))?;
    let shorter = Case { lengths: vec![129], ..case.clone() };
    let lacks_last = &shorter.reference(&queries, &cache, [0, 0], &[1])[0];
    for (at, x) in [(0, f32::NAN), (512, lacks_last.o[0] as f32), (512 + 7, out[7])] {
        let mut out = out.clone();
        out[at] = x;
        case.compare(&queries, &cache, &out, None).expect_err("an element that is wrong");
    }
    lse[1] = lacks_last.lse as f32;
    case.compare(&queries, &cache, &out, Some(&lse)).expect_err("a log-sum-exp that is wrong");
    Ok(())
}
