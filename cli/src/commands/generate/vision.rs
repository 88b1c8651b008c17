//! Images: the pixels that the encoder of a model takes, and where a prompt has their features. `generate` and `serve` share it.

use super::checkpoint::Checkpoint;
use super::encoded::Encoded;
use super::pool::Pool;
use super::regular;
use crate::exit::Failure;
use image::imageops::FilterType;
use image::{ImageReader, Limits, RgbImage};
use relax_llm::Image;
use relax_runtime::Stop;
use serde_json::Value;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

/// Largest side of an image file in pixels, bytes of the file, and bytes to decode it.
const MOST_PIXELS: u32 = 30_000;
const LONGEST: u64 = 1 << 30;
const MOST_MEMORY: u64 = 1 << 30;
/// Bytes to decode an image of a request; several are decoded at once.
#[cfg(feature = "serve")]
const MOST_OF_REQUEST: u64 = 128 << 20;
/// Mean and deviation of the channels that CLIP was trained with.
const MEAN: [f64; 3] = [0.481_454_66, 0.457_827_5, 0.408_210_73];
const DEVIATION: [f64; 3] = [0.268_629_54, 0.261_302_58, 0.275_777_11];

/// How a model takes images.
pub(crate) struct Vision {
    image: Image,
    form: Form,
}

/// The images of a prompt as the encoder takes them: channels, rows and columns of each.
#[derive(Default)]
pub(crate) struct Pixels {
    values: Vec<f32>,
    pub(crate) images: usize,
}

impl Vision {
    /// `None` for a model of text.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Result<Option<Self>, Failure> {
        let Some(image) = checkpoint.config.image_input() else { return Ok(None) };
        let form = match &checkpoint.folder {
            Some(folder) => Form::of_folder(folder, image.side)
                .map_err(|why| Failure::usage(format!("{}: {why}", folder.display())))?,
            None => Form { mean: MEAN, deviation: DEVIATION },
        };
        Ok(Some(Self { image, form }))
    }

    /// The files of `--image`.
    pub(super) fn read(&self, paths: &[PathBuf]) -> Result<Pixels, Failure> {
        let mut pixels = Pixels::default();
        for path in paths {
            let added = bytes_of(path).and_then(|bytes| self.add(&bytes, MOST_MEMORY, &mut pixels));
            added.map_err(|why| Failure::usage(format!("{}: {why}", path.display())))?;
        }
        Ok(pixels)
    }

    /// One more image of a request.
    #[cfg(feature = "serve")]
    pub(crate) fn add_of_request(&self, bytes: &[u8], pixels: &mut Pixels) -> Result<(), String> {
        self.add(bytes, MOST_OF_REQUEST, pixels)
    }

    fn add(&self, bytes: &[u8], memory: u64, pixels: &mut Pixels) -> Result<(), String> {
        let decoded = decoded(bytes, memory)?;
        pixels.values.extend(self.form.pixels(&decoded, self.image.side));
        pixels.images += 1;
        Ok(())
    }

    /// The features of images.
    pub(crate) fn encode(&self, pixels: &Pixels, pool: &Pool<'_>) -> Result<Encoded, Stop> {
        match pixels.images {
            0 => Ok(Encoded::Nothing),
            images => pool.encode_images((&pixels.values, images), self.image),
        }
    }

    /// A prompt in which each of so many images has its token as often as it has rows.
    pub(crate) fn expanded(&self, prompt: &[u32], images: usize) -> Result<Vec<u32>, String> {
        let is_image = |token: &u32| *token == self.image.token;
        let places = prompt.iter().filter(|token| is_image(token)).count();
        if places != images {
            return Err(format!(
                "the prompt has {places} image tokens (number {}) for {images} images",
                self.image.token
            ));
        }
        let times = |token: &u32| if is_image(token) { self.image.rows() } else { 1 };
        Ok(prompt.iter().flat_map(|token| std::iter::repeat_n(*token, times(token))).collect())
    }

    /// Positions that an image takes.
    #[cfg(feature = "serve")]
    pub(crate) fn rows(&self) -> usize {
        self.image.rows()
    }
}

/// How the pixels of files become those of the encoder.
struct Form {
    mean: [f64; 3],
    deviation: [f64; 3],
}

impl Form {
    /// `preprocessor_config.json` of a folder, or what CLIP has.
    fn of_folder(folder: &Path, side: usize) -> Result<Self, String> {
        let path = folder.join("preprocessor_config.json");
        let config: Value = match path.is_file() {
            false => Value::Null,
            true => {
                let text = fs::read_to_string(&path)
                    .map_err(|error| format!("cannot read preprocessor_config.json: {error}"))?;
                serde_json::from_str(&text)
                    .map_err(|error| format!("preprocessor_config.json: {error}"))?
            }
        };
        // A number, or an object of these.
        let parts = ["", "/shortest_edge", "/height", "/width"];
        for key in ["/size", "/crop_size"] {
            let sizes = parts.iter().filter_map(|part| config.pointer(&format!("{key}{part}")));
            let mut sizes = sizes.filter(|size| size.is_number());
            if let Some(other) = sizes.find(|size| size.as_u64() != Some(side as u64)) {
                return Err(format!(
                    "preprocessor_config.json has `{}` {other}: expected {side}, the size of the encoder",
                    &key[1..]
                ));
            }
        }
        let channels = |key: &str, default: [f64; 3]| match &config[key] {
            Value::Null => Ok(default),
            list => {
                let numbers = list.as_array().map(|list| list.iter().map(Value::as_f64));
                let numbers: Option<Vec<f64>> = numbers.and_then(Iterator::collect);
                let three = numbers.and_then(|numbers| <[f64; 3]>::try_from(numbers).ok());
                three.ok_or_else(|| {
                    format!("preprocessor_config.json has `{key}` {list}: expected three numbers")
                })
            }
        };
        let deviation = channels("image_std", DEVIATION)?;
        if deviation.contains(&0.0) {
            return Err("preprocessor_config.json has 0 in `image_std`".to_owned());
        }
        Ok(Self { mean: channels("image_mean", MEAN)?, deviation })
    }

    /// The shorter side fills the square, and what the longer one has beyond it is cut off at both ends.
    fn pixels(&self, image: &RgbImage, side: usize) -> Vec<f32> {
        let (width, height) = (image.width() as usize, image.height() as usize);
        let short = width.min(height).max(1);
        let scaled = [width, height].map(|length| (side * length / short).max(side) as u32);
        let resized = match scaled == [image.width(), image.height()] {
            true => image.clone(),
            false => image::imageops::resize(image, scaled[0], scaled[1], FilterType::CatmullRom),
        };
        let [left, top] = scaled.map(|length| (length - side as u32) / 2);
        let mut pixels = Vec::with_capacity(3 * side * side);
        for channel in 0..3 {
            for row in 0..side as u32 {
                for column in 0..side as u32 {
                    let value = resized.get_pixel(left + column, top + row)[channel];
                    let value = f64::from(value) / 255.0 - self.mean[channel];
                    pixels.push((value / self.deviation[channel]) as f32);
                }
            }
        }
        pixels
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    if regular(path)?.len() > LONGEST {
        return Err(format!("it has more than {} MiB", LONGEST >> 20));
    }
    fs::read(path).map_err(|error| format!("cannot read it: {error}"))
}

fn decoded(bytes: &[u8], memory: u64) -> Result<RgbImage, String> {
    let wrong = |error: String| format!("it is no PNG or JPEG image: {error}");
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format();
    let mut reader = reader.map_err(|error| wrong(error.to_string()))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MOST_PIXELS);
    limits.max_image_height = Some(MOST_PIXELS);
    limits.max_alloc = Some(memory);
    reader.limits(limits);
    let decoded = reader.decode().map_err(|error| wrong(error.to_string()))?;
    if decoded.width() == 0 || decoded.height() == 0 {
        return Err("it has no pixels".to_owned());
    }
    Ok(decoded.to_rgb8())
}
