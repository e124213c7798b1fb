//! The recurrence of linear attention, row by row, in f64.

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
