/* A module with nothing in it but the description that modinfo reads. */
#define MODINFO(id, text) \
    static const char modinfo_##id[] __attribute__((section(".modinfo"), used, aligned(1))) = text
#define STAND_IN_MODULE(name) \
    MODINFO(name_, "name=" name); \
    MODINFO(version, "version=@VERSION@"); \
    MODINFO(license, "license=@LICENSE@"); \
    MODINFO(vermagic, "vermagic=" KERNEL_RELEASE " SMP mod_unload modversions ")
