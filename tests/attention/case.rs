//! One attention: run, and compared with its reference, element by element and around them.

use std::fmt::Display;
use std::ops::Range;

use tilewright::ops::{Attention, HalfElement};
use tilewright::{Device, Result, Stream, Tensor, TensorViewMut, f16};
use tilewright_support::Real;
use tilewright_support::attention::{Head, Row, Scores};
use tilewright_support::random::normal;
use tilewright_support::reference::sample;
use tilewright_support::suite::{Outcome, picked};
use tilewright_support::watched;

use crate::cache::Cache;
use crate::operand::{Operand, Place};
use crate::selected::Selection;
use crate::sparse::Lists;
use crate::terms::Terms;

/// The tensors of an attention.
struct Inputs<T> {
    operands: [Operand<T>; 3],
    lengths: Option<Tensor<i32>>,
    table: Option<Tensor<i32>>,
    sinks: Option<Tensor<f32>>,
    slopes: Option<Tensor<f32>>,
    bias: Option<Tensor<T>>,
    lists: Option<[Tensor<i32>; 2]>,
    selection: Option<Tensor<i32>>,
}

/// Element types.
pub trait Input: Real + HalfElement {}
impl<T: Real + HalfElement> Input for T {}

/// Rows of each head that are compared; the others are checked to be written.
const ROWS: usize = 48;

/// The sizes of an attention.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub queries: usize,
    pub keys: usize,
    /// Columns of Q and K, and of V and O.
    pub columns: [usize; 2],
}

impl Sizes {
    /// Two heads that share keys and values.
    pub fn new(queries: usize, keys: usize, columns: [usize; 2]) -> Self {
        Sizes { batch: 1, heads: 2, kv_heads: 1, queries, keys, columns }
    }

    /// The shapes of Q, K, V and O.
    pub fn shapes(&self) -> [[usize; 4]; 4] {
        let Sizes { batch, heads, kv_heads, queries, keys, columns: [d, dv] } = *self;
        [
            [batch, heads, queries, d],
            [batch, kv_heads, keys, d],
            [batch, kv_heads, keys, dv],
            [batch, heads, queries, dv],
        ]
    }

    pub fn scores(&self) -> Scores {
        Scores::new(self.columns[0])
    }
}

/// An attention with its inputs, and where they lie.
pub struct Case<T> {
    pub sizes: Sizes,
    pub scores: Scores,
    /// Q, K, V and O.
    pub places: [Place; 4],
    /// The elements of Q, K and V.
    pub inputs: [Vec<T>; 3],
    pub cache: Cache,
    pub splits: Option<usize>,
    pub terms: Terms,
    pub lists: Option<Lists>,
    pub selection: Option<Selection>,
    /// A bias lies transposed.
    pub transposed: bool,
    /// Queries beside which another one of their tile sees a value that is NaN: their elements of its column may be NaN too.
    pub beside_nan: Range<usize>,
}

impl<T: Input> Case<T> {
    /// Normal inputs, packed.
    pub fn new(sizes: Sizes) -> Self {
        let places = sizes.shapes().map(Place::bhsd);
        let inputs = [1, 2, 3].map(|seed| normal(seed, places[seed as usize - 1].count()));
        Case {
            sizes,
            scores: sizes.scores(),
            places,
            inputs,
            cache: Cache::default(),
            splits: None,
            terms: Terms::default(),
            lists: None,
            selection: None,
            transposed: false,
            beside_nan: 0..0,
        }
    }

    /// With keys of so many lengths, in pages.
    pub fn cache(self, lengths: Option<Vec<usize>>, page: Option<usize>) -> Self {
        Case { cache: Cache { lengths, page }, ..self }
    }

    /// With keys in so many parts.
    pub fn splits(self, splits: usize) -> Self {
        Case { splits: Some(splits), ..self }
    }

    /// With numbers of heads.
    pub fn terms(self, terms: Terms) -> Self {
        Case { terms, ..self }
    }

    /// With other scores.
    pub fn scores(self, scores: Scores) -> Self {
        Case { scores, ..self }
    }

    /// Runs it on the kernel that is chosen for it.
    pub fn check(&self, device: &Device) -> Outcome {
        self.run(device, None)
    }

    /// The kernels that can compute it.
    pub fn names(&self, device: &Device) -> Result<Vec<&'static str>> {
        let inputs = self.inputs(device)?;
        let [q, k, v] = &inputs.operands;
        let mut o = Operand::<T>::poisoned(device, self.places[3])?;
        let all = self.attention(&inputs).candidates(&q.view()?, &k.view()?, &v.view()?, &o.view_mut()?)?;
        let names = all.iter().filter(|kernel| kernel.rejection().is_none()).map(|kernel| kernel.name());
        Ok(names.collect())
    }

    /// Runs it on the kernels that can compute it and are to run: on the emulator on a sixth of them.
    pub fn check_all(&self, device: &Device) -> Outcome {
        let of =
            format!("{:?} {:?} {:?} {:?} {:?}", T::DTYPE, self.places, self.scores, self.splits, self.terms);
        let names = self.names(device)?;
        let mut names =
            names.into_iter().filter(|name| watched::runs(name) && picked(device, (name, &of), 8));
        names.try_for_each(|name| self.run(device, Some(name)))
    }

    fn inputs(&self, device: &Device) -> Result<Inputs<T>> {
        let of = |i: usize| match i {
            0 => Operand::new(device, self.places[0], &self.inputs[0]),
            _ => self.cache.operand(device, self.places[i], &self.inputs[i]),
        };
        let [lengths, table] = [self.cache.lengths(device)?, self.cache.table(device, self.places[1].shape)?];
        let [sinks, slopes] = self.terms.tensors(device, self.sizes)?;
        let bias = self.terms.bias(device, self.sizes, self.transposed)?;
        let lists = self.lists.as_ref().map(|lists| lists.tensors(device)).transpose()?;
        let selection = self.selection.as_ref().map(|of| of.tensor(device)).transpose()?;
        let operands = [of(0)?, of(1)?, of(2)?];
        Ok(Inputs { operands, lengths, table, sinks, slopes, bias, lists, selection })
    }

    fn attention<'a>(&self, inputs: &'a Inputs<T>) -> Attention<'a> {
        let Scores { scale, softcap, causal, window, .. } = self.scores;
        let attention = Attention::new().scale(scale);
        let attention = if causal { attention.causal() } else { attention };
        let attention = softcap.into_iter().fold(attention, Attention::softcap);
        let attention = self.splits.into_iter().fold(attention, Attention::splits);
        let attention = match &inputs.lengths {
            Some(lengths) => attention.lengths(lengths.view()),
            None => attention,
        };
        let attention = match &inputs.table {
            Some(table) => attention.block_table(table.view()),
            None => attention,
        };
        let attention =
            window.into_iter().fold(attention, |attention, [left, right]| attention.window(left, right));
        let attention =
            inputs.sinks.iter().fold(attention, |attention, sinks| attention.sinks(&sinks.view()));
        let attention =
            inputs.slopes.iter().fold(attention, |attention, slopes| attention.alibi_slopes(&slopes.view()));
        let attention =
            inputs.lists.iter().zip(&self.lists).fold(attention, |attention, ([lists, counts], of)| {
                attention.block_lists(lists.view(), counts.view(), of.blocks)
            });
        let attention = inputs
            .selection
            .iter()
            .zip(&self.selection)
            .fold(attention, |attention, (lists, of)| attention.selected_blocks(lists.view(), of.block));
        let Some(bias) = &inputs.bias else { return attention };
        attention.bias(if self.transposed { bias.view().transpose(2, 3).unwrap() } else { bias.view() })
    }

    /// Runs it on the kernel of this name, with and without a log-sum-exp.
    pub fn run(&self, device: &Device, kernel: Option<&str>) -> Outcome {
        let inputs = self.inputs(device)?;
        let [q, k, v] = &inputs.operands;
        let (q, k, v) = (q.view()?, k.view()?, v.view()?);
        let Sizes { batch, heads, queries, .. } = self.sizes;
        let stream = Stream::new(device)?;
        let attention = || kernel.into_iter().fold(self.attention(&inputs), Attention::kernel);
        for with_lse in [true, false] {
            let mut o = Operand::<T>::poisoned(device, self.places[3])?;
            let mut lse = Operand::<f32>::poisoned(device, Place::bhsd([batch, heads, queries, 1]))?;
            let name = attention().plan(&q, &k, &v, &o.view_mut()?)?.kernel().name();
            let wrong = |what: &dyn Display| {
                let Case { sizes, scores, places, cache, splits, terms, lists, selection, .. } = self;
                format!(
                    "{name}: {what}\n{sizes:?}\n{scores:?}\n{places:?}\n{cache:?}, {splits:?} splits, {terms:?}, {lists:?}, {selection:?}"
                )
            };
            let mut rows: TensorViewMut<'_, f32> = lse.view_mut()?.select(3, 0)?;
            let mut attention = if with_lse { attention().lse(&mut rows) } else { attention() };
            attention.run(&stream, &q, &k, &v, &mut o.view_mut()?).map_err(|error| wrong(&error))?;
            let (out, outside) = o.read().map_err(|error| wrong(&error))?;
            let (lse, outside_lse) = lse.read()?;
            if outside + outside_lse > 0 {
                return Err(wrong(&format!("{outside} elements outside of O were written")).into());
            }
            self.compare(&T::widen(&out), with_lse.then_some(&lse)).map_err(|error| wrong(&error))?;
        }
        Ok(())
    }

    /// The reference's rows of a head.
    fn reference(&self, batch: usize, head: usize, rows: &[usize]) -> Vec<Row> {
        let Sizes { heads, kv_heads, queries, keys, columns: [d, dv], .. } = self.sizes;
        let kv = batch * kv_heads + head / (heads / kv_heads);
        let [q, k, v] = &self.inputs;
        let length = self.cache.length(batch, keys);
        let scores = self.terms.scores(self.scores, (batch, head), heads);
        if let Some(lists) = &self.lists {
            return rows.iter().map(|&i| self.listed_row(lists, (batch, head), i, scores)).collect();
        }
        if let Some(selection) = &self.selection {
            return rows.iter().map(|&i| self.selected_row(selection, (batch, head), i, scores)).collect();
        }
        let head = [
            &q[(batch * heads + head) * queries * d..][..queries * d],
            &k[kv * keys * d..][..length * d],
            &v[kv * keys * dv..][..length * dv],
        ];
        Head::new(head, queries, length, [d, dv]).rows(rows, &scores)
    }

    pub fn compare(&self, out: &[f32], lse: Option<&Vec<f32>>) -> std::result::Result<(), String> {
        let Sizes { batch, heads, queries, columns: [d, dv], .. } = self.sizes;
        let (rows, cap) = (sample(queries, ROWS), self.scores.softcap.map_or(0.0, f64::from));
        for b in 0..batch {
            for h in 0..heads {
                for (row, &i) in self.reference(b, h, &rows).iter().zip(&rows) {
                    let at = (b * heads + h) * queries + i;
                    let lse = lse.map(|lse| lse[at]);
                    let mut out = out[at * dv..][..dv].to_vec();
                    if self.beside_nan.contains(&i) {
                        allow_nan(&mut out, row, &T::widen(&self.inputs[2]));
                    }
                    row.agrees::<T>(d, cap, &out, lse)
                        .map_err(|what| format!("batch {b}, head {h}, query {i}: {what}"))?;
                }
            }
        }
        let finite = self.inputs.iter().all(|input| T::widen(input).iter().all(|x| x.is_finite()));
        if finite && let Some(at) = out.iter().position(|x| x.is_nan()) {
            return Err(format!("O's element {at} is NaN or was not written"));
        }
        Ok(())
    }
}

/// NaN becomes what it should be, in columns in which one of the values `v` is NaN.
pub fn allow_nan(out: &mut [f32], row: &Row, v: &[f32]) {
    let columns = out.len();
    for (c, (x, &exact)) in out.iter_mut().zip(&row.o).enumerate() {
        if x.is_nan() && v.iter().skip(c).step_by(columns).any(|v| v.is_nan()) {
            *x = exact as f32;
        }
    }
}

/// What f32 gives is accepted; a row that lacks one key, or is of another query, is not.
pub fn finds_what_is_wrong() -> Outcome {
    let sizes = Sizes::new(70, 130, [64, 64]);
    let case = Case::<f16>::new(sizes);
    let rows: Vec<_> = (0..70).collect();
    let exact = case.reference(0, 0, &rows).into_iter().chain(case.reference(0, 1, &rows));
    let (mut out, mut lse) = (Vec::new(), Vec::new());
    for row in exact {
        out.extend(row.o.iter().map(|&x| f16::from_f64(x).to_f32()));
        lse.push(row.lse as f32);
    }
    case.compare(&out, Some(&lse))?;
    let shorter = Scores { window: Some([usize::MAX, 58]), ..case.scores };
    let lacks_last = &Case::<f16>::new(sizes).scores(shorter).reference(0, 0, &[10])[0];
    for (at, x) in [(0, f32::NAN), (10 * 64, lacks_last.o[0] as f32), (10 * 64 + 7, out[11 * 64 + 7])] {
        let mut out = out.clone();
        out[at] = x;
        case.compare(&out, None).expect_err("an element that is wrong");
    }
    let mut lse = lse.clone();
    lse[10] = lacks_last.lse as f32;
    case.compare(&out, Some(&lse)).expect_err("a log-sum-exp that is wrong");
    Ok(())
}
