//! Models of text and images: image files stand at the places of their tokens.

use super::{Folder, errors, letters, listed, model, reference};
use image::{ImageFormat, Rgb, RgbImage};
use relax_program::tensor_files::read_npz;
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// The token of an image, and rows that each has.
const IMAGE: u64 = 63;
const ROWS: usize = 4;
const SIDE: u32 = 10;

/// The image of the prompt of the reference.
fn pictured() -> RgbImage {
    let bytes = fs::read(model("llava").join("reference.npz")).expect("it is there");
    let images = read_npz(&bytes, Some("images")).expect("it is an array").to_ints();
    let byte = |channel, row, column| {
        u8::try_from(images[[0, row, column, channel]]).expect("it is a byte")
    };
    RgbImage::from_fn(SIDE, SIDE, |column, row| {
        Rgb([0, 1, 2].map(|channel| byte(channel, row as usize, column as usize)))
    })
}

fn written(folder: &Folder, name: &str, image: &RgbImage) -> String {
    let path = folder.path().join(name);
    let format = ImageFormat::from_path(&path).expect("it is known");
    image.save_with_format(&path, format).expect("it is written");
    path.display().to_string()
}

/// The prompt of the reference, with one token for its image.
fn prompt() -> Vec<u64> {
    let tokens = reference("llava", "prompt");
    let mut short = tokens.clone();
    short.retain(|token| *token != IMAGE);
    assert_eq!(tokens.len() - short.len(), ROWS);
    short.insert(1, IMAGE);
    short
}

#[test]
fn greedy_tokens_of_an_image_are_those_of_transformers() {
    let Some(folder) = Folder::new() else { return };
    let llava = model("llava");
    let prompt = listed(&prompt());
    let tokens = |image: &str, more: &[&str]| {
        let arguments = ["--image", image, "--tokens", &prompt];
        folder.tokens(&llava, &[arguments.as_slice(), more].concat())
    };
    let want = reference("llava", "greedy");
    let file = written(&folder, "image.png", &pictured());
    assert_eq!(tokens(&file, &["--max-tokens", "64"]), want);
    let arguments = ["--image", &file, "--tokens", &prompt, "--max-tokens", "2", "--bench"];
    let objects = folder.objects(&llava, &arguments);
    assert_eq!(objects.last().expect("there are objects")["images"], 1);
    // What lies beyond the square in the middle is cut off.
    let other = Rgb([200, 10, 90]);
    let mut wide = RgbImage::from_pixel(SIDE + 9, SIDE, other);
    image::imageops::replace(&mut wide, &pictured(), 4, 0);
    let wide = written(&folder, "wide.png", &wide);
    assert_eq!(tokens(&wide, &["--max-tokens", "64"]), want);
    // An image of one color has it in every size, and it is another one.
    let small = written(&folder, "small.png", &RgbImage::from_pixel(SIDE, SIDE, other));
    let large = written(&folder, "large.png", &RgbImage::from_pixel(37, 53, other));
    assert_eq!(tokens(&small, &["--max-tokens", "64"]), tokens(&large, &["--max-tokens", "64"]));
    assert_ne!(tokens(&small, &["--max-tokens", "64"]), want);
    let photo = written(&folder, "photo.jpg", &RgbImage::from_pixel(31, 17, other));
    assert_eq!(tokens(&photo, &["--max-tokens", "3"]).len(), 3);
    // The same image twice has two places, and no image is a model of text.
    let first = &listed(&[&self::prompt(), &self::prompt()[..]].concat());
    let twice = ["--image", &file, "--image", &file, "--tokens", first, "--max-tokens", "5"];
    assert_eq!(folder.tokens(&llava, &twice).len(), 5);
    assert_eq!(folder.tokens(&llava, &["--tokens", "3,1,4", "--max-tokens", "5"]).len(), 5);
}

/// The tiny model with a tokenizer that spells its image token.
fn spelling(folder: &Folder) -> PathBuf {
    let copy = folder.path().join("model");
    fs::create_dir_all(&copy).expect("it is made");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(model("llava").join(file), copy.join(file)).expect("it is copied");
    }
    let mut tokenizer = letters();
    for id in 58..64 {
        tokenizer["model"]["vocab"][format!("{id}")] = json!(id);
    }
    tokenizer["added_tokens"] = json!([{
        "id": IMAGE, "content": "<image>", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true,
    }]);
    tokenizer["model"]["vocab"].as_object_mut().expect("it is an object").remove("63");
    tokenizer["model"]["vocab"]["<image>"] = json!(IMAGE);
    fs::write(copy.join("tokenizer.json"), tokenizer.to_string()).expect("it is written");
    let template = "{% for message in messages %}{{ message.role }}:\
        {% for part in message.content if part.type == 'image' %}<image>{% endfor %}\
        {% for part in message.content if part.type == 'text' %}{{ part.text }}{% endfor %}{% endfor %}";
    fs::write(copy.join("chat_template.jinja"), template.replace(':', "")).expect("it is written");
    copy
}

#[test]
fn a_text_has_the_places_of_images() {
    let Some(folder) = Folder::new() else { return };
    let copy = spelling(&folder);
    let file = written(&folder, "image.png", &pictured());
    let arguments = |more: &[&'static str]| {
        let mut arguments = vec!["--image", file.as_str(), "--max-tokens", "8"];
        arguments.extend(more);
        folder.tokens(&copy, &arguments)
    };
    let numbers = ["D", "B"].map(|letter| u64::from(letter.as_bytes()[0] - b'A'));
    let by_number = listed(&[numbers[0], IMAGE, numbers[1]]);
    let wanted =
        folder.tokens(&copy, &["--image", &file, "--max-tokens", "8", "--tokens", &by_number]);
    assert_eq!(arguments(&["--prompt", "D<image>B"]), wanted);
    let user: Vec<u64> = b"user".iter().map(|letter| u64::from(letter - b'A')).collect();
    let by_number = listed(&[user.as_slice(), &[IMAGE], &numbers[..1]].concat());
    let wanted =
        folder.tokens(&copy, &["--image", &file, "--max-tokens", "8", "--tokens", &by_number]);
    assert_eq!(arguments(&["--chat", "D"]), wanted);
    let places = "the prompt has 0 image tokens (number 63) for 1 images";
    folder.refused(&copy, &["--image", &file, "--prompt", "DB"], 2, places);
    // Without images the spelling is ordinary text, which letters cannot spell.
    folder.refused(&copy, &["--tokens", "3,63"], 2, "has 1 image tokens");
    let config = |text: &str| {
        fs::write(copy.join("preprocessor_config.json"), text).expect("it is written");
    };
    for (text, words) in [
        ("{", "preprocessor_config.json"),
        (r#"{"crop_size": {"height": 224, "width": 224}}"#, "`crop_size` 224: expected 10"),
        (r#"{"size": {"shortest_edge": 9}}"#, "`size` 9: expected 10"),
        (r#"{"image_mean": [1, 2]}"#, "`image_mean` [1,2]: expected three numbers"),
        (r#"{"image_std": [1, 0, 1]}"#, "0 in `image_std`"),
    ] {
        config(text);
        folder.refused(&copy, &["--image", &file, "--prompt", "D<image>"], 2, words);
    }
    config(r#"{"crop_size": 10, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}"#);
    assert_eq!(arguments(&["--prompt", "D<image>B"]).len(), 8);
}

#[test]
fn files_that_are_no_images_are_refused() {
    let Some(folder) = Folder::new() else { return };
    let llava = model("llava");
    let refused = |image: &str, words: &str| {
        folder.refused(&llava, &["--image", image, "--tokens", "1,63"], 2, words);
    };
    let file = written(&folder, "image.png", &pictured());
    folder.refused(&model("llama"), &["--image", &file, "--tokens", "1"], 2, "reads text only");
    refused("nothing.png", "nothing.png: cannot read it");
    refused(&folder.path().display().to_string(), "it is no file");
    refused(&llava.join("config.json").display().to_string(), "it is no PNG or JPEG image");
    let bytes = fs::read(&file).expect("it is there");
    let cut = folder.path().join("cut.png");
    fs::write(&cut, &bytes[..bytes.len() / 2]).expect("it is written");
    refused(&cut.display().to_string(), "it is no PNG or JPEG image");
    // A header that promises 100,000 x 100,000 pixels; its checksum is not looked at before its sizes are.
    let mut large = bytes;
    large[16..24].copy_from_slice(&[0, 1, 0x86, 0xa0, 0, 1, 0x86, 0xa0]);
    fs::write(&cut, &large).expect("it is written");
    refused(&cut.display().to_string(), "it is no PNG or JPEG image");
    let output = folder.generate(&llava, &["--image", &file, "--tokens", "63,63"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("has 2 image tokens"), "{}", errors(&output));
}
