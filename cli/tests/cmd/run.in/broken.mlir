#loc1 = loc("model.py":3:4 to :19)
module @jit_scale {
  func.func public @main(%arg0: tensor<?x2xf32> loc("x"), %arg1: tensor<?xf32> loc("by")) -> (tensor<?x2xf32> {jax.result_info = "y"}) {
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>
    %1 = stablehlo.get_dimension_size %arg1, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %2 = stablehlo.compare EQ %%1, %0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%2, %1, %0) {error_message = "Expected {0} to be {1}.", has_side_effect = true} : (tensor<i1>, tensor<i32>, tensor<i32>) -> ()
    %3 = call @wrapped(%0, %arg0, %arg1) : (tensor<i32>, tensor<?x2xf32>, tensor<?xf32>) -> tensor<?x2xf32>
    return %3 : tensor<?x2xf32>
  }
  func.func private @wrapped(%arg0: tensor<i32> {jax.global_constant = "rows"}, %arg1: tensor<?x2xf32>, %arg2: tensor<?xf32>) -> tensor<?x2xf32> {
    %c = stablehlo.constant dense<2> : tensor<1xi32>
    %0 = stablehlo.reshape %arg0 : (tensor<i32>) -> tensor<1xi32>
    %1 = stablehlo.concatenate %0, %c, dim = 0 : (tensor<1xi32>, tensor<one>) -> tensor<2xi32>
    %2 = stablehlo.dynamic_broadcast_in_dim %arg2, %1, dims = [0] : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x2xf32>
    %3 = stablehlo.multiply %arg1, %2 : tensor<?x2xf32> loc(#loc1)
    return %3 : tensor<?x2xf32>
  }
}
