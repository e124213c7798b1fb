//! Attention in f64, to compare with.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use rayon::prelude::*;

use crate::Real;

/// What an attention does to its scores.
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// Their factor.
    pub scale: f32,
    /// They become `cap` tanh(s / `cap`).
    pub softcap: Option<f32>,
    /// Keys behind a query's own are not seen.
    pub causal: bool,
    /// Keys that are seen before a query's own and behind it.
    pub window: Option<[usize; 2]>,
    /// One more score, without a value: a sink.
    pub sink: Option<f32>,
    /// What scores lose for each key between a query's own and theirs (ALiBi).
    pub slope: f32,
    /// What is added to them.
    pub bias: Option<Bias>,
}

/// What is added to the scores of a head: an eighth of them is -inf, the others are multiples of 1/8 from -4 to 4.
#[derive(Clone, Copy, Debug)]
pub struct Bias {
    /// The head's number among those that have another one.
    pub head: usize,
    /// Whether it differs from query to query, and from key to key.
    pub along: [bool; 2],
}

impl Bias {
    /// That of a query and a key.
    pub fn at(&self, query: usize, key: usize) -> f32 {
        let [along_queries, along_keys] = self.along;
        let mut hasher = DefaultHasher::new();
        (self.head, along_queries.then_some(query), along_keys.then_some(key)).hash(&mut hasher);
        let mixed = hasher.finish();
        if mixed.is_multiple_of(8) { f32::NEG_INFINITY } else { (mixed >> 3 & 63) as f32 / 8.0 - 4.0 }
    }
}

impl Scores {
    /// The usual scale for a head dimension, and no mask.
    pub fn new(head_dimension: usize) -> Self {
        Scores {
            scale: 1.0 / (head_dimension as f32).sqrt(),
            softcap: None,
            causal: false,
            window: None,
            sink: None,
            slope: 0.0,
            bias: None,
        }
    }

    /// The keys that query `i` sees; the last query's own key is the last one.
    pub fn seen(&self, i: usize, queries: usize, keys: usize) -> Range<usize> {
        // Keys are counted from `queries` on, so that none is negative.
        let (own, end) = (i + keys, queries + keys);
        let [left, right] = self.window.unwrap_or([usize::MAX; 2]);
        let right = if self.causal { 0 } else { right };
        let first = own.saturating_sub(left).max(queries);
        let last = own.saturating_add(right).saturating_add(1).min(end);
        first - queries..last.max(first) - queries
    }
}

/// One head's Q, K and V, row-major.
#[derive(Clone, Debug)]
pub struct Head {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    queries: usize,
    keys: usize,
    columns: [usize; 2],
}

/// One query's row of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The weighted mean of V.
    pub o: Vec<f64>,
    /// The natural logarithm of the sum of exponentials; -inf if no key is seen.
    pub lse: f64,
    /// The weighted mean of V's absolute values, which errors of weights are relative to.
    pub size: Vec<f64>,
    /// The largest product of the lengths of the query and of a key, times the scale: what errors of scores are relative to.
    pub reach: f64,
}

/// How a kernel rounds.
#[derive(Clone, Copy, Debug)]
pub struct Rounded {
    /// A row's scores, relative to [`Row::reach`].
    pub scores: f64,
    /// Each weight, relative to itself.
    pub weights: f64,
}

impl Row {
    /// Compares it with what a kernel made of queries of `depth` columns, with scores capped at `cap` if that is not 0; both may
    /// be NaN.
    pub fn agrees<T: Real>(
        &self,
        depth: usize,
        cap: f64,
        out: &[f32],
        lse: Option<f32>,
    ) -> Result<(), String> {
        // A score is a sum in f32, for which tensor cores round each step toward zero.
        let scores = 3e-7 + 8e-8 * (depth as f64).sqrt();
        self.agrees_rounded::<T>(Rounded { scores, weights: T::ROUNDING }, cap, out, lse)
    }

    /// The same of a kernel that rounds products and weights so.
    pub fn agrees_rounded<T: Real>(
        &self,
        rounded: Rounded,
        cap: f64,
        out: &[f32],
        lse: Option<f32>,
    ) -> Result<(), String> {
        /// What f32 makes of an operation's result.
        const STEP: f64 = 1.2e-7;
        // A sum is scaled and shifted. The hyperbolic tangent comes of two approximations near 1.
        let score = self.reach * (rounded.scores + 3.0 * STEP) + 4.0 * STEP * cap;
        let weight = 2.0 * score.exp_m1() + 4e-6 + rounded.weights;
        let agrees =
            |is: f64, exact: f64, bound: f64| (is - exact).abs() <= bound || (is.is_nan() && exact.is_nan());
        for (c, ((&x, &exact), size)) in out.iter().zip(&self.o).zip(&self.size).enumerate() {
            let bound = weight * size + T::ROUNDING * exact.abs() + 1e-7;
            if !agrees(x.into(), exact, bound) {
                return Err(format!("O's column {c} is {x}, must be {exact} within {bound:.2e}"));
            }
        }
        let Some(lse) = lse.map(f64::from) else { return Ok(()) };
        let bound = score + 2e-6 + 2.0 * STEP * self.lse.abs();
        // Equal infinities have no difference.
        if lse == self.lse || agrees(lse, self.lse, bound) {
            return Ok(());
        }
        Err(format!("the log-sum-exp is {lse}, must be {} within {bound:.2e}", self.lse))
    }
}

impl Head {
    /// A head of so many queries and keys.
    pub fn new<T: Real>([q, k, v]: [&[T]; 3], queries: usize, keys: usize, columns: [usize; 2]) -> Self {
        let [d, dv] = columns;
        assert_eq!([q.len(), k.len(), v.len()], [queries * d, keys * d, keys * dv], "elements of Q, K and V");
        Head { q: T::widen(q), k: T::widen(k), v: T::widen(v), queries, keys, columns }
    }

    /// The results of these queries.
    pub fn rows(&self, queries: &[usize], scores: &Scores) -> Vec<Row> {
        queries.par_iter().map(|&i| self.row(i, scores)).collect()
    }

    fn row(&self, i: usize, scores: &Scores) -> Row {
        let [d, dv] = self.columns;
        let q = &self.q[i * d..][..d];
        let seen = scores.seen(i, self.queries, self.keys);
        let keys = || self.k[seen.start * d..seen.end * d].chunks(d);
        let scale = f64::from(scores.scale);
        let mut weights: Vec<f64> = keys().map(|k| dot(q, k) * scale).collect();
        if let Some(cap) = scores.softcap.map(f64::from) {
            weights.iter_mut().for_each(|s| *s = cap * (*s / cap).tanh());
        }
        let own = i as f64 + self.keys as f64 - self.queries as f64;
        let distance = |key: usize| (own - key as f64).abs();
        let bias = |key: usize| scores.bias.map_or(0.0, |bias| f64::from(bias.at(i, key)));
        weights
            .iter_mut()
            .zip(seen.clone())
            .for_each(|(s, key)| *s += bias(key) - f64::from(scores.slope) * distance(key));
        let sink = scores.sink.map_or(f64::NEG_INFINITY, f64::from);
        let max = weights.iter().copied().fold(sink, f64::max);
        // Where no key is left, exponentials of -inf - 0.
        let max = if max == f64::NEG_INFINITY { 0.0 } else { max };
        weights.iter_mut().for_each(|s| *s = (*s - max).exp());
        let sink = (sink - max).exp();
        let sum = weights.iter().sum::<f64>() + sink;
        let (mut o, mut size) = (vec![0.0; dv], vec![0.0; dv]);
        let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        for (p, v) in weights.iter().zip(self.v[seen.start * dv..].chunks(dv)) {
            for ((o, size), &v) in o.iter_mut().zip(&mut size).zip(v) {
                *o += p * inverse * f64::from(v);
                *size += p * inverse * f64::from(v).abs();
            }
        }
        let lse = if sum == 0.0 { f64::NEG_INFINITY } else { max + sum.ln() };
        let longest = keys().map(|k| dot(k, k)).fold(0.0, f64::max);
        // Of a bias as of a product: a step of f32, of what is reached.
        let added = |key: usize| {
            let bias = bias(key).abs();
            f64::from(scores.slope).abs() * distance(key) + if bias.is_finite() { bias } else { 0.0 }
        };
        let added = seen.map(added).fold(0.0, f64::max);
        Row { o, lse, size, reach: (dot(q, q) * longest).sqrt() * scale + added }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_query_sees_the_last_key() {
        let plain = Scores::new(64);
        assert_eq!(plain.scale, 0.125);
        assert_eq!(plain.seen(3, 4, 7), 0..7);
        let causal = Scores { causal: true, ..plain };
        assert_eq!([causal.seen(0, 4, 7), causal.seen(3, 4, 7)], [0..4, 0..7]);
        // More queries than keys: the first see none.
        assert!(causal.seen(0, 4, 2).is_empty() && causal.seen(1, 4, 2).is_empty());
        assert_eq!([causal.seen(2, 4, 2), causal.seen(3, 4, 2)], [0..1, 0..2]);
        let window = Scores { window: Some([2, 1]), ..plain };
        assert_eq!([window.seen(0, 9, 9), window.seen(4, 9, 9), window.seen(8, 9, 9)], [0..2, 2..6, 6..9]);
        let both = Scores { causal: true, ..window };
        assert_eq!(both.seen(4, 9, 9), 2..5);
        assert!(window.seen(0, 9, 3).is_empty());
    }

    #[test]
    fn rows_are_weighted_means() {
        // Keys whose scores differ by ln 3, so that their weights are 3/4 and 1/4.
        let third = 3f32.ln();
        let head = Head::new::<f32>([&[1.0], &[third, 0.0], &[8.0, -4.0]], 1, 2, [1, 1]);
        let row = &head.rows(&[0], &Scores::new(1))[0];
        assert!((row.o[0] - 5.0).abs() < 1e-6 && (row.size[0] - 7.0).abs() < 1e-6, "{row:?}");
        assert!((row.lse - 4f64.ln()).abs() < 1e-6 && (row.reach - f64::from(third)).abs() < 1e-6, "{row:?}");
        let none = Head::new::<f32>([&[1.0], &[], &[]], 1, 0, [1, 1]).rows(&[0], &Scores::new(1));
        assert_eq!((none[0].o[0], none[0].lse), (0.0, f64::NEG_INFINITY));
        let capped = head.rows(&[0], &Scores { softcap: Some(0.5), ..Scores::new(1) });
        let weights = [(0.5 * (f64::from(third) / 0.5).tanh()).exp(), 1.0];
        assert!((capped[0].lse - (weights[0] + weights[1]).ln()).abs() < 1e-9);
        // A sink that weighs as much as both keys: half of the mean is left.
        let sunk = &head.rows(&[0], &Scores { sink: Some(4f32.ln()), ..Scores::new(1) })[0];
        assert!((sunk.o[0] - 2.5).abs() < 1e-6 && (sunk.lse - 8f64.ln()).abs() < 1e-6, "{sunk:?}");
        // The first key is one further away: its weight is a third of what it was, as much as the other's.
        let biased = &head.rows(&[0], &Scores { slope: third, ..Scores::new(1) })[0];
        assert!((biased.o[0] - 2.0).abs() < 1e-6, "{biased:?}");
    }
}
