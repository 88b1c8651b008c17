//! A library that multiplies matrices as cuBLASLt's description says it does: column by column, with leading dimensions and an
//! epilogue for each element. It knows nothing of whoever asks.

use half::{bf16, f16};
use relax_cuda::{Activation, Device, Element, Error, Form, Product};
use relax_emit::cuda::Sizes;
use std::time::Duration;

/// A device that has it.
pub(super) struct WithLibrary<D>(pub(super) D);

/// Elements of a matrix from its address on: that of row `i` and column `j` is at `i + j * leading`.
struct Matrix {
    elements: Vec<f32>,
    leading: u64,
}

impl Matrix {
    fn at(&self, i: u64, j: u64) -> f32 {
        self.elements[usize::try_from(i + j * self.leading).expect("it is small")]
    }
}

fn size(element: Element) -> usize {
    if element == Element::F32 { 4 } else { 2 }
}

fn read(element: Element, bytes: &[u8]) -> Vec<f32> {
    let of = |bytes: &[u8]| match (element, bytes) {
        (Element::F32, &[a, b, c, d]) => f32::from_ne_bytes([a, b, c, d]),
        (Element::F16, &[a, b]) => f16::from_ne_bytes([a, b]).to_f32(),
        (Element::BF16, &[a, b]) => bf16::from_ne_bytes([a, b]).to_f32(),
        _ => panic!("{} bytes of {element:?}", bytes.len()),
    };
    bytes.chunks_exact(size(element)).map(of).collect()
}

fn write(element: Element, value: f32) -> Vec<u8> {
    match element {
        Element::F32 => value.to_ne_bytes().to_vec(),
        Element::F16 => f16::from_f32(value).to_ne_bytes().to_vec(),
        Element::BF16 => bf16::from_f32(value).to_ne_bytes().to_vec(),
    }
}

impl<D: Device> WithLibrary<D> {
    fn load(&self, element: Element, address: u64, count: u64) -> Result<Vec<f32>, Error> {
        let mut bytes = vec![0; usize::try_from(count).expect("it is small") * size(element)];
        self.0.download(address, &mut bytes)?;
        Ok(read(element, &bytes))
    }

    /// As many elements as a matrix takes: the last column needs no whole leading dimension.
    fn matrix(
        &self,
        form: &Form,
        (address, leading): (u64, u64),
        (rows, columns): (u64, u64),
    ) -> Result<Matrix, Error> {
        assert!(leading >= rows, "columns overlap");
        let elements = self.load(form.dtype, address, leading * (columns - 1) + rows)?;
        Ok(Matrix { elements, leading })
    }
}

/// What is made of an element.
fn activated(activation: Activation, value: f32) -> f32 {
    match activation {
        Activation::None => value,
        Activation::Relu => value.max(0.0),
        Activation::Gelu => {
            let x = f64::from(value);
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            // `(1 + tanh(inner)) / 2`, also where that is nearly 0.
            let half = (if inner < 0.0 { (2.0 * inner).exp() } else { 1.0 })
                / (1.0 + (-2.0 * inner.abs()).exp());
            (x * half) as f32
        }
    }
}

impl<D: Device> WithLibrary<D> {
    fn multiply_one(
        &self,
        form: &Form,
        [a, b, d]: [u64; 3],
        bias: Option<&[f32]>,
    ) -> Result<(), Error> {
        let [of_a, of_b, of_d] = form.leading;
        let left = self.matrix(form, (a, of_a), (form.m, form.k))?;
        let right = self.matrix(form, (b, of_b), (form.k, form.n))?;
        for j in 0..form.n {
            for i in 0..form.m {
                let mut sum: f32 = (0..form.k).map(|k| left.at(i, k) * right.at(k, j)).sum();
                if let Some(bias) = bias {
                    sum += bias[usize::try_from(i).expect("it is small")];
                }
                let value = activated(form.epilogue.activation, sum);
                let to = d + (i + j * of_d) * size(form.dtype) as u64;
                self.0.upload(to, &write(form.dtype, value))?;
            }
        }
        Ok(())
    }
}

impl<D: Device> Device for WithLibrary<D> {
    type Graph = D::Graph;

    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.0.allocate(bytes)
    }

    fn release(&self, address: u64) -> Result<(), Error> {
        self.0.release(address)
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.0.upload(address, bytes)
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.0.download(address, bytes)
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        self.0.copy(from, to, bytes)
    }

    fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        self.0.fill(address, byte, bytes)
    }

    fn launch(&self, symbol: &str, sizes: &Sizes, arguments: &[u64]) -> Result<(), Error> {
        self.0.launch(symbol, sizes, arguments)
    }

    /// One algorithm is missing, as may be.
    fn multiplies(&self, form: &Form) -> bool {
        form.n != 5
    }

    fn multiply(&self, product: &Product) -> Result<(), Error> {
        let form = &product.form;
        for (address, alignment) in product.matrices.iter().zip(form.alignments) {
            assert!(address.is_multiple_of(u64::from(alignment)), "{address} is not aligned");
        }
        let bias = product.bias.map(|bias| self.load(form.dtype, bias, form.m)).transpose()?;
        assert_eq!(bias.is_some(), form.epilogue.has_bias);
        let bytes = |at: usize| form.strides[at] * size(form.dtype) as u64;
        for number in 0..form.batch {
            let matrices = [0, 1, 2].map(|at| product.matrices[at] + number * bytes(at));
            self.multiply_one(form, matrices, bias.as_deref())?;
        }
        Ok(())
    }

    fn begin_capture(&self) -> Result<(), Error> {
        self.0.begin_capture()
    }

    fn end_capture(&self) -> Result<D::Graph, Error> {
        self.0.end_capture()
    }

    fn replay(&self, graph: &D::Graph) -> Result<(), Error> {
        self.0.replay(graph)
    }

    fn start_clock(&self) -> Result<(), Error> {
        self.0.start_clock()
    }

    fn read_clock(&self) -> Result<Duration, Error> {
        self.0.read_clock()
    }
}
