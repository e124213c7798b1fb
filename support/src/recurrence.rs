//! The recurrence of linear attention and its gradients, row by row, in f64.

/// What a row brings: its query, key and value.
pub struct Row {
    /// The query.
    pub q: Vec<f32>,
    /// The key.
    pub k: Vec<f32>,
    /// The value.
    pub v: Vec<f32>,
    /// The logarithm of each channel's decay.
    pub gate: Vec<f32>,
    /// How much of the delta rule's correction is made; `None` is no delta rule.
    pub beta: Option<f32>,
}

/// The state of a head, \[DK, DV\].
pub struct State {
    columns: [usize; 2],
    /// Its elements.
    pub state: Vec<f64>,
}

impl State {
    /// Zeros, or this one.
    pub fn new(columns: [usize; 2], state: Option<&[f32]>) -> Self {
        let zeros = || vec![0.0; columns[0] * columns[1]];
        State { columns, state: state.map_or_else(zeros, |state| state.iter().map(|&x| x.into()).collect()) }
    }

    /// Takes a row, and gives its result.
    pub fn step(&mut self, row: &Row, scale: f64) -> Vec<f64> {
        let [_, dv] = self.columns;
        for (line, &gate) in self.state.chunks_mut(dv).zip(&row.gate) {
            let decay = f64::from(gate).min(0.0).exp();
            line.iter_mut().for_each(|x| *x *= decay);
        }
        let mut value: Vec<f64> = row.v.iter().map(|&v| v.into()).collect();
        if let Some(beta) = row.beta {
            let known = self.product(&row.k);
            value.iter_mut().zip(known).for_each(|(v, known)| *v = f64::from(beta) * (*v - known));
        }
        for (line, &k) in self.state.chunks_mut(dv).zip(&row.k) {
            line.iter_mut().zip(&value).for_each(|(x, v)| *x += f64::from(k) * v);
        }
        self.product(&row.q).into_iter().map(|o| o * scale).collect()
    }

    fn product(&self, x: &[f32]) -> Vec<f64> {
        let mut out = vec![0.0; self.columns[1]];
        for (line, &x) in self.state.chunks(self.columns[1]).zip(x) {
            out.iter_mut().zip(line).for_each(|(out, s)| *out += f64::from(x) * s);
        }
        out
    }
}

/// Rows of which states are held at a time.
const BLOCK: usize = 64;

/// The gradients of a row.
pub struct RowGradient {
    /// By the query.
    pub q: Vec<f64>,
    /// By the key.
    pub k: Vec<f64>,
    /// By the value.
    pub v: Vec<f64>,
    /// By the logarithm of each channel's decay.
    pub gate: Vec<f64>,
}

/// The gradients by every row and by the state before them, given those by each row's result and by the state behind the last; without the delta
/// rule.
///
/// With R the gradient by a row's state S = α S' + kᵀ v, of which o = scale q S: from the last row to the first R gains scale qᵀ do, gives scale do Sᵀ to q,
/// v Rᵀ to k, k R to v, the sum of α S' ∘ R to each channel's gate, and is α R before the row.
pub fn gradients(
    columns: [usize; 2],
    rows: &[Row],
    d_o: &[Vec<f32>],
    [initial, d_last]: [Option<&[f32]>; 2],
    scale: f64,
) -> (Vec<RowGradient>, Vec<f64>) {
    let [_, dv] = columns;
    // The states before blocks, of which those in a block are computed again.
    let mut state = State::new(columns, initial);
    let mut before = Vec::new();
    for block in rows.chunks(BLOCK) {
        before.push(state.state.clone());
        block.iter().for_each(|row| drop(state.step(row, scale)));
    }
    let mut by_state = State::new(columns, d_last).state;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let wide = |x: &[f32]| -> Vec<f64> { x.iter().map(|&x| x.into()).collect() };
    let mut all = Vec::new();
    for ((block, d_o), before) in rows.chunks(BLOCK).zip(d_o.chunks(BLOCK)).zip(before).rev() {
        let mut state = State { columns, state: before };
        let mut states = vec![state.state.clone()];
        for row in block {
            state.step(row, scale);
            states.push(state.state.clone());
        }
        for ((row, d_o), states) in block.iter().zip(d_o).zip(states.windows(2)).rev() {
            let (d_o, k, v) = (wide(d_o), wide(&row.k), wide(&row.v));
            for (line, &q) in by_state.chunks_mut(dv).zip(&row.q) {
                line.iter_mut().zip(&d_o).for_each(|(x, d_o)| *x += scale * f64::from(q) * d_o);
            }
            let mut gradient = RowGradient {
                q: states[1].chunks(dv).map(|line| scale * dot(line, &d_o)).collect(),
                k: by_state.chunks(dv).map(|line| dot(line, &v)).collect(),
                v: vec![0.0; dv],
                gate: Vec::new(),
            };
            for (line, k) in by_state.chunks(dv).zip(&k) {
                gradient.v.iter_mut().zip(line).for_each(|(v, x)| *v += k * x);
            }
            for ((line, before), &gate) in by_state.chunks_mut(dv).zip(states[0].chunks(dv)).zip(&row.gate) {
                let decay = f64::from(gate).min(0.0).exp();
                line.iter_mut().for_each(|x| *x *= decay);
                // What is above 0 counts as 0.
                gradient.gate.push(if gate > 0.0 { 0.0 } else { dot(line, before) });
            }
            all.push(gradient);
        }
    }
    all.reverse();
    (all, by_state)
}
