//! What is refused, each with the key or tensor, what is there and what is expected.

use crate::gguf::{Item, Table, metadata};
use crate::model::{ALL, Contents, config_text, tensors};
use relax_llm::{Config, Format, Stored, text};
use serde_json::{Value, json};

/// Checks that a configuration of Hugging Face with these values is refused with all these words. `null` removes a key.
fn refused(name: &str, edits: Value, words: &[&str]) {
    let mut config: Value = serde_json::from_str(&config_text(name)).expect("it is JSON");
    let fields = config.as_object_mut().expect("it is an object");
    for (key, value) in edits.as_object().expect("edits by key") {
        fields.insert(key.clone(), value.clone());
    }
    let found = Config::from_json(&config.to_string());
    let message = found.expect_err(&format!("{edits} should be refused")).to_string();
    for word in words {
        assert!(message.contains(word), "{edits}: {message}");
    }
}

#[test]
fn families() {
    refused("llama", json!({"model_type": "mixtral"}), &["`model_type`", "mixtral", "mistral"]);
    refused("llama", json!({"model_type": null}), &["lacks `model_type`", "llama"]);
    refused("gemma3", json!({"model_type": "gemma3"}), &["\"gemma3\"", "gemma3_text"]);
    let classes = json!({"architectures": ["LlamaForSequenceClassification"]});
    refused("llama", classes, &["`architectures`", "LlamaForCausalLM"]);
    for text in ["", "[]", "{", "null"] {
        assert!(Config::from_json(text).is_err());
    }
}

#[test]
fn encoders() {
    let whisper = |edits, words: &[&str]| refused("whisper", edits, words);
    whisper(
        json!({"encoder_attention_heads": 5}),
        &["`encoder_attention_heads` = 5", "`d_model` = 32"],
    );
    whisper(json!({"num_mel_bins": null}), &["lacks `num_mel_bins`"]);
    whisper(json!({"max_source_positions": 90_001}), &["`max_source_positions`", "90000"]);
    whisper(json!({"activation_function": "relu"}), &["`activation_function`", "gelu"]);
    whisper(json!({"scale_embedding": true}), &["`scale_embedding`", "false"]);
    whisper(json!({"adapter": 1}), &["`adapter` = 1"]);
    let llava = |edits, words: &[&str]| refused("llava", edits, words);
    llava(json!({"image_token_index": 64}), &["`image_token_index` = 64", "below", "64"]);
    llava(json!({"vision_feature_layer": -4}), &["`vision_feature_layer` = -4", "3 layers"]);
    llava(json!({"vision_feature_layer": [1, 2]}), &["`vision_feature_layer`", "a list of 2"]);
    llava(json!({"vision_feature_select_strategy": "full"}), &["default"]);
    let edited = |part: &str, key: &str, value: Value| {
        let mut config: Value = serde_json::from_str(&config_text("llava")).expect("it is JSON");
        config[part][key] = value;
        json!({ part: config[part] })
    };
    let vision = |key, value| edited("vision_config", key, value);
    llava(vision("num_attention_heads", json!(5)), &["`vision_config.num_attention_heads` = 5"]);
    llava(vision("patch_size", json!(3)), &["`vision_config.patch_size` = 3", "`image_size` = 10"]);
    llava(vision("model_type", json!("siglip")), &["clip_vision_model"]);
    // Its template would read tokens in the place of features.
    let mut gemma: Value = serde_json::from_str(&config_text("gemma2")).expect("it is JSON");
    gemma["architectures"] = json!(["Gemma2ForCausalLM"]);
    llava(json!({ "text_config": gemma }), &["`text_config.model_type`", "gemma2"]);
}

#[test]
fn sizes() {
    let heads = "`num_attention_heads`";
    refused("llama", json!({"num_attention_heads": 0}), &[heads, "= 0", "from 1"]);
    refused("llama", json!({"num_attention_heads": -4}), &[heads, "= -4"]);
    refused("llama", json!({"num_attention_heads": 4.5}), &[heads, "4.5", "an integer"]);
    refused("llama", json!({"num_attention_heads": "4"}), &[heads, "\"4\"", "an integer"]);
    refused("llama", json!({"num_attention_heads": 1e300}), &[heads, "an integer from 1"]);
    refused("llama", json!({"num_attention_heads": null}), &["lacks `num_attention_heads`"]);
    refused(
        "qwen2",
        json!({"num_attention_heads": 5}),
        &[heads, "= 5", "divisor of `hidden_size`"],
    );
    refused("gpt2", json!({"n_head": 5}), &["`n_head`", "divisor of `n_embd` = 32"]);
    let kv_heads = "`num_key_value_heads`";
    refused("llama", json!({"num_key_value_heads": 3}), &[kv_heads, "= 3", "divisor", "= 4"]);
    refused("mistral", json!({"num_key_value_heads": null}), &["lacks", kv_heads]);
    refused("llama", json!({"num_hidden_layers": 100_001}), &["`num_hidden_layers`", "100001"]);
    refused("llama", json!({"head_dim": 9}), &["`head_dim` = 9", "even"]);
    refused("qwen3", json!({"head_dim": null}), &["lacks `head_dim`"]);
    refused("llama", json!({"vocab_size": null}), &["lacks `vocab_size`"]);
    refused("llama", json!({"rms_norm_eps": null}), &["lacks `rms_norm_eps`"]);
    refused("llama", json!({"rms_norm_eps": 0}), &["`rms_norm_eps` = 0", "above 0"]);
    refused("gemma2", json!({"query_pre_attn_scalar": 0}), &["`query_pre_attn_scalar`"]);
}

#[test]
fn rotary_embeddings() {
    for kind in ["yarn", "longrope", "dynamic", "su", "proportional"] {
        let older = json!({"rope_parameters": null, "rope_scaling": {"type": kind, "factor": 2}});
        refused("llama", older, &["`rope_scaling.type`", kind, "linear"]);
        let newer = json!({"rope_parameters": {"rope_type": kind, "rope_theta": 10000}});
        refused("llama", newer, &["`rope_parameters.rope_type`", kind, "llama3"]);
    }
    let key = "rope_parameters";
    refused("llama", json!({key: {"rope_type": "linear", "rope_theta": 5}}), &["lacks", "factor"]);
    refused("llama", json!({key: {"rope_type": "default"}}), &["lacks", "rope_theta"]);
    let beside = json!({key: {"rope_type": "default", "rope_theta": 5, "beta_fast": 2}});
    refused("llama", beside, &["`rope_parameters.beta_fast` = 2", "not supported"]);
    let partial = json!({key: {"rope_theta": 5, "partial_rotary_factor": 0.5}});
    refused("llama", partial, &["partial_rotary_factor", "not supported"]);
    let crossed = json!({key: {"rope_type": "llama3", "rope_theta": 5, "factor": 8, "low_freq_factor": 4,
        "high_freq_factor": 4, "original_max_position_embeddings": 64}});
    refused("llama", crossed, &["high_freq_factor", "low_freq_factor"]);
}

#[test]
fn switches() {
    refused("llama", json!({"rope_interleaved": true}), &["`rope_interleaved` = true", "false"]);
    refused(
        "llama",
        json!({"num_local_experts": 8}),
        &["`num_local_experts` = 8", "not supported"],
    );
    refused("llama", json!({"sliding_window": 8}), &["`sliding_window` = 8", "not supported"]);
    let quantized = json!({"quantization_config": {"quant_method": "gptq"}});
    refused("llama", quantized, &["quantization_config.quant_method", "gptq"]);
    refused("llama", json!({"hidden_act": "relu"}), &["`hidden_act` = \"relu\"", "silu"]);
    refused("gemma2", json!({"hidden_activation": "silu"}), &["hidden_activation", "gelu"]);
    refused("gpt2", json!({"activation_function": "gelu"}), &["activation_function", "gelu_new"]);
    refused("gpt2", json!({"scale_attn_by_inverse_layer_idx": true}), &["inverse_layer", "false"]);
    refused("phi3", json!({"attention_bias": true}), &["`attention_bias`", "false"]);
    refused("gemma3", json!({"use_bidirectional_attention": true}), &["bidirectional", "false"]);
    refused(
        "llama",
        json!({"tie_word_embeddings": 1}),
        &["`tie_word_embeddings`", "true or false"],
    );
    let kinds = json!({"layer_types": ["full_attention", "chunked_attention"]});
    refused("gemma3", kinds, &["layer_types", "chunked_attention", "sliding_attention"]);
    refused("gemma3", json!({"layer_types": ["full_attention"]}), &["layer_types", "list of 2"]);
    refused("gemma2", json!({"sliding_window": null}), &["lacks `sliding_window`"]);
    refused(
        "qwen3",
        json!({"max_window_layers": null, "layer_types": null}),
        &["max_window_layers"],
    );
}

/// The older keys say the same as those of transformers 5.
#[test]
fn older_keys() {
    let same = |name: &str, edits: Value| {
        let newer = config_text(name);
        let mut older: Value = serde_json::from_str(&newer).expect("it is JSON");
        let fields = older.as_object_mut().expect("it is an object");
        fields.remove("rope_parameters");
        fields.remove("layer_types");
        fields.extend(edits.as_object().expect("edits by key").clone());
        let [newer, older] = [newer, older.to_string()].map(|text| Config::from_json(&text));
        assert_eq!(newer.expect("it is supported"), older.expect("it is supported"), "{name}");
    };
    same("llama", json!({}));
    same("llama", json!({"rope_interleaved": false, "transformers.js_config": {"dtype": "q4"}}));
    same(
        "llama_linear",
        json!({"rope_theta": 500, "rope_scaling": {"type": "linear", "factor": 4}}),
    );
    let llama3 = json!({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
        "high_freq_factor": 4, "original_max_position_embeddings": 64});
    same("llama3", json!({"rope_theta": 10000, "rope_scaling": llama3}));
    same("qwen3", json!({"rope_theta": 10000}));
    same("phi3", json!({"partial_rotary_factor": 0.5}));
    same("gemma2", json!({}));
    let linear = json!({"rope_type": "linear", "factor": 2});
    same(
        "gemma3",
        json!({"sliding_window_pattern": 2, "rope_theta": 1000, "rope_local_base_freq": 100,
        "rope_scaling": linear}),
    );
}

fn refused_metadata(key: &str, item: Option<Item>, words: &[&str]) {
    let more = [("attention.layer_norm_rms_epsilon", 1e-6), ("attention.head_count_kv", 2.0)];
    let Table(mut items) = metadata("llama", &more);
    match item {
        Some(item) => items.insert(key.to_owned(), item),
        None => items.remove(key),
    };
    let message = Config::from_metadata(&Table(items)).expect_err(key).to_string();
    for word in words.iter().chain(&[key]) {
        assert!(message.contains(word), "{key}: {message}");
    }
}

#[test]
fn metadata_of_gguf() {
    use Item::{Number, Text};
    refused_metadata("general.architecture", Some(Text("mamba")), &["mamba", "qwen2"]);
    refused_metadata("general.architecture", None, &["lacks"]);
    refused_metadata("general.type", Some(Text("adapter")), &["adapter", "model"]);
    refused_metadata("llama.block_count", None, &["lacks"]);
    refused_metadata("llama.block_count", Some(Number(0.0)), &["= 0"]);
    refused_metadata("llama.attention.head_count", Some(Number(5.0)), &["= 5", "divisor"]);
    refused_metadata("llama.attention.head_count_kv", Some(Number(3.0)), &["= 3", "divisor"]);
    refused_metadata("llama.attention.value_length", Some(Number(4.0)), &["= 4", "8"]);
    refused_metadata("llama.rope.dimension_count", Some(Number(10.0)), &["= 10", "even"]);
    refused_metadata("llama.rope.scaling.type", Some(Text("yarn")), &["yarn", "linear"]);
    refused_metadata("llama.rope.scaling.factor", Some(Number(2.0)), &["= 2", "linear"]);
    refused_metadata("llama.expert_count", Some(Number(8.0)), &["= 8", "not supported"]);
    refused_metadata("llama.attention.sliding_window", Some(Number(8.0)), &["not supported"]);
    refused_metadata("llama.attention.layer_norm_rms_epsilon", None, &["lacks"]);
    refused_metadata("tokenizer.ggml.tokens", Some(Number(64.0)), &["a list"]);
}

/// Checks that an edited table of tensors is refused with all these words.
fn refused_tensors(name: &str, edit: impl FnOnce(&mut Contents), words: &[&str]) {
    let config = Config::from_json(&config_text(name)).expect("it is supported");
    let mut contents = Contents::of(&tensors(name));
    edit(&mut contents);
    let message = text(&config, &contents).expect_err("it should be refused").to_string();
    for word in words {
        assert!(message.contains(word), "{message}");
    }
}

fn stored(format: &str, shape: &[usize]) -> Stored {
    Stored { format: Format::named(format), shape: shape.to_vec() }
}

#[test]
fn tensors_of_checkpoints() {
    let put = |name: &'static str, stored: Stored| {
        move |contents: &mut Contents| {
            contents.0.insert(name.to_owned(), stored);
        }
    };
    let query = "model.layers.1.self_attn.q_proj.weight";
    let lacks = |contents: &mut Contents| drop(contents.0.remove(query));
    refused_tensors("llama", lacks, &["lacks", query, "[32, 32]"]);
    refused_tensors(
        "llama",
        put(query, stored("f32", &[32, 31])),
        &[query, "[32, 31]", "[32, 32]"],
    );
    refused_tensors(
        "llama",
        put("lm_head.weight", stored("f32", &[63, 32])),
        &["lm_head", "[64, 32]"],
    );
    refused_tensors("llama", put(query, stored("Q3_K", &[32, 32])), &[query, "Q3_K", "q4_0"]);
    refused_tensors("llama", put(query, stored("Q4_K", &[32, 32])), &[query, "multiple of 256"]);
    refused_tensors("llama", put(query, stored("i8", &[32, 32])), &[query, "i8", "bf16"]);
    let down = "model.layers.0.mlp.down_proj.weight";
    refused_tensors("llama", put(down, stored("q4_0", &[32, 43])), &[down, "multiple of 32"]);
    let norm = "model.norm.weight";
    refused_tensors("llama", put(norm, stored("q8_0", &[32])), &[norm, "no matrix"]);
    let c_fc = "transformer.h.0.mlp.c_fc.weight";
    refused_tensors("gpt2", put(c_fc, stored("q8_0", &[32, 43])), &[c_fc, "f16"]);
    let bias = "model.layers.0.self_attn.q_proj.bias";
    refused_tensors("llama", put(bias, stored("f32", &[32])), &["does not use", bias]);
    refused_tensors("qwen2", |contents| drop(contents.0.remove(bias)), &["lacks", bias]);
    refused_tensors(
        "llama",
        put("lora.weight", stored("f32", &[1])),
        &["does not use", "`lora.weight`"],
    );
    refused_tensors("llama", |contents| contents.0.clear(), &["lacks", "embed_tokens"]);
}

/// Buffers and a tied head may be stored, and outer modules be left out.
#[test]
fn tensors_that_are_skipped() {
    let text_of = |name: &str, edit: &dyn Fn(&mut Contents)| {
        let config = Config::from_json(&config_text(name)).expect("it is supported");
        let mut contents = Contents::of(&tensors(name));
        edit(&mut contents);
        text(&config, &contents).expect("it has a text")
    };
    let plain = text_of("llama3", &|_| {});
    let buffers = text_of("llama3", &|contents| {
        let frequencies = "model.layers.0.self_attn.rotary_emb.inv_freq";
        contents.0.insert(frequencies.to_owned(), stored("f32", &[4]));
        contents.0.insert("lm_head.weight".to_owned(), stored("f32", &[64, 32]));
    });
    assert_eq!(plain, buffers);
    let short = text_of("gpt2", &|contents| {
        let names = std::mem::take(&mut contents.0).into_iter();
        contents.0 =
            names.map(|(name, tensor)| (name.replace("transformer.", ""), tensor)).collect();
        contents.0.insert("h.0.attn.bias".to_owned(), stored("u8", &[1, 1, 128, 128]));
    });
    assert_eq!(text_of("gpt2", &|_| {}).replace("transformer.", ""), short);
}

#[test]
fn equal_configurations_have_equal_texts() {
    for name in ALL {
        let config = || Config::from_json(&config_text(name)).expect("it is supported");
        let contents = Contents::of(&tensors(name));
        assert_eq!(text(&config(), &contents), text(&config(), &contents));
    }
}
