//! cuBLASLt, loaded when it is there. It is asked once for each form which algorithm it has.
#![allow(unsafe_code)] // the library is called: each block says why it may be

use crate::{Activation, Element, Error, Form, Product};
use cudarc::cublaslt::result::{self as lt, CublasError};
use cudarc::cublaslt::sys::{
    self, cublasComputeType_t, cublasLtEpilogue_t, cublasLtHandle_t, cublasLtMatmulDesc_t,
    cublasLtMatmulDescAttributes_t as Of, cublasLtMatmulHeuristicResult_t,
    cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t as Wish,
    cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t as Lies, cudaDataType,
};
use cudarc::driver::result as cuda;
use cudarc::driver::sys::{CUdeviceptr, CUstream};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// Memory that algorithms may use; one product runs at a time.
const WORKSPACE: usize = 32 << 20;

/// The library on a device.
pub(crate) struct Cublas {
    handle: cublasLtHandle_t,
    workspace: CUdeviceptr,
    /// By form; none where it has no algorithm.
    plans: Mutex<BTreeMap<Form, Option<Plan>>>,
}

/// How a form is multiplied.
struct Plan {
    operation: Operation,
    /// Of A, B and D.
    layouts: [Layout; 3],
    found: cublasLtMatmulHeuristicResult_t,
}

/// A description of a product; it goes with this, also where no algorithm is found.
struct Operation(cublasLtMatmulDesc_t);

impl Drop for Operation {
    fn drop(&mut self) {
        // SAFETY: it was made with this, and nobody else has it. A product that was asked for does not need it.
        let _ = unsafe { lt::destroy_matmul_desc(self.0) };
    }
}

/// One of a matrix.
struct Layout(cublasLtMatrixLayout_t);

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: as of an operation.
        let _ = unsafe { lt::destroy_matrix_layout(self.0) };
    }
}

/// What an algorithm may use.
struct Wishes(cublasLtMatmulPreference_t);

impl Drop for Wishes {
    fn drop(&mut self) {
        // SAFETY: as of an operation.
        let _ = unsafe { lt::destroy_matmul_pref(self.0) };
    }
}

// SAFETY: the library allows every call from every thread; descriptions are changed behind the lock alone.
unsafe impl Send for Cublas {}
// SAFETY: as above.
unsafe impl Sync for Cublas {}

fn said(error: CublasError) -> Error {
    Error::Driver(format!("cuBLASLt: {error:?}"))
}

impl Cublas {
    /// None where it is not installed, does not start, or is not to be used (`RELAX_CUBLAS=0`). The context is the thread's.
    pub(crate) fn find() -> Option<Self> {
        if std::env::var_os("RELAX_CUBLAS").is_some_and(|value| value == "0") {
            return None;
        }
        // SAFETY: the library starts nothing when it is loaded. To call it without is a panic.
        unsafe { sys::is_culib_present() }.then_some(())?;
        let handle = lt::create_handle().ok()?;
        // SAFETY: nothing reads it before something was written.
        let workspace = unsafe { cuda::malloc_sync(WORKSPACE) };
        match workspace {
            Ok(workspace) => Some(Self { handle, workspace, plans: Mutex::default() }),
            Err(_) => {
                // SAFETY: it was made a moment ago, and nobody else has it.
                let _ = unsafe { lt::destroy_handle(handle) };
                None
            }
        }
    }

    /// Whether there is an algorithm.
    pub(crate) fn has(&self, form: &Form) -> bool {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.entry(*form).or_insert_with(|| self.plan(form).ok()).is_some()
    }

    fn plan(&self, form: &Form) -> Result<Plan, CublasError> {
        let dtype = dtype(form.dtype);
        let layout = |rows, columns, at: usize| {
            let leading = i64::try_from(form.leading[at]).unwrap_or(0);
            let layout = Layout(lt::create_matrix_layout(dtype, rows, columns, leading)?);
            // What has no value of the type is none that the library takes.
            lay(&layout, Lies::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count(form.batch))?;
            let stride = i64::try_from(form.strides[at]).unwrap_or(-1);
            lay(&layout, Lies::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride)?;
            Ok::<_, CublasError>(layout)
        };
        // Sums of f32, without the shorter significand of TF32.
        let compute = cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let operation = Operation(lt::create_matmul_desc(compute, cudaDataType::CUDA_R_32F)?);
        let a = layout(form.m, form.k, 0)?;
        let b = layout(form.k, form.n, 1)?;
        let d = layout(form.m, form.n, 2)?;
        set(&operation, Of::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue(form))?;
        let wishes = Wishes(lt::create_matmul_pref()?);
        let [of_a, of_b, of_d] = form.alignments;
        let all = [
            (Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_a),
            (Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_b),
            (Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_d),
            (Wish::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_d),
        ];
        for (wish, bytes) in all {
            let at = std::ptr::from_ref(&bytes).cast::<c_void>();
            // SAFETY: the attribute is a u32, which is copied.
            unsafe { lt::set_matmul_pref_attribute(wishes.0, wish, at, size_of::<u32>()) }?;
        }
        let most = (Wish::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, WORKSPACE);
        let at = std::ptr::from_ref(&most.1).cast::<c_void>();
        // SAFETY: the attribute is a size, which is copied.
        unsafe { lt::set_matmul_pref_attribute(wishes.0, most.0, at, size_of::<usize>()) }?;
        let (of_product, wishes) = (operation.0, wishes.0);
        // SAFETY: all descriptions were made above and are there.
        let found = unsafe {
            lt::get_matmul_algo_heuristic(self.handle, of_product, a.0, b.0, d.0, d.0, wishes)
        }?;
        Ok(Plan { operation, layouts: [a, b, d], found })
    }

    /// Asks for a product whose form it has.
    pub(crate) fn multiply(&self, product: &Product, stream: CUstream) -> Result<(), Error> {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Some(plan)) = plans.get(&product.form) else {
            return Err(Error::Driver("cuBLASLt was not asked for this form".to_owned()));
        };
        if let Some(bias) = product.bias {
            set(&plan.operation, Of::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias).map_err(said)?;
        }
        let [a, b, d] = product.matrices;
        let [of_a, of_b, of_d] = plan.layouts.each_ref().map(|layout| layout.0);
        let at = |address: u64| std::ptr::without_provenance::<c_void>(address as usize);
        let (one, zero) = (1.0_f32, 0.0_f32);
        // SAFETY: the caller asked for matrices of this form at these addresses, which are the device's; the descriptions are
        // there; factors and descriptions are read before this returns.
        let asked = unsafe {
            lt::matmul(
                self.handle,
                plan.operation.0,
                std::ptr::from_ref(&one).cast(),
                std::ptr::from_ref(&zero).cast(),
                at(a),
                of_a,
                at(b),
                of_b,
                at(d),
                of_d,
                at(d).cast_mut(),
                of_d,
                &raw const plan.found.algo,
                at(self.workspace).cast_mut(),
                WORKSPACE,
                stream.cast(),
            )
        };
        asked.map_err(said)
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: it was given when this was made, and nothing is under way: whoever drops this has waited.
        let _ = unsafe { cuda::free_sync(self.workspace) };
        // SAFETY: as above.
        let _ = unsafe { lt::destroy_handle(self.handle) };
    }
}

fn set<T>(operation: &Operation, of: Of, value: &T) -> Result<(), CublasError> {
    let at = std::ptr::from_ref(value).cast::<c_void>();
    // SAFETY: both callers give the type that the library's header says for the attribute; it is copied.
    unsafe { lt::set_matmul_desc_attribute(operation.0, of, at, size_of::<T>()) }
}

fn lay<T>(layout: &Layout, of: Lies, value: &T) -> Result<(), CublasError> {
    let at = std::ptr::from_ref(value).cast::<c_void>();
    // SAFETY: both callers give the type that the library's header says for the attribute; it is copied.
    unsafe { lt::set_matrix_layout_attribute(layout.0, of, at, size_of::<T>()) }
}

/// As many products as the library counts.
fn count(batch: u64) -> i32 {
    i32::try_from(batch).unwrap_or(-1)
}

fn dtype(element: Element) -> cudaDataType {
    match element {
        Element::F16 => cudaDataType::CUDA_R_16F,
        Element::BF16 => cudaDataType::CUDA_R_16BF,
        Element::F32 => cudaDataType::CUDA_R_32F,
    }
}

fn epilogue(form: &Form) -> cublasLtEpilogue_t {
    match (form.epilogue.has_bias, form.epilogue.activation) {
        (false, Activation::None) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DEFAULT,
        (false, Activation::Relu) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU,
        (false, Activation::Gelu) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU,
        (true, Activation::None) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
        (true, Activation::Relu) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_BIAS,
        (true, Activation::Gelu) => cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_BIAS,
    }
}
