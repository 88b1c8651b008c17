//! Products of matrices as cuBLASLt takes them: `D = epilogue(A B)` of matrices that lie column by column. A matrix of ours lies
//! row by row, and that is its transpose to the library. So `Y = X W` is asked for as `Yᵀ = Wᵀ Xᵀ`: the operands change places,
//! nothing is copied and nothing transposed, and a bias for each column of `Y` is one for each row of `D`, as the library has it.

use relax_emit::cuda::CudaKernel;
use relax_rewrite::passes::fuse_ops_by_pattern::COMPOSITE;
use relax_runtime::{DType, TensorArg};
use relax_syntax::ir::{AttrValue, attr};
use relax_tir::workspaces::is_workspace;

/// What is done to each element of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epilogue {
    /// Whether a bias is added, one element for each row of D.
    pub has_bias: bool,
    /// What is made of each element then.
    pub activation: Activation,
}

/// A function of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activation {
    /// The element itself.
    None,
    /// 0 in the place of what is negative.
    Relu,
    /// GELU with the hyperbolic tangent.
    Gelu,
}

/// What the library is asked which algorithm it has for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form {
    /// Of all matrices and the bias: f16, bf16 or f32. Sums are of f32.
    pub dtype: Element,
    /// Rows of A and D.
    pub m: u64,
    /// Columns of B and D.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
    /// From a column to the next, of A, B and D.
    pub leading: [u64; 3],
    /// How many products there are.
    pub batch: u64,
    /// From a matrix to the next, of A, B and D.
    pub strides: [u64; 3],
    /// What follows.
    pub epilogue: Epilogue,
    /// Of which power of two the addresses of A, B and D are multiples, 256 at most.
    pub alignments: [u32; 3],
}

/// The element type of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// 16 bits, 10 of them of the significand.
    F16,
    /// 16 bits, 7 of them.
    BF16,
    /// 32 bits.
    F32,
}

/// A product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Its form.
    pub form: Form,
    /// Addresses of A, B and D.
    pub matrices: [u64; 3],
    /// That of the bias, where there is one.
    pub bias: Option<u64>,
}

/// The epilogues of the library's functions.
fn epilogue(function: &str) -> Option<Epilogue> {
    let (has_bias, activation) = match function {
        "cublas.matmul" => (false, Activation::None),
        "cublas.matmul_bias" => (true, Activation::None),
        "cublas.matmul_relu" => (false, Activation::Relu),
        "cublas.matmul_bias_relu" => (true, Activation::Relu),
        "cublas.matmul_gelu" => (false, Activation::Gelu),
        "cublas.matmul_bias_gelu" => (true, Activation::Gelu),
        _ => return None,
    };
    Some(Epilogue { has_bias, activation })
}

/// How many operands a function of the library takes; none where it has no such function.
pub(crate) fn operands(function: &str) -> Option<usize> {
    epilogue(function).map(|epilogue| if epilogue.has_bias { 3 } else { 2 })
}

/// What of a kernel the library can compute.
pub(crate) struct Offered {
    epilogue: Epilogue,
    /// Which of its tensors are those of the product: the others are memory that it was lent.
    tensors: Vec<usize>,
}

/// What of a kernel the library can compute, if its program is that of a function which the library has.
pub(crate) fn of_kernel(kernel: &CudaKernel) -> Option<Offered> {
    let program = &kernel.program;
    let Some(AttrValue::Str(function)) = attr(&program.attrs, COMPOSITE) else { return None };
    let buffers = program.buffer_params();
    let own = buffers.enumerate().filter(|(_, id)| !is_workspace(program, *id));
    let tensors = own.map(|(at, _)| at);
    Some(Offered { epilogue: epilogue(function)?, tensors: tensors.collect() })
}

fn alignment(address: u64) -> u32 {
    1 << address.trailing_zeros().min(8)
}

impl Product {
    /// That of the tensors `x`, `w`, maybe a bias, and `y` of a kernel, whose tensors lie at these addresses; none where they are
    /// no product.
    pub(crate) fn of(
        offered: &Offered,
        tensors: &[TensorArg<'_>],
        addresses: &[u64],
    ) -> Option<Self> {
        let epilogue = offered.epilogue;
        let own = offered.tensors.iter().map(|&at| Some((tensors.get(at)?, *addresses.get(at)?)));
        let (tensors, addresses): (Vec<_>, Vec<_>) =
            own.collect::<Option<Vec<_>>>()?.into_iter().unzip();
        let shapes: Vec<&[i64]> = tensors.iter().map(|tensor| tensor.shape()).collect();
        let (x, w, b, y) = match (shapes.as_slice(), epilogue.has_bias) {
            ([x, w, y], false) => (*x, *w, None, *y),
            ([x, w, b, y], true) => (*x, *w, Some(*b), *y),
            _ => return None,
        };
        let Extents { batch, rows, inner, columns } = Extents::of(x, w, y)?;
        let fits = b.is_none_or(|b| *b == [columns]);
        let dtype = element(tensors.first()?.dtype())?;
        let alike = tensors.iter().all(|tensor| tensor.dtype() == tensors[0].dtype());
        let size = |extent: i64| u64::try_from(extent).ok().filter(|&extent| extent > 0);
        let (m, n, k, batch) = (size(columns)?, size(rows)?, size(inner)?, size(batch)?);
        let strides = [m.checked_mul(k)?, k.checked_mul(n)?, m.checked_mul(n)?];
        let (&[x, w], &y) = (addresses.first_chunk::<2>()?, addresses.last()?);
        let matrices = [w, x, y];
        let alignments = matrices.map(alignment);
        let leading = [m, k, m];
        let form = Form { dtype, m, n, k, leading, batch, strides, epilogue, alignments };
        let bias = addresses.get(2).copied().filter(|_| epilogue.has_bias);
        (fits && alike).then_some(Self { form, matrices, bias })
    }
}

/// Of the products that tensors are.
struct Extents {
    batch: i64,
    rows: i64,
    inner: i64,
    columns: i64,
}

impl Extents {
    /// Where the right factor is one matrix, the rows of all matrices on the left are those of one.
    fn of(x: &[i64], w: &[i64], y: &[i64]) -> Option<Self> {
        let (&inner, before) = x.split_last()?;
        let (&columns, of_y) = y.split_last()?;
        let (batch, rows) = match (before, w) {
            (_, [_, _]) => {
                (1, before.iter().try_fold(1_i64, |rows, &extent| rows.checked_mul(extent))?)
            }
            (&[batch, rows], &[of_w, _, _]) if batch == of_w => (batch, rows),
            _ => return None,
        };
        let fits = before == of_y && w.ends_with(&[inner, columns]);
        fits.then_some(Self { batch, rows, inner, columns })
    }
}

fn element(dtype: DType) -> Option<Element> {
    Some(match dtype {
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        DType::F32 => Element::F32,
        _ => return None,
    })
}
