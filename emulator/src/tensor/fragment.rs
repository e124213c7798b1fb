//! How the lanes of a warp hold a matrix: `wmma`, and the forms of `mma` that [`super::mma`] does not have.
//!
//! PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 floating point type" and of the other shapes, "Sparse matrix storage".
//! The manual leaves open how fragments of `wmma` lie: here lane after lane, A by rows, B by columns, C by rows, again from
//! the start where the lanes have room for several.

/// The type of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Number {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
    S4,
    U4,
    B1,
    F32,
    S32,
    F64,
}

impl Number {
    /// Its size in bits.
    pub(crate) fn bits(self) -> u32 {
        match self {
            Number::F64 => 64,
            Number::Tf32 | Number::F32 | Number::S32 => 32,
            Number::F16 | Number::Bf16 => 16,
            Number::E4m3 | Number::E5m2 | Number::S8 | Number::U8 => 8,
            Number::S4 | Number::U4 => 4,
            Number::B1 => 1,
        }
    }

    /// Bits of a register that holds it.
    pub(crate) fn register_bits(self) -> u32 {
        self.bits().max(32)
    }

    /// Elements of a register.
    pub(crate) fn per_register(self) -> usize {
        (self.register_bits() / self.bits()) as usize
    }
}

/// Which operand it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    A,
    B,
    /// C or D.
    C,
}

/// A matrix in the registers of a warp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fragment {
    pub(crate) role: Role,
    pub(crate) number: Number,
    /// M, N and K; of a sparse A, K is of what is stored.
    pub(crate) shape: [usize; 3],
    /// Registers of a lane.
    pub(crate) registers: usize,
    /// Whether it is one of `wmma`.
    pub(crate) linear: bool,
}

impl Fragment {
    /// Rows and columns.
    pub(crate) fn extents(&self) -> [usize; 2] {
        let [m, n, k] = self.shape;
        match self.role {
            Role::A => [m, k],
            Role::B => [k, n],
            Role::C => [m, n],
        }
    }

    /// Elements of a lane.
    pub(crate) fn count(&self) -> usize {
        self.registers * self.number.per_register()
    }

    /// Row and column of element `i` of a lane.
    pub(crate) fn place(&self, lane: usize, i: usize) -> [usize; 2] {
        let [rows, columns] = self.extents();
        if self.linear {
            let at = (lane * self.count() + i) % (rows * columns);
            return match self.role {
                Role::B => [at % rows, at / rows],
                Role::A | Role::C => [at / columns, at % columns],
            };
        }
        let (group, thread) = (lane / 4, lane % 4);
        let per = self.number.per_register();
        let (register, part) = (i / per, i % per);
        match self.role {
            Role::A => {
                let tall = rows / 8;
                [group + register % tall * 8, (register / tall * 4 + thread) * per + part]
            }
            Role::B => [(register * 4 + thread) * per + part, group],
            Role::C => [group + i / 2 * 8, thread * 2 + i % 2],
        }
    }

    /// The bits of all elements, row by row. `register` gives a register of a lane.
    pub(crate) fn read(&self, register: impl Fn(usize, usize) -> u64) -> Vec<u64> {
        let [rows, columns] = self.extents();
        let (bits, per) = (self.number.bits(), self.number.per_register());
        let mut all = vec![0; rows * columns];
        for lane in 0..32 {
            for i in 0..self.count() {
                let [row, column] = self.place(lane, i);
                let word = register(i / per, lane) >> (i % per * bits as usize);
                all[row * columns + column] = word & (u64::MAX >> (64 - bits));
            }
        }
        all
    }

    /// A register of a lane, of the bits of all elements.
    pub(crate) fn register(&self, all: &[u64], register: usize, lane: usize) -> u64 {
        let [_, columns] = self.extents();
        let (bits, per) = (self.number.bits() as usize, self.number.per_register());
        (0..per).fold(0, |word, part| {
            let [row, column] = self.place(lane, register * per + part);
            word | all[row * columns + column] << (part * bits)
        })
    }
}
