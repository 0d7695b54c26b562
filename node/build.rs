//! Lets the linker accept what Node itself provides.

fn main() {
    napi_build::setup();
}
