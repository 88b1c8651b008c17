//! Images: the pixels that the encoder of a model takes, and where a prompt has their features.

use super::checkpoint::Checkpoint;
use super::pool::Pool;
use super::speed::Speed;
use crate::args::GenerateArgs;
use crate::exit::Failure;
use image::imageops::FilterType;
use image::{ImageReader, Limits, RgbImage};
use relax_llm::Image;
use relax_runtime::Stop;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Largest side of an image file in pixels, and memory to decode it.
const MOST_PIXELS: u32 = 30_000;
const MOST_MEMORY: u64 = 1 << 30;
/// Mean and deviation of the channels that CLIP was trained with.
const MEAN: [f64; 3] = [0.481_454_66, 0.457_827_5, 0.408_210_73];
const DEVIATION: [f64; 3] = [0.268_629_54, 0.261_302_58, 0.275_777_11];

/// Images of a prompt.
pub(super) struct Vision {
    image: Image,
    /// Channels, rows and columns of each image.
    pixels: Vec<f32>,
    images: usize,
}

impl Vision {
    /// The files of `--image`; `None` for a model of text.
    pub(super) fn read(
        args: &GenerateArgs,
        checkpoint: &Checkpoint,
    ) -> Result<Option<Self>, Failure> {
        let Some(image) = checkpoint.config.image_input() else {
            return match args.image.is_empty() {
                true => Ok(None),
                false => Err(Failure::usage("--image: the model reads text only")),
            };
        };
        let mut pixels = Vec::new();
        if args.image.is_empty() {
            return Ok(Some(Self { image, pixels, images: 0 }));
        }
        let wrong = |path: &Path, why: String| Failure::usage(format!("{}: {why}", path.display()));
        let folder = &args.loading.model;
        let form = Form::of_folder(folder, image.side).map_err(|why| wrong(folder, why))?;
        for path in &args.image {
            let decoded = decoded(path).map_err(|why| wrong(path, why))?;
            pixels.extend(form.pixels(&decoded, image.side));
        }
        Ok(Some(Self { image, pixels, images: args.image.len() }))
    }

    /// Encodes the images.
    pub(super) fn show(&self, pool: &mut Pool<'_>, speed: &mut Speed) -> Result<(), Stop> {
        if self.images > 0 {
            let start = Instant::now();
            pool.encode_images((&self.pixels, self.images), self.image)?;
            speed.encode_images(self.images, start.elapsed());
        }
        Ok(())
    }

    /// A prompt in which each image has its token as often as it has rows.
    pub(super) fn expanded(&self, prompt: &[u32]) -> Result<Vec<u32>, Failure> {
        let is_image = |token: &u32| *token == self.image.token;
        let places = prompt.iter().filter(|token| is_image(token)).count();
        if places != self.images {
            return Err(Failure::usage(format!(
                "the prompt has {places} image tokens (number {}) for {} images of --image",
                self.image.token, self.images
            )));
        }
        let times = |token: &u32| if is_image(token) { self.image.rows() } else { 1 };
        Ok(prompt.iter().flat_map(|token| std::iter::repeat_n(*token, times(token))).collect())
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

fn decoded(path: &Path) -> Result<RgbImage, String> {
    let metadata = fs::metadata(path).map_err(|error| format!("cannot read it: {error}"))?;
    if !metadata.is_file() {
        return Err("it is no file".to_owned());
    }
    let reader = ImageReader::open(path).and_then(ImageReader::with_guessed_format);
    let mut reader = reader.map_err(|error| format!("cannot read it: {error}"))?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(MOST_PIXELS);
    limits.max_image_height = Some(MOST_PIXELS);
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    let decoded =
        reader.decode().map_err(|error| format!("it is no PNG or JPEG image: {error}"))?;
    if decoded.width() == 0 || decoded.height() == 0 {
        return Err("it has no pixels".to_owned());
    }
    Ok(decoded.to_rgb8())
}
