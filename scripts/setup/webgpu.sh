# The part `webgpu` of setup.sh: a Vulkan driver for the WebGPU backend. Where the machine has none, Mesa's software
# device is installed; kernels then run on the processor.

# Whether the Vulkan loader and a driver for it are installed.
has_driver() {
    ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1' || return 1
    for folder in /usr/share/vulkan/icd.d /etc/vulkan/icd.d /usr/local/share/vulkan/icd.d; do
        for driver in "$folder"/*.json; do
            if [ -e "$driver" ]; then
                return 0
            fi
        done
    done
    return 1
}

if has_driver; then
    echo "Vulkan has a driver on this machine" >&2
else
    need_packages "Vulkan has no driver: install one" mesa-vulkan-drivers libvulkan1
    has_driver || fail "Vulkan still has no driver" 4
fi
