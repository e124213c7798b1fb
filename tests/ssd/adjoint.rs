//! The gradients of the recurrence in f64: its adjoint, token by token from the last one.

use crate::reference::{Head, Time};

/// A number, and the sum of its terms' magnitudes, which bounds what rounding does to it.
pub type Sized = [f64; 2];

fn add(to: &mut Sized, by: f64, x: Sized) {
    to[0] += by * x[0];
    to[1] += by.abs() * x[1];
}

/// The derivative of x / (1 + e⁻ˣ).
pub fn slope(x: f64) -> f64 {
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    sigmoid * (1.0 + x * (1.0 - sigmoid))
}

impl Time {
    /// The derivative of dt by what is given for it.
    fn by_given(&self, dt: f64) -> f64 {
        let dt = dt + self.bias;
        let (made, slope) = match self.softplus {
            true => (dt.exp().ln_1p(), 1.0 / (1.0 + (-dt).exp())),
            false => (dt, 1.0),
        };
        if (self.limits[0]..=self.limits[1]).contains(&made) { slope } else { 0.0 }
    }
}

/// The gradients of one head, by what [`Head`] names and the state before it.
pub struct Gradients {
    pub x: Vec<Sized>,
    pub dt: Vec<Sized>,
    pub b: Vec<Sized>,
    pub c: Vec<Sized>,
    pub a: Sized,
    pub skip: Sized,
    pub bias: Sized,
    pub initial: Vec<Sized>,
}

impl Head<'_> {
    /// Of y and the last state with these gradients: G = exp(dt[t + 1] A) G + dy Cᵀ, dx = dt G B + D dy, dB = dt Gᵀ x, dC = Hᵀ dy.
    pub fn gradients(&self, initial: &[f64], dy: &[f64], d_last: &[f64]) -> Gradients {
        let [p, n] = self.size;
        let kept = |dt: f64| (dt * self.time.a).exp();
        // States behind each token, the one before the first in front.
        let mut states: Vec<Vec<Sized>> = vec![initial.iter().map(|&h| [h, h.abs()]).collect()];
        for (t, &dt) in self.dt.iter().enumerate() {
            let dt = self.time.step(dt);
            let next = states[t].iter().enumerate().map(|(i, h)| {
                let added = dt * self.x[t * p + i / n] * self.b[t * n + i % n];
                [kept(dt) * h[0] + added, kept(dt) * h[1] + added.abs()]
            });
            let next = next.collect();
            states.push(next);
        }
        let zeros = |len: usize| vec![[0.0; 2]; len];
        let (mut by_a, mut skip, mut bias) = ([0.0; 2], [0.0; 2], [0.0; 2]);
        let tokens = self.dt.len();
        let (mut x, mut by_dt, mut b, mut c) =
            (zeros(tokens * p), zeros(tokens), zeros(tokens * n), zeros(tokens * n));
        let mut g: Vec<Sized> = d_last.iter().map(|&g| [g, g.abs()]).collect();
        for t in (0..tokens).rev() {
            let dt = self.time.step(self.dt[t]);
            let mut weight = [0.0; 2];
            for i in 0..p {
                let (dy, own) = (dy[t * p + i], self.x[t * p + i]);
                add(&mut skip, dy, [own, own.abs()]);
                add(&mut x[t * p + i], self.time.skip, [dy, dy.abs()]);
                for j in 0..n {
                    let (h, g) = (states[t + 1][i * n + j], &mut g[i * n + j]);
                    add(g, dy, [self.c[t * n + j], self.c[t * n + j].abs()]);
                    add(&mut c[t * n + j], dy, h);
                    add(&mut x[t * p + i], dt * self.b[t * n + j], *g);
                    add(&mut b[t * n + j], dt * own, *g);
                    add(&mut weight, own * self.b[t * n + j], *g);
                }
            }
            let mut decay = [0.0; 2];
            for (g, h) in g.iter_mut().zip(&states[t]) {
                *g = g.map(|g| g * kept(dt));
                decay[0] += g[0] * h[0];
                decay[1] += g[1] * h[1];
            }
            add(&mut by_a, dt, decay);
            add(&mut weight, self.time.a, decay);
            add(&mut by_dt[t], self.time.by_given(self.dt[t]), weight);
            add(&mut bias, 1.0, by_dt[t]);
        }
        Gradients { x, dt: by_dt, b, c, a: by_a, skip, bias, initial: g }
    }
}
