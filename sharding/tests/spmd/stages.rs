//! Pipeline stages: values that one worker of an axis of the mesh alone has.

use crate::sharded;

#[test]
fn look() {
    let text = r#"module_attr("mesh[0]", "2")

def main(x: DTensor(("n", 4), "f32", "mesh[0]", "O[0]"), a: DTensor((4, 6), "f32", "mesh[0]", "O[0]"), b: DTensor((6, 4), "f32", "mesh[0]", "O[1]")):
    h = relu(matmul(x, a))
    y = matmul(h, b)
    return add(y, x)
"#;
    let sharded = sharded(text);
    eprintln!("{}", sharded.text);
    let arguments = crate::arguments(&[vec![3, 4], vec![4, 6], vec![6, 4]]);
    let found = sharded.on_ranks(&sharded.local, &arguments).expect("ends");
    assert!(crate::same(&found, &sharded.on_one(&arguments)));
}
