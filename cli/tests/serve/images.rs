//! Chats with images: data URLs of messages.

use super::Model;
use image::{ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};
use std::fs;
use std::io::Cursor;

/// The tiny LLaVA, whose tokenizer spells its image token.
fn llava() -> Option<Model> {
    let model = Model::of("llava")?;
    model.edit("tokenizer.json", |text| {
        let mut tokenizer: Value = serde_json::from_str(&text).expect("it is JSON");
        tokenizer["added_tokens"] = json!([{
            "id": 63, "content": "<image>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true,
        }]);
        let vocabulary = tokenizer["model"]["vocab"].as_object_mut().expect("it is an object");
        vocabulary.remove("\u{a9}");
        vocabulary.insert("<image>".to_owned(), json!(63));
        tokenizer.to_string()
    });
    let template = "{% for message in messages %}{{ message.role }}\
        {% for part in message.content %}{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}{% endfor %}";
    fs::write(model.path().join("chat_template.jinja"), template).expect("it is written");
    Some(model)
}

fn png(color: [u8; 3], side: u32) -> Vec<u8> {
    let image = RgbImage::from_fn(side, side, |column, row| {
        Rgb(color.map(|value| value.wrapping_add((column * 9 + row * 5) as u8)))
    });
    let mut file = Cursor::new(Vec::new());
    image.write_to(&mut file, ImageFormat::Png).expect("it is written");
    file.into_inner()
}

fn url(bytes: &[u8]) -> String {
    format!("data:image/png;base64,{}", base64::encode(bytes))
}

fn asked(content: Value) -> Value {
    json!({ "model": "tiny", "messages": [{ "role": "user", "content": content }], "max_tokens": 24, "temperature": 0 })
}

fn part(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url, "detail": "low" } })
}

#[test]
fn chats_with_images_are_those_of_generate() {
    let Some(model) = llava() else { return };
    let images = [png([10, 200, 90], 10), png([250, 3, 77], 21)];
    let paths = [0, 1].map(|at| {
        let path = model.path().join(format!("{at}.png"));
        fs::write(&path, &images[at]).expect("it is written");
        path.display().to_string()
    });
    let generated = |arguments: &[&str]| {
        let arguments = [arguments, &["--max-tokens", "24", "-q"]].concat();
        let output = model.command("generate", &arguments).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).expect("it is UTF-8").trim_end_matches('\n').to_owned()
    };
    let of = |paths: &[&String]| {
        let images = paths.iter().flat_map(|path| ["--image", path.as_str()]);
        generated(&images.chain(["--chat", "DB"]).collect::<Vec<_>>())
    };
    let want = [
        of(&[&paths[0]]),
        of(&[&paths[1]]),
        of(&[&paths[0], &paths[1]]),
        of(&[&paths[1], &paths[0]]),
        of(&[]),
    ];
    for (at, one) in want.iter().enumerate() {
        assert!(want[..at].iter().all(|other| other != one), "{want:?}");
    }
    let behind = generated(&["--image", &paths[0], "--prompt", "userD<image>B"]);
    let server = model.serve(&["--parallel", "8"]);
    let text = |text: &str| json!({ "type": "text", "text": text });
    let [first, second] = [0, 1].map(|at| part(&url(&images[at])));
    let contents = [
        (json!([first, text("DB")]), &want[0]),
        (json!([second, text("DB")]), &want[1]),
        (json!([first, second, text("DB")]), &want[2]),
        (json!([second, first, text("DB")]), &want[3]),
        (json!("DB"), &want[4]),
        (json!([text("D"), first, text("B")]), &behind),
    ];
    // All at once: a call has sequences with images and without.
    std::thread::scope(|scope| {
        for (content, want) in &contents {
            let server = &server;
            scope.spawn(move || {
                let mut body = asked(content.clone());
                body["n"] = json!(2);
                let got = server.post("/v1/chat/completions", &body);
                assert_eq!(got.status, 200, "{}", got.body);
                for choice in 0..2 {
                    let message = &got.json()["choices"][choice]["message"]["content"];
                    assert_eq!(message.as_str(), Some(want.as_str()), "{content}");
                }
            });
        }
    });
}

#[test]
fn what_is_no_image_is_refused() {
    let Some(model) = llava() else { return };
    let server = model.serve(&["--max-body", "1M"]);
    let whole = png([1, 2, 3], 10);
    let mut promises = whole.clone();
    promises[16..24].copy_from_slice(&[0, 0, 0x70, 0, 0, 0, 0x70, 0]);
    let place = "messages[0].content[0].image_url.url";
    for (url, words) in [
        ("https://example.com/a.png".to_owned(), "fetches nothing"),
        ("file:///etc/passwd".to_owned(), "fetches nothing"),
        ("data:image/png,abc".to_owned(), "fetches nothing"),
        (String::new(), "fetches nothing"),
        ("data:image/png;base64,@@".to_owned(), "no base64"),
        (url(b""), "no PNG or JPEG image"),
        (url(b"GIF89a"), "no PNG or JPEG image"),
        (url(&whole[..whole.len() / 2]), "no PNG or JPEG image"),
        // 28,672 x 28,672 pixels would take gigabytes.
        (url(&promises), "no PNG or JPEG image"),
    ] {
        let got = server.post("/v1/chat/completions", &asked(json!([part(&url)])));
        assert_eq!(got.status, 400, "{url}: {}", got.body);
        let error = &got.json()["error"];
        assert_eq!(error["param"], place, "{error}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains(words)), "{error}");
    }
    let refused = |content: Value, param: &str, words: &str| {
        let got = server.post("/v1/chat/completions", &asked(content));
        let error = got.json()["error"].clone();
        assert_eq!((got.status, &error["param"]), (400, &json!(param)), "{error}");
        assert!(error["message"].as_str().is_some_and(|said| said.contains(words)), "{error}");
    };
    let image = part(&url(&whole));
    // 128 positions: 32 images of 4 leave none.
    refused(json!(vec![image.clone(); 40]), "messages[0].content[31].image_url.url", "128 at most");
    refused(json!([image, { "type": "text", "text": "<image>" }]), "messages", "image");
    refused(
        json!([{ "type": "image_url", "image_url": "x" }]),
        "messages[0].content[0].image_url",
        "an object",
    );
    refused(json!([{ "type": "input_audio" }]), "messages[0].content[0].type", "`image_url`");
    let body = json!({ "model": "tiny", "prompt": [63], "max_tokens": 2 });
    assert_eq!(server.post("/v1/completions", &body).json()["error"]["param"], "prompt");
    let plain = asked(json!([{ "type": "text", "text": "DB" }]));
    assert_eq!(server.post("/v1/chat/completions", &plain).status, 200);
}
