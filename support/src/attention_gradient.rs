//! Gradients of attention in f64, to compare with.

use crate::Real;
use crate::attention::Scores;

/// A gradient's element, and the sum of the absolute values of what it is made of: what errors are relative to.
pub type Sized = [f64; 2];

/// One head's Q, K, V and dO, row-major.
#[derive(Clone, Debug)]
pub struct Head {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    d_o: Vec<f64>,
    queries: usize,
    keys: usize,
    columns: [usize; 2],
}

/// What a head gives: O and the log-sum-exp, and the gradients by Q, K and V, and by what is added to scores.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// Row-major.
    pub o: Vec<f64>,
    /// In natural logarithms; -inf of a query that sees no key.
    pub lse: Vec<f64>,
    /// By Q.
    pub q: Vec<Sized>,
    /// By K.
    pub k: Vec<Sized>,
    /// By V.
    pub v: Vec<Sized>,
    /// By the bias of each query and key.
    pub bias: Vec<Sized>,
    /// By the sink: one element.
    pub sinks: Vec<Sized>,
    /// The largest product of the lengths of a query and a key, times the scale, and what is added to it: what errors of scores are relative to.
    pub reach: f64,
}

impl Head {
    /// A head of so many queries and keys.
    pub fn new<T: Real>([q, k, v, d_o]: [&[T]; 4], queries: usize, keys: usize, columns: [usize; 2]) -> Self {
        let [d, dv] = columns;
        let lengths = [queries * d, keys * d, keys * dv, queries * dv];
        assert_eq!([q.len(), k.len(), v.len(), d_o.len()], lengths, "elements of Q, K, V and dO");
        let wide = |x: &[T]| T::widen(x).into_iter().map(f64::from).collect();
        Head { q: wide(q), k: wide(k), v: wide(v), d_o: wide(d_o), queries, keys, columns }
    }

    /// The gradients of sum(dO ∘ O).
    pub fn gradients(&self, scores: &Scores) -> Gradients {
        let &Head { queries, keys, columns: [d, dv], .. } = self;
        let zeros = |len: usize| vec![[0.0; 2]; len];
        let mut all = Gradients {
            o: vec![0.0; queries * dv],
            lse: vec![f64::NEG_INFINITY; queries],
            q: zeros(queries * d),
            k: zeros(keys * d),
            v: zeros(keys * dv),
            bias: zeros(queries * keys),
            sinks: zeros(1),
            reach: 0.0,
        };
        let scale = f64::from(scores.scale);
        for i in 0..queries {
            let (q, d_o) = (&self.q[i * d..][..d], &self.d_o[i * dv..][..dv]);
            let seen = scores.seen(i, queries, keys);
            let key = |j: usize| &self.k[j * d..][..d];
            let value = |j: usize| &self.v[j * dv..][..dv];
            let own = i as f64 + keys as f64 - queries as f64;
            let added = |j: usize| {
                let bias = scores.bias.map_or(0.0, |bias| f64::from(bias.at(i, j)));
                [bias, -f64::from(scores.slope) * (own - j as f64).abs()]
            };
            // Scores and their slopes.
            let score = |j: usize| {
                let s = dot(q, key(j)) * scale;
                let [s, slope] = match scores.softcap.map(f64::from) {
                    None => [s, 1.0],
                    Some(cap) => [cap * (s / cap).tanh(), 1.0 - (s / cap).tanh().powi(2)],
                };
                [s + added(j).iter().sum::<f64>(), slope]
            };
            let scored: Vec<[f64; 2]> = seen.clone().map(score).collect();
            let sink = scores.sink.map_or(f64::NEG_INFINITY, f64::from);
            let max = scored.iter().fold(sink, |max, [s, _]| max.max(*s));
            if max == f64::NEG_INFINITY {
                continue;
            }
            let sum = scored.iter().map(|[s, _]| (s - max).exp()).sum::<f64>() + (sink - max).exp();
            all.lse[i] = max + sum.ln();
            let weights: Vec<f64> = scored.iter().map(|[s, _]| (s - max).exp() / sum).collect();
            let o = &mut all.o[i * dv..][..dv];
            let mut size_of_o = vec![0.0; dv];
            for (p, j) in weights.iter().zip(seen.clone()) {
                for c in 0..dv {
                    o[c] += p * value(j)[c];
                    size_of_o[c] += p * value(j)[c].abs();
                }
            }
            let mean = dot(d_o, o);
            let size_of_mean: f64 = d_o.iter().zip(&size_of_o).map(|(d_o, o)| (d_o * o).abs()).sum();
            let of_sink = (sink - max).exp() / sum;
            all.sinks[0][0] -= of_sink * mean;
            all.sinks[0][1] += of_sink * size_of_mean;
            for ((p, [_, slope]), j) in weights.iter().zip(&scored).zip(seen) {
                let size: f64 = d_o.iter().zip(value(j)).map(|(x, y)| (x * y).abs()).sum();
                let d_p = dot(d_o, value(j)) - mean;
                all.bias[i * keys + j] = [p * d_p, p * (size + size_of_mean)];
                let d_s = p * d_p * slope * scale;
                let size = p * (size + size_of_mean) * slope.abs() * scale;
                let add = |to: &mut Sized, by: f64, x: f64| {
                    to[0] += d_s * x;
                    to[1] += by * x.abs();
                };
                for (c, (&q, &k)) in q.iter().zip(key(j)).enumerate() {
                    add(&mut all.q[i * d + c], size, k);
                    add(&mut all.k[j * d + c], size, q);
                }
                for ([exact, size], d_o) in all.v[j * dv..].iter_mut().zip(d_o) {
                    *exact += p * d_o;
                    *size += p * d_o.abs();
                }
                let added: f64 = added(j).iter().filter(|x| x.is_finite()).map(|x| x.abs()).sum();
                all.reach = all.reach.max((dot(q, q) * dot(key(j), key(j))).sqrt() * scale + added);
            }
        }
        all
    }
}

/// Compares a gradient with what a kernel made of heads of `depth` columns, whose scores reach as far as that, capped at `cap` if that is not 0.
pub fn agrees<T: Real>(
    out: &[f32],
    exact: &[Sized],
    reach: f64,
    depth: usize,
    cap: f64,
) -> Result<(), String> {
    /// What f32 makes of an operation's result.
    const STEP: f64 = 1.2e-7;
    // As of the attention itself; the log-sum-exp is rounded as well, and so are P, dS and O.
    let score = reach * (3e-7 + 8e-8 * (depth as f64).sqrt() + 5.0 * STEP) + 4.0 * STEP * cap;
    let relative = 2.0 * score.exp_m1() + 1e-5 + 3.0 * T::ROUNDING;
    for (at, (&out, &[exact, size])) in out.iter().zip(exact).enumerate() {
        let bound = relative * size + T::ROUNDING * exact.abs() + T::LEAST + 1e-7;
        let off = (f64::from(out) - exact).abs();
        if off.is_nan() || off > bound {
            return Err(format!("element {at} is {out}, must be {exact} within {bound:.2e}"));
        }
    }
    Ok(())
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gradients are the differences of sum(dO ∘ O).
    #[test]
    fn gradients_are_differences() {
        let number = |seed: usize| ((seed * 7919 + 13) % 101) as f64 / 50.0 - 1.0;
        let numbers = |first: usize, len: usize| (first..first + len).map(number).collect::<Vec<_>>();
        for (causal, window, softcap, sink, slope) in [
            (false, None, None, None, 0.0),
            (true, None, Some(0.7), Some(0.4), 0.0),
            (false, Some([1, 1]), Some(2.0), None, 0.3),
            (true, None, None, Some(-0.5), 0.2),
        ] {
            let scores = Scores { causal, window, softcap, sink, slope, scale: 0.6, ..Scores::new(1) };
            let head = Head {
                q: numbers(0, 4 * 3),
                k: numbers(20, 5 * 3),
                v: numbers(40, 5 * 2),
                d_o: numbers(60, 4 * 2),
                queries: 4,
                keys: 5,
                columns: [3, 2],
            };
            let loss = |head: &Head| dot(&head.gradients(&scores).o, &head.d_o);
            let exact = head.gradients(&scores);
            let by_sink = |by: f32| {
                let moved = Scores { sink: sink.map(|sink| sink + by), ..scores };
                dot(&head.gradients(&moved).o, &head.d_o)
            };
            // A step that f32 has exactly.
            let (step, [of_sink, _]) = (1.0 / 4096.0, exact.sinks[0]);
            let difference = (by_sink(step) - by_sink(-step)) / f64::from(2.0 * step);
            assert!((difference - of_sink).abs() < 1e-6, "the sink: {difference} {of_sink}");
            // What is added to all scores of a query changes nothing.
            let of_all = exact.bias.iter().fold(of_sink, |sum, [of, _]| sum + of);
            assert!(of_all.abs() < 1e-12, "{of_all}");
            for (part, gradient) in [&exact.q, &exact.k, &exact.v].into_iter().enumerate() {
                for (at, [exact, _]) in gradient.iter().enumerate() {
                    let moved = |by: f64| {
                        let mut moved = head.clone();
                        [&mut moved.q, &mut moved.k, &mut moved.v][part][at] += by;
                        loss(&moved)
                    };
                    let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                    assert!((difference - exact).abs() < 1e-8, "{part} {at}: {difference} {exact}");
                }
            }
        }
    }
}
