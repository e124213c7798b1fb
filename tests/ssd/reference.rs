//! The recurrences in f64.

/// ln(1 + eˣ).
fn softplus(x: f64) -> f64 {
    if x > 30.0 { x } else { x.exp().ln_1p() }
}

/// x / (1 + e⁻ˣ).
pub fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

/// The convolution of one channel: the inputs `before` it, the latest last, then `x`.
pub fn convolved(before: &[f64], x: &[f64], w: &[f64], bias: f64, act: bool) -> Vec<f64> {
    let at = |t: usize, k: usize| {
        let all = before.len() + t;
        if all < k {
            return 0.0;
        }
        let at = all - k;
        if at < before.len() { before[at] } else { x[at - before.len()] }
    };
    let sum = |t: usize| bias + (0..w.len()).map(|k| w[w.len() - 1 - k] * at(t, k)).sum::<f64>();
    (0..x.len()).map(sum).map(|s| if act { silu(s) } else { s }).collect()
}

/// How a head's steps of time are made.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    pub a: f64,
    pub bias: f64,
    pub softplus: bool,
    pub limits: [f64; 2],
    pub skip: f64,
}

impl Time {
    /// dt of what is given for it.
    pub fn step(&self, dt: f64) -> f64 {
        let dt = dt + self.bias;
        let dt = if self.softplus { softplus(dt) } else { dt };
        dt.max(self.limits[0]).min(self.limits[1])
    }
}

/// One head of one sequence: tokens' x \[length, P\], dt \[length\], B and C \[length, N\].
pub struct Head<'a> {
    pub x: &'a [f64],
    pub dt: &'a [f64],
    pub b: &'a [f64],
    pub c: &'a [f64],
    pub time: Time,
    /// P and N.
    pub size: [usize; 2],
}

/// Results, and the sums of their terms' magnitudes, which bound what rounding does to them.
pub struct Scanned {
    pub y: Vec<[f64; 2]>,
    pub state: Vec<[f64; 2]>,
}

impl Head<'_> {
    /// H = exp(dt A) H + dt x Bᵀ, y = H C + D x, from a state \[P, N\].
    pub fn scan(&self, initial: &[f64]) -> Scanned {
        let [p, n] = self.size;
        let mut state: Vec<[f64; 2]> = initial.iter().map(|&h| [h, h.abs()]).collect();
        let mut y = Vec::with_capacity(self.x.len());
        for (t, &dt) in self.dt.iter().enumerate() {
            let dt = self.time.step(dt);
            let kept = (dt * self.time.a).exp();
            let (b, c) = (&self.b[t * n..][..n], &self.c[t * n..][..n]);
            for (i, &x) in self.x[t * p..][..p].iter().enumerate() {
                let (mut sum, mut size) = (self.time.skip * x, (self.time.skip * x).abs());
                for ((h, b), c) in state[i * n..][..n].iter_mut().zip(b).zip(c) {
                    let added = dt * x * b;
                    *h = [kept * h[0] + added, kept * h[1] + added.abs()];
                    sum += h[0] * c;
                    size += h[1] * c.abs();
                }
                y.push([sum, size]);
            }
        }
        Scanned { y, state }
    }
}
