//! cuBLAS, through its cublasLt interface: what GEMMs are compared with.

use std::ffi::c_void;
use std::ptr::{from_ref, without_provenance, without_provenance_mut};

use cudarc::cublaslt::{result, sys};
use tilewright::{DType, Device, Error, Stream, Tensor};

use crate::Result;

mod find;

/// Scratch memory that algorithms may use, in bytes: what cuBLAS recommends for Hopper, twice.
const WORKSPACE: usize = 64 << 20;

/// A problem: C = A·B or, with a transpose, Aᵀ·B, A·Bᵀ, Aᵀ·Bᵀ; all matrices row-major without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Element type of A and B.
    pub input: DType,
    /// Element type of C.
    pub output: DType,
    /// Rows of C.
    pub m: usize,
    /// Columns of C.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// A lies in memory as K x M.
    pub a_transposed: bool,
    /// B lies in memory as N x K.
    pub b_transposed: bool,
    /// Number of matrices of each, one behind the other.
    pub batch: usize,
}

/// The library on one device.
pub struct CublasLt {
    handle: sys::cublasLtHandle_t,
    workspace: Tensor<u8>,
}

impl CublasLt {
    /// Loads the library, from where the loader, a toolkit or Python has it; an error where it is not installed.
    pub fn new(device: &Device) -> Result<Self> {
        if device.is_emulator() {
            return Err("it needs a GPU".into());
        }
        // Makes the device's context current for this thread, where cuBLAS looks for it.
        let workspace = Tensor::uninit(device, &[WORKSPACE])?;
        find::load()?;
        Ok(Self { handle: result::create_handle()?, workspace })
    }

    /// The library's version: `13.1.0`.
    pub fn version(&self) -> String {
        // SAFETY: the library is loaded.
        let version = unsafe { sys::cublasLtGetVersion() };
        format!("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
    }

    /// Asks for at most `most` ways to compute a problem, the one that cuBLAS would take first.
    pub fn plan(&self, gemm: &Gemm, most: usize) -> Result<Plan<'_>> {
        // cuBLAS is column-major: its first operand is B, and it computes the transpose of C.
        let description = Description::new(gemm)?;
        let layouts = [
            Layout::new(gemm.input, gemm.n, gemm.k, gemm.b_transposed, gemm.batch)?,
            Layout::new(gemm.input, gemm.k, gemm.m, gemm.a_transposed, gemm.batch)?,
            Layout::new(gemm.output, gemm.n, gemm.m, false, gemm.batch)?,
        ];
        let [b, a, c] = layouts.each_ref().map(|layout| layout.0);
        let preference = Preference::new()?;
        let mut found = vec![unset(); most];
        let mut count = 0;
        // SAFETY: all descriptors are alive, and there is room for as many results as asked for.
        unsafe {
            let (results, room) = (found.as_mut_ptr(), most as i32);
            let d = description.0;
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                d,
                b,
                a,
                c,
                c,
                preference.0,
                room,
                results,
                &mut count,
            )
            .result()?;
        }
        found.truncate(count.unsigned_abs() as usize);
        found.retain(|found| found.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS);
        if found.is_empty() {
            return Err(format!("cuBLAS has no algorithm for {gemm:?}").into());
        }
        Ok(Plan { library: self, description, layouts, algorithms: found })
    }
}

impl Drop for CublasLt {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed here alone.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// Ways to compute one problem.
pub struct Plan<'a> {
    library: &'a CublasLt,
    description: Description,
    /// Of B, A and C.
    layouts: [Layout; 3],
    algorithms: Vec<sys::cublasLtMatmulHeuristicResult_t>,
}

impl Plan<'_> {
    /// Number of algorithms.
    pub fn algorithms(&self) -> usize {
        self.algorithms.len()
    }

    /// Queues the computation by the algorithm of this number.
    ///
    /// # Safety
    /// The addresses are those of matrices as the problem says, on the library's device, and no work that may run at
    /// the same time conflicts with it; that includes other computations of this library, which share its workspace.
    pub unsafe fn run(
        &self,
        stream: &Stream,
        algorithm: usize,
        a: u64,
        b: u64,
        c: u64,
    ) -> tilewright::Result<()> {
        let algorithm = &self.algorithms[algorithm];
        let (alpha, beta) = (1.0f32, 0.0f32);
        let at = |address: u64| without_provenance::<c_void>(address as usize);
        let [layout_b, layout_a, layout_c] = self.layouts.each_ref().map(|layout| layout.0);
        let output = without_provenance_mut(c as usize);
        let workspace = without_provenance_mut(self.library.workspace.address() as usize);
        // SAFETY: descriptors are alive, scalars live through the call; the caller vouches for the rest.
        let result = unsafe {
            result::matmul(
                self.library.handle,
                self.description.0,
                from_ref(&alpha).cast(),
                from_ref(&beta).cast(),
                at(b),
                layout_b,
                at(a),
                layout_a,
                output,
                layout_c,
                output,
                layout_c,
                &algorithm.algo,
                workspace,
                WORKSPACE,
                stream.raw().cast(),
            )
        };
        result.map_err(|error| Error::Driver {
            call: "cublasLtMatmul",
            code: error.0 as u32,
            name: error.to_string(),
            message: "cuBLAS refused the call".into(),
        })
    }
}

fn data_type(dtype: DType) -> Result<sys::cudaDataType> {
    match dtype {
        DType::F16 => Ok(sys::cudaDataType::CUDA_R_16F),
        DType::BF16 => Ok(sys::cudaDataType::CUDA_R_16BF),
        DType::F32 => Ok(sys::cudaDataType::CUDA_R_32F),
        other => Err(format!("cuBLAS is not asked for {other} here").into()),
    }
}

fn unset() -> sys::cublasLtMatmulHeuristicResult_t {
    // SAFETY: plain data, and 0 is a status.
    unsafe { std::mem::zeroed() }
}

struct Description(sys::cublasLtMatmulDesc_t);

impl Description {
    fn new(gemm: &Gemm) -> Result<Self> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let (compute, scale) = (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType::CUDA_R_32F);
        let description = Self(result::create_matmul_desc(compute, scale)?);
        for (attribute, transposed) in [
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSA, gemm.b_transposed),
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSB, gemm.a_transposed),
        ] {
            let operation = i32::from(transposed);
            // SAFETY: the attribute is a 32-bit enumeration, of which 0 means as it is and 1 transposed.
            unsafe {
                result::set_matmul_desc_attribute(description.0, attribute, from_ref(&operation).cast(), 4)?;
            }
        }
        Ok(description)
    }
}

impl Drop for Description {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed here alone.
        let _ = unsafe { result::destroy_matmul_desc(self.0) };
    }
}

struct Layout(sys::cublasLtMatrixLayout_t);

impl Layout {
    /// A column-major matrix that is `rows` x `cols` after the transposition.
    fn new(dtype: DType, rows: usize, cols: usize, transposed: bool, batch: usize) -> Result<Self> {
        use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
        let (rows, cols) = if transposed { (cols, rows) } else { (rows, cols) };
        let layout =
            Self(result::create_matrix_layout(data_type(dtype)?, rows as u64, cols as u64, rows as i64)?);
        let (count, stride) = (batch as i32, (rows * cols) as i64);
        // SAFETY: the attributes are a 32-bit and a 64-bit integer.
        unsafe {
            let (counted, strided) = (
                Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
            );
            result::set_matrix_layout_attribute(layout.0, counted, from_ref(&count).cast(), 4)?;
            result::set_matrix_layout_attribute(layout.0, strided, from_ref(&stride).cast(), 8)?;
        }
        Ok(layout)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed here alone.
        let _ = unsafe { result::destroy_matrix_layout(self.0) };
    }
}

struct Preference(sys::cublasLtMatmulPreference_t);

impl Preference {
    fn new() -> Result<Self> {
        let preference = Self(result::create_matmul_pref()?);
        let attribute = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        // SAFETY: the attribute is a size.
        unsafe {
            result::set_matmul_pref_attribute(preference.0, attribute, from_ref(&WORKSPACE).cast(), 8)?;
        }
        Ok(preference)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed here alone.
        let _ = unsafe { result::destroy_matmul_pref(self.0) };
    }
}
