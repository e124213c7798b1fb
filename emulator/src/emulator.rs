//! The public face: a device, its memory, and launches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tilewright_ptx::parser::parse;

use crate::arch::Arch;
use crate::check::check;
use crate::count::Counters;
use crate::decode;
use crate::error::{Fault, LoadError, MemoryError, Reason};
use crate::exec::launch::Launch as Checked;
use crate::exec::printed::{Output, Printed};
use crate::exec::run;
use crate::exec::running::Running;
use crate::exec::schedule::Schedule;
use crate::launch::Launch;
use crate::limits::Limits;
use crate::memory::budget::Budget;
use crate::memory::global::Global;
use crate::order::global::GlobalOrder;
use crate::order::preceding::Preceding;
use crate::program::{Image, Program, Special};
use crate::progress::Progress;

/// What cooperative groups keep of a grid, at first.
const WORKSPACE: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, 0];

/// A PTX module, decoded.
#[derive(Clone, Debug)]
pub struct Module {
    image: Arc<Image>,
}

impl Module {
    /// Parses and decodes the text of a module.
    ///
    /// # Errors
    /// The text is no PTX, or has an instruction, a modifier or an operand that is not emulated.
    pub fn load(text: &str) -> Result<Self, LoadError> {
        let module = parse(text)?;
        Ok(Self { image: Arc::new(decode::decode(&module, &Arc::from(text))?) })
    }

    /// The names of the module's kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.image.programs.iter().map(|program| program.name.as_str())
    }

    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<Kernel> {
        let index = self.image.programs.iter().position(|program| program.name == name)?;
        Some(Kernel { image: Arc::clone(&self.image), index })
    }
}

/// A kernel of a [`Module`].
#[derive(Clone, Debug)]
pub struct Kernel {
    image: Arc<Image>,
    index: usize,
}

impl Kernel {
    fn program(&self) -> &Program {
        &self.image.programs[self.index]
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.program().name
    }

    /// Bytes of its parameter block.
    pub fn parameter_bytes(&self) -> u32 {
        self.program().parameters
    }

    /// Bytes of shared memory that each CTA has without what the launch adds.
    pub fn shared_bytes(&self) -> u32 {
        self.program().shared.bytes
    }

    /// Bytes of local memory of each thread.
    pub fn local_bytes(&self) -> u32 {
        self.program().local
    }
}

/// A device: memory, and something that runs kernels.
///
/// Calls are complete when they return. Several threads may use it at a time.
#[derive(Debug)]
pub struct Emulator {
    arch: Arch,
    global: Global,
    counting: bool,
    schedule: Schedule,
    checks_order: bool,
    output: Output,
    limits: Limits,
    budget: Arc<Budget>,
    running: Mutex<Vec<Arc<Running>>>,
}

impl Emulator {
    /// A device of this architecture, with nothing in its memory.
    pub fn new(arch: Arch) -> Self {
        let limits = Limits::default();
        let budget = Budget::new(limits.memory);
        Self {
            arch,
            global: Global::new(Arc::clone(&budget)),
            counting: true,
            schedule: Schedule::default(),
            checks_order: true,
            output: Output::default(),
            limits,
            budget,
            running: Mutex::default(),
        }
    }

    /// Its architecture.
    pub fn arch(&self) -> Arch {
        self.arch
    }

    /// Whether accesses of memory and waits are counted; they are unless this says not. Instructions always are.
    pub fn counting(self, counting: bool) -> Self {
        Self { counting, ..self }
    }

    /// In which order warps run: [`Schedule::Fixed`] unless this says otherwise.
    pub fn with_schedule(self, schedule: Schedule) -> Self {
        Self { schedule, ..self }
    }

    /// Whether it is checked that accesses to memory are ordered by what kernels wait for, and that shared memory is
    /// written before it is read; it is unless this says not.
    pub fn checking_order(self, checks_order: bool) -> Self {
        Self { checks_order, ..self }
    }

    /// What launches and memory are limited to: [`Limits::default`] unless this says otherwise.
    pub fn with_limits(self, limits: Limits) -> Self {
        self.budget.set_limit(limits.memory);
        Self { limits, ..self }
    }

    /// Whether what kernels print by `vprintf` goes to the standard error stream; it does unless this says not.
    pub fn echoing(self, echoing: bool) -> Self {
        Self { output: self.output.echoing(echoing), ..self }
    }

    /// What kernels have printed since this was asked last: a MiB of it at most, the latest, as on a GPU.
    ///
    /// A launch's lines stand in the order of its clusters, and those of a cluster as its warps ran.
    pub fn printed(&self) -> String {
        self.output.take()
    }

    /// Allocates memory, and gives its address: a multiple of 256. What is in it is not defined.
    ///
    /// # Errors
    /// It is more than [`Limits::memory`] leaves, or than the host has.
    pub fn allocate(&self, bytes: u64) -> Result<u64, MemoryError> {
        Ok(self.global.allocate(bytes)?)
    }

    /// Frees the allocation that begins at the address.
    ///
    /// # Errors
    /// None begins there.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        match self.global.free(address) {
            true => Ok(()),
            false => Err(MemoryError { what: format!("no allocation begins at {address:#x}") }),
        }
    }

    /// Bytes that are allocated.
    pub fn used(&self) -> u64 {
        self.global.used()
    }

    /// The end of the allocation that has the address.
    pub fn end_of_allocation(&self, address: u64) -> Option<u64> {
        self.global.view().end_of(address)
    }

    /// Writes bytes to memory.
    ///
    /// # Errors
    /// Not all of the range is allocated.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        Ok(self.global.view().set(address, bytes)?)
    }

    /// Reads bytes from memory.
    ///
    /// # Errors
    /// Not all of the range is allocated.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), MemoryError> {
        Ok(self.global.view().read(address, bytes)?)
    }

    /// The address and the size of a module's variable in global or constant memory.
    ///
    /// A module's variables are made when it is first asked for one of them, or a kernel of it is first launched, and stay
    /// as long as the emulator.
    ///
    /// # Errors
    /// The module has no such variable, or its variables are more than [`Limits::memory`] leaves.
    pub fn variable(&self, module: &Module, name: &str) -> Result<(u64, u64), MemoryError> {
        let variable = module.image.statics.iter().find(|variable| variable.name == name);
        let variable =
            variable.ok_or_else(|| MemoryError { what: format!("the module has no variable `{name}`") })?;
        self.global.install(&module.image.statics)?;
        Ok((variable.address, variable.bytes))
    }

    /// How far the launches are that run now, by whichever threads.
    pub fn running(&self) -> Vec<Progress> {
        self.launches().iter().map(|running| Progress::of(running)).collect()
    }

    /// Ends the launches that run now, by whichever threads: they give a fault that says so, soon. Those that begin later run.
    pub fn cancel(&self) {
        self.launches().iter().for_each(|running| running.cancel());
    }

    fn launches(&self) -> MutexGuard<'_, Vec<Arc<Running>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a kernel to its end. `parameters` is its parameter block.
    ///
    /// # Errors
    /// The launch does not suit the kernel, the kernel did something wrong, a [limit](Limits) was reached, or another thread
    /// [cancelled](Emulator::cancel) it.
    pub fn launch(&self, kernel: &Kernel, launch: &Launch, parameters: &[u8]) -> Result<Counters, Fault> {
        Ok(self.run(kernel, launch, parameters, &Preceding::default())?.0)
    }

    /// The same with programmatic dependent launch, behind grids of the same stream that may still run. Before it has waited for them
    /// (`griddepcontrol.wait`), a thread may not write what they accessed, nor read what they wrote. Afterwards `preceding` are the grids
    /// that may still run when the next one begins. A launch without the programmatic attribute takes [`Preceding::default`].
    ///
    /// # Errors
    /// As for [`launch`](Self::launch); then `preceding` is none.
    pub fn launch_behind(
        &self,
        kernel: &Kernel,
        launch: &Launch,
        parameters: &[u8],
        preceding: &mut Preceding,
    ) -> Result<Counters, Fault> {
        let mut grids = std::mem::take(preceding);
        let (counters, order) = self.run(kernel, launch, parameters, &grids)?;
        if let Some(order) = order {
            let name = kernel.name();
            grids.follow(name, &order, &self.budget).map_err(|what| Fault::of_launch(name, what))?;
            *preceding = grids;
        }
        Ok(counters)
    }

    fn run(
        &self,
        kernel: &Kernel,
        launch: &Launch,
        parameters: &[u8],
        preceding: &Preceding,
    ) -> Result<(Counters, Option<GlobalOrder>), Fault> {
        let program = kernel.program();
        let refused = |what| Fault::of_launch(&program.name, what);
        check(self.arch, &kernel.image, program, launch, parameters).map_err(refused)?;
        self.global.install(&kernel.image.statics).map_err(refused)?;
        let Launch { grid, threads, cluster, dynamic_shared } = *launch;
        let Self { counting, schedule, limits, ref budget, .. } = *self;
        let order = self.checks_order.then(|| GlobalOrder::new(budget)).transpose().map_err(refused)?;
        let printed = Printed::new(budget).map_err(refused)?;
        let workspace = self.workspace(program).map_err(refused)?;
        let ctas = grid.map(u64::from).iter().product();
        let running = Arc::new(Running::new(&kernel.image, kernel.index, ctas, limits));
        self.launches().push(Arc::clone(&running));
        let launch = Checked {
            program,
            grid,
            threads,
            cluster,
            dynamic_shared,
            parameters,
            workspace,
            counting,
            schedule,
            printed: &printed,
            order,
            preceding,
            running: &running,
            budget,
        };
        let (done, order) = (run::run(&launch, &self.global), launch.order);
        self.launches().retain(|other| !Arc::ptr_eq(other, &running));
        self.output.add(printed);
        self.global.free(workspace);
        Ok((done?, order))
    }

    /// Makes what cooperative groups keep of a grid, if the program asks for it: its size and the state of its barrier, which may be
    /// any at first. 0 if not.
    fn workspace(&self, program: &Program) -> Result<u64, Reason> {
        if !program.specials.iter().any(|(special, _)| matches!(special, Special::Workspace(_))) {
            return Ok(0);
        }
        let address = self.global.allocate(WORKSPACE.len() as u64)?;
        self.global.view().set(address, &WORKSPACE)?;
        Ok(address)
    }
}
