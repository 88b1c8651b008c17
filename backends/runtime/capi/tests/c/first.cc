// c++ -std=c++17 first.cc $(pkg-config --cflags --libs relax) -o first && ./first double.rxm
#include <cstdio>
#include <memory>
#include <relax_runtime.h>
#include <vector>

template <auto Free> struct Freed {
    template <class T> void operator()(T *one) const { Free(one); }
};
using Module = std::unique_ptr<rx_module, Freed<rx_module_free>>;
using Value = std::unique_ptr<rx_value, Freed<rx_value_free>>;

int main(int count, char **words) {
    rx_options options{};
    options.size = sizeof options;
    options.threads = 1;
    const Module module(count == 2 ? rx_module_open(words[1], &options) : nullptr);
    if (!module) return std::fprintf(stderr, "%s\n", rx_error()), 1;

    // The vector is given back when nothing uses it any more.
    auto *x = new std::vector<float>{1, 2.5f, -3};
    const int64_t shape[] = {static_cast<int64_t>(x->size())};
    const auto release = [](void *vector) { delete static_cast<std::vector<float> *>(vector); };
    const Value input(rx_tensor_lend(RX_F32, shape, 1, x->data(), release, x));
    const rx_value *arguments[] = {input.get()};
    const Value result(rx_module_call(module.get(), "main", arguments, 1));
    if (!result) return std::printf("%s\n", rx_error()), 1;
    const auto *y = static_cast<const float *>(rx_tensor_data(result.get()));
    std::printf("%g %g %g\n", y[0], y[1], y[2]);
}
