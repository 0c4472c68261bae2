!memref_gmem_f16 = !cute.memref<f16, gmem, align<16>, "(4096,2048):(2048,1)">
!memref_gmem_f16_1 = !cute.memref<f16, gmem, align<16>, "(64,32):(2048,1)">
!memref_smem_f16 = !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
!memref_smem_f16_1 = !cute.memref<f16, smem, align<128>, "((64,32)):((32,1))">
!memref_smem_f16_2 = !cute.memref<f16, smem, align<128>, "((2048,1)):((1,0))">
!memref_smem_f16_3 = !cute.memref<f16, smem, align<128>, "((2048,1),1):((1,0),0)">
!memref_smem_f16_4 = !cute.memref<f16, smem, align<128>, "((2048,1),(1)):((1,0),(0))">
!memref_smem_i8 = !cute.memref<i8, smem, align<8>, "8:1">
!memref_smem_i8_1 = !cute.memref<i8, smem, align<128>, "4096:1">
module attributes {gpu.container_module} {
  gpu.module @kernels {
    cuda.kernel @kernel_cutlass_copied_CopyAtom_ThrID10_TVLayoutSrc1204801_TVLayoutDst1204801_Valuetypef16_tensor00o409620481110_tensorptrf16gmemalign16o4096204820481_64_32_0(%arg0: !cute_nvgpu.atom.non_exec_tiled_tma_load<sm_90, f16, copy_bits = 32768, tma_gbasis = <"(32,64):(1@1,1@0)">, tma_format = F16_RN> {cute_nvgpu.grid_constant}, %arg1: !cute.coord_tensor<"(0,0)", "(4096,2048):(1@1,1@0)">, %arg2: !memref_gmem_f16, %arg3: !cute.layout<"(64,32):(32,1)">) attributes {cu_attrs = {max_dynamic_shared_size_bytes = #cuda.dev_max_shared_memory_optin, non_portable_cluster_size_allowed = 1 : i32}, cute.kernel, cutlass_launch_facts = {cluster_launch = false, cooperative_launch = false, exact_grid_dim = array<i64: 64, 64, 1>, schema_version = 1 : i64}, gpu.kernel, smem.hint_smem_base_uniform, smem.partition_num = 2 : i32} {
      %iter = cute.get_iter(%arg1) : !cute.coord_tensor<"(0,0)", "(4096,2048):(1@1,1@0)">
      %tup = cute.deref_arith_tuple_iter(%iter) : !cute.arith_tuple_iter<"(0,0)">
      %e0, %e1 = cute.get_leaves(%tup) : !cute.int_tuple<"(0,0)">
      %iter_0 = cute.get_iter(%arg2) : !memref_gmem_f16
      %iter_1 = cute.get_iter(%arg1) : !cute.coord_tensor<"(0,0)", "(4096,2048):(1@1,1@0)">
      %tup_2 = cute.deref_arith_tuple_iter(%iter_1) : !cute.arith_tuple_iter<"(0,0)">
      %e0_3, %e1_4 = cute.get_leaves(%tup_2) : !cute.int_tuple<"(0,0)">
      %iter_5 = cute.get_iter(%arg2) : !memref_gmem_f16
      %lay = cute.get_layout(%arg1) : !cute.coord_tensor<"(0,0)", "(4096,2048):(1@1,1@0)">
      %lay_6 = cute.get_layout(%arg2) : !memref_gmem_f16
      %0 = nvvm.read.ptx.sreg.tid.x : i32
      %1 = nvvm.read.ptx.sreg.tid.y : i32
      %2 = nvvm.read.ptx.sreg.tid.z : i32
      %3 = nvvm.read.ptx.sreg.ctaid.x : i32
      %4 = nvvm.read.ptx.sreg.ctaid.y : i32
      %5 = nvvm.read.ptx.sreg.ctaid.z : i32
      %shape = cute.make_shape() : () -> !cute.shape<"8">
      %lay_7 = cute.make_layout(%shape) : !cute.layout<"8:1">
      %smem = cute.memref.alloca() {smem.partition_id = 1 : i32} : !memref_smem_i8
      %iter_8 = cute.get_iter(%smem) : !memref_smem_i8
      %iter_9 = cute.get_iter(%smem) : !memref_smem_i8
      %iter_10 = cute.recast_iter(%iter_9) : !cute.ptr<i8, smem, align<8>> to !cute.ptr<i64, smem>
      %coord = cute.make_coord() : () -> !cute.coord<"0">
      %idx = cute.crd2idx(%coord, %arg3) : (!cute.coord<"0">, !cute.layout<"(64,32):(32,1)">) -> !cute.int_tuple<"0">
      %e0_11 = cute.get_leaves(%idx) : !cute.int_tuple<"0">
      %cosz = cute.cosize(%arg3) : (!cute.layout<"(64,32):(32,1)">) -> !cute.int_tuple<"2048">
      %e0_12 = cute.get_leaves(%cosz) : !cute.int_tuple<"2048">
      %shape_13 = cute.make_shape() : () -> !cute.shape<"4096">
      %lay_14 = cute.make_layout(%shape_13) : !cute.layout<"4096:1">
      %smem_15 = cute.memref.alloca() {smem.partition_id = 1 : i32} : !memref_smem_i8_1
      %iter_16 = cute.get_iter(%smem_15) : !memref_smem_i8_1
      %iter_17 = cute.get_iter(%smem_15) : !memref_smem_i8_1
      %iter_18 = cute.recast_iter(%iter_17) : !cute.ptr<i8, smem, align<128>> to !cute.ptr<f16, smem, align<128>>
      %view = cute.make_view(%iter_18, %arg3) : !memref_smem_f16
      %iter_19 = cute.get_iter(%view) : !memref_smem_f16
      %iter_20 = cute.get_iter(%view) : !memref_smem_f16
      %tile = cute.make_tile() : () -> !cute.tile<"[64:1;32:1]">
      %coord_21 = cute.make_coord(%3, %4) : (i32, i32) -> !cute.coord<"(?,?)">
      %tiled_view = cute.local_tile(%arg1, %tile, %coord_21) : (!cute.coord_tensor<"(0,0)", "(4096,2048):(1@1,1@0)">, !cute.tile<"[64:1;32:1]">, !cute.coord<"(?,?)">) -> !cute.coord_tensor<"(?{div=32},?{div=64})", "(64,32):(1@1,1@0)">
      %iter_22 = cute.get_iter(%tiled_view) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(64,32):(1@1,1@0)">
      %tup_23 = cute.deref_arith_tuple_iter(%iter_22) : !cute.arith_tuple_iter<"(?{div=32},?{div=64})">
      %e0_24, %e1_25 = cute.get_leaves(%tup_23) : !cute.int_tuple<"(?{div=32},?{div=64})">
      %6 = cute.get_scalars(%e0_24) : !cute.int_tuple<"?{div=32}">
      %7 = cute.get_scalars(%e1_25) : !cute.int_tuple<"?{div=64}">
      %iter_26 = cute.get_iter(%tiled_view) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(64,32):(1@1,1@0)">
      %tup_27 = cute.deref_arith_tuple_iter(%iter_26) : !cute.arith_tuple_iter<"(?{div=32},?{div=64})">
      %e0_28, %e1_29 = cute.get_leaves(%tup_27) : !cute.int_tuple<"(?{div=32},?{div=64})">
      %8 = cute.get_scalars(%e0_28) : !cute.int_tuple<"?{div=32}">
      %9 = cute.get_scalars(%e1_29) : !cute.int_tuple<"?{div=64}">
      %shape_30 = cute.make_shape() : () -> !cute.shape<"1">
      %lay_31 = cute.make_layout(%shape_30) : !cute.layout<"1:0">
      %lay_32 = cute.get_layout(%view) : !memref_smem_f16
      %10 = cute.get_shape(%lay_32) : (!cute.layout<"(64,32):(32,1)">) -> !cute.shape<"(64,32)">
      %e0_33, %e1_34 = cute.get_leaves(%10) : !cute.shape<"(64,32)">
      %grouped = cute.group_modes(%view) <0, 2> : (!memref_smem_f16) -> !memref_smem_f16_1
      %iter_35 = cute.get_iter(%grouped) : !memref_smem_f16_1
      %iter_36 = cute.get_iter(%grouped) : !memref_smem_f16_1
      %lay_37 = cute.get_layout(%tiled_view) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(64,32):(1@1,1@0)">
      %11 = cute.get_shape(%lay_37) : (!cute.layout<"(64,32):(1@1,1@0)">) -> !cute.shape<"(64,32)">
      %e0_38, %e1_39 = cute.get_leaves(%11) : !cute.shape<"(64,32)">
      %grouped_40 = cute.group_modes(%tiled_view) <0, 2> : (!cute.coord_tensor<"(?{div=32},?{div=64})", "(64,32):(1@1,1@0)">) -> !cute.coord_tensor<"(?{div=32},?{div=64})", "((64,32)):((1@1,1@0))">
      %iter_41 = cute.get_iter(%grouped_40) : !cute.coord_tensor<"(?{div=32},?{div=64})", "((64,32)):((1@1,1@0))">
      %tup_42 = cute.deref_arith_tuple_iter(%iter_41) : !cute.arith_tuple_iter<"(?{div=32},?{div=64})">
      %e0_43, %e1_44 = cute.get_leaves(%tup_42) : !cute.int_tuple<"(?{div=32},?{div=64})">
      %12 = cute.get_scalars(%e0_43) : !cute.int_tuple<"?{div=32}">
      %13 = cute.get_scalars(%e1_44) : !cute.int_tuple<"?{div=64}">
      %iter_45 = cute.get_iter(%grouped_40) : !cute.coord_tensor<"(?{div=32},?{div=64})", "((64,32)):((1@1,1@0))">
      %tup_46 = cute.deref_arith_tuple_iter(%iter_45) : !cute.arith_tuple_iter<"(?{div=32},?{div=64})">
      %e0_47, %e1_48 = cute.get_leaves(%tup_46) : !cute.int_tuple<"(?{div=32},?{div=64})">
      %14 = cute.get_scalars(%e0_47) : !cute.int_tuple<"?{div=32}">
      %15 = cute.get_scalars(%e1_48) : !cute.int_tuple<"?{div=64}">
      %coord_49 = cute.make_coord() : () -> !cute.coord<"0">
      %res_smem_tensor, %res_target_tensors = cute_nvgpu.atom.tma_partition(%arg0, %coord_49, %lay_31, %grouped, %grouped_40) : (!cute_nvgpu.atom.non_exec_tiled_tma_load<sm_90, f16, copy_bits = 32768, tma_gbasis = <"(32,64):(1@1,1@0)">, tma_format = F16_RN>, !cute.coord<"0">, !cute.layout<"1:0">, !memref_smem_f16_1, !cute.coord_tensor<"(?{div=32},?{div=64})", "((64,32)):((1@1,1@0))">) -> (!memref_smem_f16_2, !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1)):(((1@0,1@1),0))">)
      %iter_50 = cute.get_iter(%res_smem_tensor) : !memref_smem_f16_2
      %iter_51 = cute.get_iter(%res_target_tensors) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1)):(((1@0,1@1),0))">
      %tup_52 = cute.deref_arith_tuple_iter(%iter_51) : !cute.arith_tuple_iter<"(?{div=32},?{div=64})">
      %e0_53, %e1_54 = cute.get_leaves(%tup_52) : !cute.int_tuple<"(?{div=32},?{div=64})">
      %16 = cute.get_scalars(%e0_53) : !cute.int_tuple<"?{div=32}">
      %17 = cute.get_scalars(%e1_54) : !cute.int_tuple<"?{div=64}">
      %c0_i32 = arith.constant 0 : i32
      %18 = arith.cmpi eq, %0, %c0_i32 : i32
      scf.if %18 {
        %23 = builtin.unrealized_conversion_cast %iter_10 : !cute.ptr<i64, smem> to !llvm.ptr<3>
        %c1_i32 = arith.constant 1 : i32
        nvvm.mbarrier.init %23, %c1_i32 : !llvm.ptr<3>, i32
      }
      nvvm.barrier
      %19 = arith.cmpi eq, %0, %c0_i32 : i32
      scf.if %19 {
        %23 = builtin.unrealized_conversion_cast %iter_10 : !cute.ptr<i64, smem> to !llvm.ptr<3>
        %c4096_i32 = arith.constant 4096 : i32
        %24 = nvvm.mbarrier.arrive.expect_tx %23, %c4096_i32 : !llvm.ptr<3>, i32 -> i64
      }
      %c32_i32 = arith.constant 32 : i32
      %20 = arith.cmpi slt, %0, %c32_i32 : i32
      scf.if %20 {
        %lay_63 = cute.get_layout(%res_target_tensors) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1)):(((1@0,1@1),0))">
        %23 = cute.get_shape(%lay_63) : (!cute.layout<"(((32,64),1)):(((1@0,1@1),0))">) -> !cute.shape<"(((32,64),1))">
        %e0_64, %e1_65, %e2 = cute.get_leaves(%23) : !cute.shape<"(((32,64),1))">
        %lay_66 = cute.get_layout(%res_smem_tensor) : !memref_smem_f16_2
        %24 = cute.get_shape(%lay_66) : (!cute.layout<"((2048,1)):((1,0))">) -> !cute.shape<"((2048,1))">
        %e0_67, %e1_68 = cute.get_leaves(%24) : !cute.shape<"((2048,1))">
        %shape_69 = cute.make_shape() : () -> !cute.shape<"1">
        %lay_70 = cute.make_layout(%shape_69) : !cute.layout<"1:0">
        %append = cute.append_to_rank<2> (%lay_63, %lay_70) : !cute.layout<"(((32,64),1)):(((1@0,1@1),0))">, !cute.layout<"1:0">
        %int_tuple = cute.make_int_tuple(%e0_53, %e1_54) : (!cute.int_tuple<"?{div=32}">, !cute.int_tuple<"?{div=64}">) -> !cute.int_tuple<"(?{div=32},?{div=64})">
        %int_tup_iter = cute.make_arith_tuple_iter(%int_tuple) : (!cute.int_tuple<"(?{div=32},?{div=64})">) -> !cute.arith_tuple_iter<"(?{div=32},?{div=64})">
        %view_71 = cute.make_view(%int_tup_iter, %append) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),1):(((1@0,1@1),0),0)">
        %iter_72 = cute.get_iter(%view_71) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),1):(((1@0,1@1),0),0)">
        %tup_73 = cute.deref_arith_tuple_iter(%iter_72) : !cute.arith_tuple_iter<"(?{div=32},?{div=64})">
        %e0_74, %e1_75 = cute.get_leaves(%tup_73) : !cute.int_tuple<"(?{div=32},?{div=64})">
        %25 = cute.get_scalars(%e0_74) : !cute.int_tuple<"?{div=32}">
        %26 = cute.get_scalars(%e1_75) : !cute.int_tuple<"?{div=64}">
        %lay_76 = cute.get_layout(%view_71) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),1):(((1@0,1@1),0),0)">
        %27 = cute.get_shape(%lay_76) : (!cute.layout<"(((32,64),1),1):(((1@0,1@1),0),0)">) -> !cute.shape<"(((32,64),1),1)">
        %e0_77, %e1_78, %e2_79, %e3 = cute.get_leaves(%27) : !cute.shape<"(((32,64),1),1)">
        %grouped_80 = cute.group_modes(%view_71) <1, 2> : (!cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),1):(((1@0,1@1),0),0)">) -> !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),(1)):(((1@0,1@1),0),(0))">
        %iter_81 = cute.get_iter(%grouped_80) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),(1)):(((1@0,1@1),0),(0))">
        %tup_82 = cute.deref_arith_tuple_iter(%iter_81) : !cute.arith_tuple_iter<"(?{div=32},?{div=64})">
        %e0_83, %e1_84 = cute.get_leaves(%tup_82) : !cute.int_tuple<"(?{div=32},?{div=64})">
        %28 = cute.get_scalars(%e0_83) : !cute.int_tuple<"?{div=32}">
        %29 = cute.get_scalars(%e1_84) : !cute.int_tuple<"?{div=64}">
        %iter_85 = cute.get_iter(%grouped_80) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),(1)):(((1@0,1@1),0),(0))">
        %tup_86 = cute.deref_arith_tuple_iter(%iter_85) : !cute.arith_tuple_iter<"(?{div=32},?{div=64})">
        %e0_87, %e1_88 = cute.get_leaves(%tup_86) : !cute.int_tuple<"(?{div=32},?{div=64})">
        %30 = cute.get_scalars(%e0_87) : !cute.int_tuple<"?{div=32}">
        %31 = cute.get_scalars(%e1_88) : !cute.int_tuple<"?{div=64}">
        %shape_89 = cute.make_shape() : () -> !cute.shape<"1">
        %lay_90 = cute.make_layout(%shape_89) : !cute.layout<"1:0">
        %append_91 = cute.append_to_rank<2> (%lay_66, %lay_90) : !cute.layout<"((2048,1)):((1,0))">, !cute.layout<"1:0">
        %view_92 = cute.make_view(%iter_50, %append_91) : !memref_smem_f16_3
        %iter_93 = cute.get_iter(%view_92) : !memref_smem_f16_3
        %lay_94 = cute.get_layout(%view_92) : !memref_smem_f16_3
        %32 = cute.get_shape(%lay_94) : (!cute.layout<"((2048,1),1):((1,0),0)">) -> !cute.shape<"((2048,1),1)">
        %e0_95, %e1_96, %e2_97 = cute.get_leaves(%32) : !cute.shape<"((2048,1),1)">
        %grouped_98 = cute.group_modes(%view_92) <1, 2> : (!memref_smem_f16_3) -> !memref_smem_f16_4
        %iter_99 = cute.get_iter(%grouped_98) : !memref_smem_f16_4
        %iter_100 = cute.get_iter(%grouped_98) : !memref_smem_f16_4
        %lay_101 = cute.get_layout(%grouped_80) : !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),(1)):(((1@0,1@1),0),(0))">
        %33 = cute.get_shape(%lay_101) : (!cute.layout<"(((32,64),1),(1)):(((1@0,1@1),0),(0))">) -> !cute.shape<"(((32,64),1),(1))">
        %e0_102, %e1_103, %e2_104, %e3_105 = cute.get_leaves(%33) : !cute.shape<"(((32,64),1),(1))">
        %lay_106 = cute.get_layout(%grouped_98) : !memref_smem_f16_4
        %34 = cute.get_shape(%lay_106) : (!cute.layout<"((2048,1),(1)):((1,0),(0))">) -> !cute.shape<"((2048,1),(1))">
        %e0_107, %e1_108, %e2_109 = cute.get_leaves(%34) : !cute.shape<"((2048,1),(1))">
        %sz = cute.size(%grouped_80) <{mode = [1]}> : (!cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),(1)):(((1@0,1@1),0),(0))">) -> !cute.int_tuple<"1">
        %e0_110 = cute.get_leaves(%sz) : !cute.int_tuple<"1">
        %sz_111 = cute.size(%grouped_98) <{mode = [1]}> : (!memref_smem_f16_4) -> !cute.int_tuple<"1">
        %e0_112 = cute.get_leaves(%sz_111) : !cute.int_tuple<"1">
        %35 = cute_nvgpu.atom.make_exec_tma(%arg0) : (!cute_nvgpu.atom.non_exec_tiled_tma_load<sm_90, f16, copy_bits = 32768, tma_gbasis = <"(32,64):(1@1,1@0)">, tma_format = F16_RN>) -> !cute_nvgpu.atom.tma_load<f16, copy_bits = 32768, mode = tiled, num_cta = 1, g_stride = <"()"> tma_gbasis = <"(32,64):(1@1,1@0)">>
        %36 = cute_nvgpu.atom.set_value<tma_bar>(%35, %iter_10) : (!cute_nvgpu.atom.tma_load<f16, copy_bits = 32768, mode = tiled, num_cta = 1, g_stride = <"()"> tma_gbasis = <"(32,64):(1@1,1@0)">>, !cute.ptr<i64, smem>)
        cute.copy(%36, %grouped_80, %grouped_98) : (!cute_nvgpu.atom.tma_load<f16, copy_bits = 32768, mode = tiled, num_cta = 1, g_stride = <"()"> tma_gbasis = <"(32,64):(1@1,1@0)">>, !cute.coord_tensor<"(?{div=32},?{div=64})", "(((32,64),1),(1)):(((1@0,1@1),0),(0))">, !memref_smem_f16_4)
      }
      %21 = builtin.unrealized_conversion_cast %iter_10 : !cute.ptr<i64, smem> to !llvm.ptr<3>
      %c0_i32_55 = arith.constant 0 : i32
      %c10000000_i32 = arith.constant 10000000 : i32
      nvvm.mbarrier.try_wait.parity %21, %c0_i32_55, %c10000000_i32 : !llvm.ptr<3>, i32, i32
      %tile_56 = cute.make_tile() : () -> !cute.tile<"[64:1;32:1]">
      %coord_57 = cute.make_coord(%3, %4) : (i32, i32) -> !cute.coord<"(?,?)">
      %tiled_view_58 = cute.local_tile(%arg2, %tile_56, %coord_57) : (!memref_gmem_f16, !cute.tile<"[64:1;32:1]">, !cute.coord<"(?,?)">) -> !memref_gmem_f16_1
      %iter_59 = cute.get_iter(%tiled_view_58) : !memref_gmem_f16_1
      %iter_60 = cute.get_iter(%tiled_view_58) : !memref_gmem_f16_1
      %c2048_i32 = arith.constant 2048 : i32
      %c128_i32 = arith.constant 128 : i32
      %22 = scf.for %arg4 = %0 to %c2048_i32 step %c128_i32 iter_args(%arg5 = %tiled_view_58) -> (!memref_gmem_f16_1)  : i32 {
        %iter_63 = cute.get_iter(%arg5) : !memref_gmem_f16_1
        %iter_64 = cute.get_iter(%arg5) : !memref_gmem_f16_1
        %c32_i32_65 = arith.constant 32 : i32
        %23 = arith.floordivsi %arg4, %c32_i32_65 : i32
        %24 = arith.remsi %arg4, %c32_i32_65 : i32
        %coord_66 = cute.make_coord(%23, %24) : (i32, i32) -> !cute.coord<"(?,?)">
        %25 = cute.memref.load(%view, %coord_66) : (!memref_smem_f16, !cute.coord<"(?,?)">) -> f16
        %26 = arith.floordivsi %arg4, %c32_i32_65 : i32
        %27 = arith.remsi %arg4, %c32_i32_65 : i32
        %coord_67 = cute.make_coord(%26, %27) : (i32, i32) -> !cute.coord<"(?,?)">
        cute.memref.store(%arg5, %coord_67, %25) : (!memref_gmem_f16_1, !cute.coord<"(?,?)">, f16) -> ()
        %iter_68 = cute.get_iter(%arg5) : !memref_gmem_f16_1
        %iter_69 = cute.get_iter(%arg5) : !memref_gmem_f16_1
        scf.yield %arg5 : !memref_gmem_f16_1
      }
      %iter_61 = cute.get_iter(%22) : !memref_gmem_f16_1
      %iter_62 = cute.get_iter(%tiled_view_58) : !memref_gmem_f16_1
      return
    }
  }
  func.func @cutlass_copy_FakeTensorFloat164096204820481_FakeTensorFloat164096204820481_128_64_32(%arg0: !memref_gmem_f16, %arg1: !memref_gmem_f16, %arg2: i32) -> i32 attributes {llvm.emit_c_interface} {
    %iter = cute.get_iter(%arg0) : !memref_gmem_f16
    %iter_0 = cute.get_iter(%arg1) : !memref_gmem_f16
    %iter_1 = cute.get_iter(%arg0) : !memref_gmem_f16
    %iter_2 = cute.get_iter(%arg1) : !memref_gmem_f16
    %shape = cute.make_shape() : () -> !cute.shape<"(64,32)">
    %stride = cute.make_stride() : () -> !cute.stride<"(32,1)">
    %lay = cute.make_layout(%shape, %stride) : !cute.layout<"(64,32):(32,1)">
    %0 = cute.get_shape(%lay) : (!cute.layout<"(64,32):(32,1)">) -> !cute.shape<"(64,32)">
    %e0, %e1 = cute.get_leaves(%0) : !cute.shape<"(64,32)">
    %lay_3 = cute.get_layout(%arg0) : !memref_gmem_f16
    %1 = cute.get_shape(%lay_3) : (!cute.layout<"(4096,2048):(2048,1)">) -> !cute.shape<"(4096,2048)">
    %e0_4, %e1_5 = cute.get_leaves(%1) : !cute.shape<"(4096,2048)">
    %shape_6 = cute.make_shape() : () -> !cute.shape<"(4096,2048)">
    %2 = cute.make_identity_layout(%shape_6) : !cute.layout<"(4096,2048):(1@0,1@1)">
    %tile = cute.make_tile() : () -> !cute.tile<"[64:1;32:1]">
    %3 = cute.composition(%2, %tile) : (!cute.layout<"(4096,2048):(1@0,1@1)">, !cute.tile<"[64:1;32:1]">) -> !cute.layout<"(64,32):(1@0,1@1)">
    %non_exec_atom, %tma_tensor = cute_nvgpu.atom.make_non_exec_tiled_tma_load(%arg0, %lay, %3) <{kind = <sm_90> num_multicast = 1}> : (!memref_gmem_f16, !cute.layout<"(64,32):(32,1)">, !cute.layout<"(64,32):(1@0,1@1)">) -> (!cute_nvgpu.atom.non_exec_tiled_tma_load<sm_90, f16, copy_bits = 32768, tma_gbasis = <"(32,64):(1@1,1@0)">, tma_format = F16_RN>, !cute.coord_tensor<"(0,0)", "(4096,2048):(1@1,1@0)">)
    %iter_7 = cute.get_iter(%tma_tensor) : !cute.coord_tensor<"(0,0)", "(4096,2048):(1@1,1@0)">
    %tup = cute.deref_arith_tuple_iter(%iter_7) : !cute.arith_tuple_iter<"(0,0)">
    %e0_8, %e1_9 = cute.get_leaves(%tup) : !cute.int_tuple<"(0,0)">
    %4 = cute.static : !cute.layout<"1:0">
    %5 = cute.static : !cute.layout<"(1,2048):(0,1)">
    %6 = cute.static : !cute.layout<"(1,2048):(0,1)">
    %lay_10 = cute.get_layout(%tma_tensor) : !cute.coord_tensor<"(0,0)", "(4096,2048):(1@1,1@0)">
    %lay_11 = cute.get_layout(%arg1) : !memref_gmem_f16
    %7 = cute.kernel_smem_size @kernels::@kernel_cutlass_copied_CopyAtom_ThrID10_TVLayoutSrc1204801_TVLayoutDst1204801_Valuetypef16_tensor00o409620481110_tensorptrf16gmemalign16o4096204820481_64_32_0 : i64
    %c232448_i64 = arith.constant 232448 : i64
    %8 = arith.cmpi sgt, %7, %c232448_i64 : i64
    scf.if %8 {
      cute.print("\0AError: kernel '@kernels::@kernel_cutlass_copied_CopyAtom_ThrID10_TVLayoutSrc1204801_TVLayoutDst1204801_Valuetypef16_tensor00o409620481110_tensorptrf16gmemalign16o4096204820481_64_32_0' launch shared memory exceeds current GPU arch sm_90a allowed. Allocated: {} bytes. Max: 232448 bytes.\0A\0A", %7) : i64
    }
    %c0_i64 = arith.constant 0 : i64
    %9 = cuda.cast %c0_i64 : i64 -> !cuda.stream
    %c1_i32 = arith.constant 1 : i32
    %c64_i32 = arith.constant 64 : i32
    %10 = cuda.launch_cfg.create<max_attrs = 17 : i32> (blockDim = (%arg2, %c1_i32, %c1_i32), dynamicSmemBytes = %7, gridDim = (%c64_i32, %c64_i32, %c1_i32), stream = %9) : i32, i32, i32, i64, i32, i32, i32, !cuda.stream -> !cuda.launch_cfg<max_attrs = 17>
    %c0_i32 = arith.constant 0 : i32
    cuda.launch_cfg.programmatic_stream_serialization_allowed[%10] %c0_i32 : !cuda.launch_cfg<max_attrs = 17>, i32
    %c0_i32_12 = arith.constant 0 : i32
    cuda.launch_cfg.cooperative[%10] %c0_i32_12 : !cuda.launch_cfg<max_attrs = 17>, i32
    %11 = cuda.launch_ex @kernels::@kernel_cutlass_copied_CopyAtom_ThrID10_TVLayoutSrc1204801_TVLayoutDst1204801_Valuetypef16_tensor00o409620481110_tensorptrf16gmemalign16o4096204820481_64_32_0<%10> (%non_exec_atom, %tma_tensor, %arg1, %lay) {assume_kernel_attr = #cuda.assume_kernel_attr<true>} : !cuda.launch_cfg<max_attrs = 17>, (!cute_nvgpu.atom.non_exec_tiled_tma_load<sm_90, f16, copy_bits = 32768, tma_gbasis = <"(32,64):(1@1,1@0)">, tma_format = F16_RN>, !cute.coord_tensor<"(0,0)", "(4096,2048):(1@1,1@0)">, !memref_gmem_f16, !cute.layout<"(64,32):(32,1)">) -> !cuda.result
    %12 = cuda.cast %11 : !cuda.result -> i32
    cuda.return_if_error %12 : i32
    %c0_i32_13 = arith.constant 0 : i32
    return %c0_i32_13 : i32
  }
}

