//! Calls of compiled kernels on copies of tensors, with guard bytes on both sides of each copy: a store beyond a buffer is
//! found, and a load beyond it gives values that no input has.
#![allow(unsafe_code)] // kernels are called

use super::arguments::Arguments;
use relax_cpu::{Library, Tensor as Lent};
use relax_emit::{Kernel, Site};
use relax_semantics::tensor::{Data, Tensor};
use relax_syntax::dtype::DType;

/// Guard bytes on each side; a multiple of every alignment.
const GUARD: usize = 4096;

/// Why a call gave no values.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It trapped here.
    Trap(Site),
    /// It did something that no kernel does.
    Broken(String),
}

/// The elements of an array of any dtype as a pointer and a count of bytes.
macro_rules! bytes_of {
    ($data:expr, $as_slice:ident, $as_ptr:ident, $($variant:ident)*) => {
        match $data {
            $(Data::$variant(array) => {
                let slice = array.$as_slice().expect("invariant: tensors are row-major");
                (slice.$as_ptr().cast::<u8>(), std::mem::size_of_val(slice))
            })*
        }
    };
}

/// A copy of a tensor between guard bytes.
struct Guarded {
    /// Of words, so that every dtype is aligned.
    memory: Vec<u64>,
    bytes: usize,
    guard: u8,
    shape: Vec<i64>,
}

impl Guarded {
    fn new(tensor: &Tensor) -> Self {
        let (from, bytes) = bytes_of!(tensor.data(), as_slice, as_ptr, F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool);
        // NaN in every float dtype; a large integer.
        let guard = if tensor.dtype().is_float() { 0xff } else { 0x55 };
        let words = (2 * GUARD + bytes).div_ceil(8);
        let memory = vec![u64::from_ne_bytes([guard; 8]); words];
        let shape = tensor.shape().iter().map(|&extent| extent as i64).collect();
        let mut guarded = Self { memory, bytes, guard, shape };
        // SAFETY: both are `bytes` long, and the memory is new.
        unsafe { std::ptr::copy_nonoverlapping(from, guarded.elements(), bytes) };
        guarded
    }

    fn elements(&mut self) -> *mut u8 {
        // SAFETY: the memory has more than `GUARD` bytes.
        unsafe { self.memory.as_mut_ptr().cast::<u8>().add(GUARD) }
    }

    fn all_bytes(&self) -> &[u8] {
        let start = self.memory.as_ptr().cast::<u8>();
        // SAFETY: words are bytes, and all of them are initialized.
        unsafe { std::slice::from_raw_parts(start, self.memory.len() * 8) }
    }

    fn is_intact(&self) -> bool {
        let all = self.all_bytes();
        let guards = all[..GUARD].iter().chain(&all[GUARD + self.bytes..]);
        guards.into_iter().all(|&byte| byte == self.guard)
    }

    /// Whether the elements are those of the tensor that was copied.
    fn is_like(&self, tensor: &Tensor) -> bool {
        let (from, bytes) = bytes_of!(
            tensor.data(), as_slice, as_ptr, F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool
        );
        // SAFETY: the elements of the tensor are initialized bytes.
        let original = unsafe { std::slice::from_raw_parts(from, bytes) };
        original == &self.all_bytes()[GUARD..GUARD + self.bytes]
    }

    /// The elements as a tensor like the one that was copied.
    fn tensor(&mut self, like: &Tensor) -> Result<Tensor, String> {
        let elements = &self.all_bytes()[GUARD..GUARD + self.bytes];
        if like.dtype() == DType::Bool && elements.iter().any(|&byte| byte > 1) {
            return Err("it stored a bool that is neither 0 nor 1".to_owned());
        }
        let mut data = like.data().clone();
        let (to, bytes) = bytes_of!(&mut data, as_slice_mut, as_mut_ptr, F16 BF16 F32 F64 I8 I16 I32 I64 U8 U16 U32 U64 Bool);
        // SAFETY: both are `bytes` long; every pattern is valid in each dtype, and bools were looked at.
        unsafe { std::ptr::copy_nonoverlapping(self.elements(), to, bytes) };
        Ok(Tensor::from_data(data))
    }
}

/// The buffers that the program stores to, after a run of its kernel; `None` for the others.
///
/// # Errors
/// A trap, or a kernel that does what none may do.
pub(super) fn call(
    kernel: &Kernel,
    library: &Library,
    (arguments, writes): (&Arguments, &[bool]),
) -> Result<Vec<Option<Tensor>>, Fault> {
    let mut guarded: Vec<Guarded> = arguments.tensors.iter().map(Guarded::new).collect();
    let lent = guarded.iter_mut().map(|tensor| {
        let data = tensor.elements().cast();
        Lent { data, shape: tensor.shape.as_ptr() }
    });
    let lent: Vec<Lent> = lent.collect();
    let function = library.function(&kernel.symbol);
    let function = function.map_err(|error| Fault::Broken(error.to_string()))?;
    // SAFETY: there is a tensor of the declared dtype and rank for each buffer, none shared.
    let status = unsafe { function.call(&lent, &arguments.ints, None) };
    if let Some(at) = guarded.iter().position(|tensor| !tensor.is_intact()) {
        return Err(Fault::Broken(format!("it stored beyond the bounds of buffer {at}")));
    }
    let mut buffers = guarded.iter().zip(&arguments.tensors).zip(writes);
    if let Some(at) = buffers.position(|((found, like), writes)| !writes && !found.is_like(like)) {
        return Err(Fault::Broken(format!("it changed buffer {at}, which is an input")));
    }
    if status != 0 {
        let site = usize::try_from(status).ok().and_then(|status| kernel.sites.get(status - 1));
        let unknown = || Fault::Broken(format!("it returned the unknown status {status}"));
        return Err(site.cloned().map_or_else(unknown, Fault::Trap));
    }
    let values = guarded.iter_mut().zip(&arguments.tensors).zip(writes);
    let value = |((found, like), writes): ((&mut Guarded, _), &bool)| {
        writes.then(|| found.tensor(like)).transpose()
    };
    values.map(value).collect::<Result<_, _>>().map_err(Fault::Broken)
}
