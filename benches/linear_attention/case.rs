//! What is measured.

use std::fmt;

use tilewright_support::Result;

use crate::{common, shapes};

/// How a state decays, and what is written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Without decays.
    Plain,
    /// A constant of each head.
    Retention,
    /// Gates of rows.
    Gates,
    /// Gates of rows and channels.
    ChannelGates,
    /// The delta rule.
    Delta,
    /// The delta rule with gates of rows.
    GatedDelta,
    /// The delta rule with gates of rows and channels.
    ChannelGatedDelta,
    /// One row of each sequence by the gated delta rule.
    Step,
}

/// A linear attention in bf16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub form: Form,
    pub batch: usize,
    pub rows: usize,
    pub heads: usize,
    /// Columns of Q, K, V and O.
    pub columns: usize,
    /// Whether gradients are computed, by Q, K, V and gates.
    pub backward: bool,
}

/// Heads that fill the card, few heads over long sequences, the head dimensions.
const SHAPES: [[usize; 4]; 7] = [
    [8, 4096, 32, 128],
    [4, 8192, 16, 64],
    [4, 4096, 16, 256],
    [1, 32768, 8, 128],
    [1, 32768, 32, 128],
    [1, 65536, 8, 128],
    [8, 4096, 16, 128],
];
const FORMS: [Form; 7] = [
    Form::Plain,
    Form::Retention,
    Form::Gates,
    Form::ChannelGates,
    Form::Delta,
    Form::GatedDelta,
    Form::ChannelGatedDelta,
];
/// Those that have gradients.
const BACKWARD: [Form; 4] = [Form::Plain, Form::Retention, Form::Gates, Form::ChannelGates];
const STEPS: [[usize; 4]; 3] = [[1, 1, 32, 128], [64, 1, 32, 128], [256, 1, 16, 256]];

/// The cases that these words select. Any shape is named by its four numbers, a step by one row: `2x777x24x128 gla backward`.
pub fn selected(words: &[String]) -> Result<Vec<Case>> {
    let named = shapes::unlisted(words, &[]);
    if named.is_empty() {
        return common::selected(all(), words);
    }
    let others: Vec<_> = words.iter().filter(|word| !word.contains('x')).cloned().collect();
    let (steps, long): (Vec<_>, Vec<_>) = named.into_iter().partition(|shape| shape[1] == 1);
    common::selected(of(&long, &steps), &others)
}

/// Every case, in the order of the table.
pub fn all() -> Vec<Case> {
    of(&SHAPES, &STEPS)
}

/// Cases of these shapes that there are kernels for.
fn of(long: &[[usize; 4]], steps: &[[usize; 4]]) -> Vec<Case> {
    let of = |form, backward, shapes: &[[usize; 4]]| -> Vec<Case> {
        let case = |&[batch, rows, heads, columns]: &[usize; 4]| Case {
            form,
            batch,
            rows,
            heads,
            columns,
            backward,
        };
        shapes.iter().map(case).collect()
    };
    let forward = FORMS.iter().flat_map(|&form| of(form, false, long));
    let forward = forward.filter(|case| !case.corrects() || case.columns <= 128);
    let backward = BACKWARD.iter().flat_map(|&form| of(form, true, long));
    forward.chain(backward).chain(of(Form::Step, false, steps)).collect()
}

impl Case {
    /// Whether it follows the delta rule.
    pub fn corrects(&self) -> bool {
        use Form::*;
        matches!(self.form, Delta | GatedDelta | ChannelGatedDelta | Step)
    }

    /// Whether channels have gates of their own.
    pub fn by_channels(&self) -> bool {
        matches!(self.form, Form::ChannelGates | Form::ChannelGatedDelta)
    }

    /// Whether rows' gates have gradients.
    pub fn has_gates(&self) -> bool {
        matches!(self.form, Form::Gates | Form::ChannelGates)
    }

    /// Of the recurrence, which writes to the state and multiplies it once a row; the delta rule multiplies it twice. Backward it writes to the
    /// state and to its gradient, and multiplies by the one once and by the other twice.
    pub fn flops(&self) -> f64 {
        let Case { batch, rows, heads, columns, .. } = *self;
        let each = match (self.backward, self.corrects()) {
            (true, _) => 10.0,
            (false, true) => 6.0,
            (false, false) => 4.0,
        };
        each * (batch * rows * heads * columns * columns) as f64
    }

    /// The least that moves between memory and the SMs: Q, K, V, O and gates, and of a step the state; backward their gradients but for O itself.
    pub fn bytes(&self) -> f64 {
        let Case { batch, rows, heads, columns, form, backward } = *self;
        let states = if form == Form::Step { 8 * columns * columns } else { 0 };
        let gates = if self.by_channels() { 4 * columns } else { 4 };
        let line = if backward { 14 * columns + 2 * gates } else { 8 * columns + gates };
        (batch * heads * (rows * line + states)) as f64
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.form {
            Form::Plain => "plain",
            Form::Retention => "retention",
            Form::Gates => "gates",
            Form::ChannelGates => "gla",
            Form::Delta => "delta",
            Form::GatedDelta => "gated-delta",
            Form::ChannelGatedDelta => "channel-gated-delta",
            Form::Step => "step",
        };
        let Case { batch, rows, heads, columns, backward, .. } = self;
        let backward = if *backward { "backward " } else { "" };
        write!(f, "{backward}{name} b{batch} s{rows} h{heads} d{columns}")
    }
}
