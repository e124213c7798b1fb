//! What the registers of a warp hold before its first instruction.

use crate::program::Program;
use crate::program::register::{D, L32, L64, LANES, R, Register};

/// The registers of both files, constants included; special registers are the warp's own.
#[derive(Debug)]
pub(crate) struct First {
    r: Vec<L32>,
    d: Vec<L64>,
    /// Those that may be read before they are written, where that is known of all.
    doubtful: Option<Vec<Register>>,
}

impl First {
    pub(crate) fn new(program: &Program) -> Self {
        let [_, r, d] = program.registers.map(|count| count as usize);
        // What nobody wrote is not zero.
        let mut r = vec![[0xcdcd_cdcd; LANES]; r];
        let mut d = vec![[0xcdcd_cdcd_cdcd_cdcd; LANES]; d];
        for &(R(register), value) in &program.constants32 {
            r[register as usize] = [value; LANES];
        }
        for &(D(register), value) in &program.constants64 {
            d[register as usize] = [value; LANES];
        }
        // A function may return without a result.
        let each = program.functions.is_empty();
        Self { r, d, doubtful: each.then(|| program.watched.doubtful_registers().collect()) }
    }

    /// Fills the registers of a warp. Where they are those of one that has ended, they hold their constants, and of the others only
    /// those matter that may be read before they are written.
    pub(super) fn fill(&self, r: &mut Vec<L32>, d: &mut Vec<L64>) {
        match &self.doubtful {
            Some(doubtful) if r.len() == self.r.len() && d.len() == self.d.len() => {
                for register in doubtful {
                    match *register {
                        Register::R(R(i)) => r[i as usize] = self.r[i as usize],
                        Register::D(D(i)) => d[i as usize] = self.d[i as usize],
                        Register::P(_) => {}
                    }
                }
            }
            _ => {
                r.clone_from(&self.r);
                d.clone_from(&self.d);
            }
        }
    }
}
