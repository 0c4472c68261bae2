	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
matmul:
.Lfunc_begin0:
	s_load_dwordx2 s[2:3], s[0:1], 0x0
	s_load_dwordx8 s[4:11], s[0:1], 0x8
	s_load_dwordx4 s[12:15], s[0:1], 0x28
	s_waitcnt lgkmcnt(0)
	s_branch .LBB0_0
.LBB0_0:
	s_lshl_b32 s8, s16, 7
	v_lshrrev_b32_e32 v32, 3, v0
	v_or_b32_e32 v1, s8, v32
	v_mul_lo_u32 v2, s10, v1
	v_lshlrev_b32_e32 v1, 3, v0
	v_ashrrev_i32_e32 v3, 31, v2
	v_and_b32_e32 v1, 56, v1
	v_lshl_add_u64 v[2:3], v[2:3], 1, s[2:3]
	v_mov_b32_e32 v7, 0
	v_lshlrev_b32_e32 v6, 1, v1
	s_cmp_gt_i32 s10, 0
	s_cselect_b64 s[12:13], -1, 0
	s_cmp_lt_i32 s10, 1
	v_lshl_add_u64 v[24:25], v[2:3], 0, v[6:7]
	s_cbranch_scc1 .LBB0_2
	global_load_dwordx4 v[2:5], v[24:25], off
	s_branch .LBB0_3
.LBB0_2:
	v_mov_b32_e32 v2, 0
	v_mov_b32_e32 v3, 0
	v_mov_b32_e32 v4, 0
	v_mov_b32_e32 v5, 0
.LBB0_3:
	v_or3_b32 v1, v32, s8, 64
	v_mul_lo_u32 v18, s10, v1
	v_ashrrev_i32_e32 v19, 31, v18
	v_lshl_add_u64 v[8:9], v[18:19], 1, s[2:3]
	v_cndmask_b32_e64 v1, 0, 1, s[12:13]
	v_cmp_ne_u32_e64 s[0:1], 1, v1
	s_andn2_b64 vcc, exec, s[12:13]
	v_lshl_add_u64 v[26:27], v[8:9], 0, v[6:7]
	s_cbranch_vccnz .LBB0_5
	global_load_dwordx4 v[10:13], v[26:27], off
	s_branch .LBB0_6
.LBB0_5:
	v_mov_b32_e32 v10, 0
	v_mov_b32_e32 v11, v10
	v_mov_b32_e32 v12, v10
	v_mov_b32_e32 v13, v10
.LBB0_6:
	v_and_b32_e32 v35, 0x1f0, v0
	v_and_b32_e32 v1, 15, v0
	v_lshrrev_b32_e32 v6, 3, v35
	v_lshlrev_b32_e32 v62, 3, v1
	s_lshl_b32 s11, s17, 7
	v_mul_lo_u32 v20, s9, v6
	v_or_b32_e32 v14, s11, v62
	v_ashrrev_i32_e32 v21, 31, v20
	v_lshl_add_u64 v[6:7], v[20:21], 1, s[4:5]
	v_ashrrev_i32_e32 v15, 31, v14
	s_and_b64 vcc, exec, s[0:1]
	v_lshl_add_u64 v[28:29], v[14:15], 1, v[6:7]
	s_cbranch_vccnz .LBB0_8
	global_load_dwordx4 v[6:9], v[28:29], off
	s_branch .LBB0_9
.LBB0_8:
	v_mov_b32_e32 v6, 0
	v_mov_b32_e32 v7, 0
	v_mov_b32_e32 v8, 0
	v_mov_b32_e32 v9, 0
.LBB0_9:
	v_add_u32_e32 v22, s9, v20
	v_ashrrev_i32_e32 v23, 31, v22
	v_lshl_add_u64 v[16:17], v[22:23], 1, s[4:5]
	s_and_b64 vcc, exec, s[0:1]
	v_lshl_add_u64 v[30:31], v[14:15], 1, v[16:17]
	s_cbranch_vccnz .LBB0_11
	global_load_dwordx4 v[14:17], v[30:31], off
	s_branch .LBB0_12
.LBB0_11:
	v_mov_b32_e32 v14, 0
	v_mov_b32_e32 v15, 0
	v_mov_b32_e32 v16, 0
	v_mov_b32_e32 v17, 0
.LBB0_12:
	v_lshlrev_b32_e32 v33, 4, v0
	v_and_b32_e32 v34, 0x78, v0
	v_xor_b32_e32 v63, v33, v34
	v_add_u32_e32 v33, 0, v63
	v_xor_b32_e32 v64, 8, v63
	s_waitcnt vmcnt(0)
	ds_write2st64_b64 v33, v[2:3], v[10:11] offset1:16
	v_add_u32_e32 v34, 0, v64
	v_and_b32_e32 v2, 14, v0
	ds_write2st64_b64 v34, v[4:5], v[12:13] offset1:16
	v_lshlrev_b32_e32 v3, 2, v2
	v_lshrrev_b32_e32 v4, 2, v35
	v_bfe_i32 v5, v0, 0, 1
	v_and_b32_e32 v5, 0x440, v5
	v_xor_b32_e32 v3, v3, v4
	v_xor_b32_e32 v3, v3, v5
	v_lshl_or_b32 v65, v2, 10, v3
	s_mov_b32 s0, 0x5040100
	v_add_u32_e32 v35, 0, v65
	v_perm_b32 v2, v14, v6, s0
	v_xor_b32_e32 v66, 8, v65
	s_mov_b32 s1, 0x7060302
	ds_write_b32 v35, v2 offset:32768
	v_add_u32_e32 v36, 0, v66
	v_perm_b32 v2, v14, v6, s1
	v_xor_b32_e32 v67, 16, v65
	ds_write_b32 v36, v2 offset:32896
	v_add_u32_e32 v37, 0, v67
	v_perm_b32 v2, v15, v7, s0
	v_xor_b32_e32 v68, 24, v65
	ds_write_b32 v37, v2 offset:33024
	v_add_u32_e32 v38, 0, v68
	v_perm_b32 v2, v15, v7, s1
	v_xor_b32_e32 v69, 32, v65
	ds_write_b32 v38, v2 offset:33152
	v_add_u32_e32 v39, 0, v69
	v_perm_b32 v2, v16, v8, s0
	v_xor_b32_e32 v70, 40, v65
	ds_write_b32 v39, v2 offset:33280
	v_add_u32_e32 v40, 0, v70
	v_perm_b32 v2, v16, v8, s1
	v_xor_b32_e32 v71, 48, v65
	ds_write_b32 v40, v2 offset:33408
	v_add_u32_e32 v41, 0, v71
	v_perm_b32 v2, v17, v9, s0
	v_xor_b32_e32 v72, 56, v65
	s_cmp_gt_i32 s10, 64
	ds_write_b32 v41, v2 offset:33536
	v_add_u32_e32 v42, 0, v72
	v_perm_b32 v2, v17, v9, s1
	s_cselect_b64 s[12:13], -1, 0
	s_cmpk_lt_i32 s10, 0x41
	ds_write_b32 v42, v2 offset:33664
	s_cbranch_scc1 .LBB0_16
	global_load_dwordx4 v[2:5], v[24:25], off offset:128
	v_cndmask_b32_e64 v6, 0, 1, s[12:13]
	v_cmp_ne_u32_e64 s[0:1], 1, v6
	s_andn2_b64 vcc, exec, s[12:13]
	s_cbranch_vccz .LBB0_17
.LBB0_14:
	v_mov_b32_e32 v6, 0
	v_mov_b32_e32 v7, v6
	v_mov_b32_e32 v8, v6
	v_mov_b32_e32 v9, v6
	s_lshl_b32 s12, s9, 6
	s_and_b64 vcc, exec, s[0:1]
	s_ashr_i32 s13, s12, 31
	s_cbranch_vccz .LBB0_18
.LBB0_15:
	v_mov_b32_e32 v10, 0
	v_mov_b32_e32 v11, 0
	v_mov_b32_e32 v12, 0
	v_mov_b32_e32 v13, 0
	s_branch .LBB0_19
.LBB0_16:
	v_mov_b32_e32 v2, 0
	v_mov_b32_e32 v3, v2
	v_mov_b32_e32 v4, v2
	v_mov_b32_e32 v5, v2
	v_cndmask_b32_e64 v6, 0, 1, s[12:13]
	v_cmp_ne_u32_e64 s[0:1], 1, v6
	s_andn2_b64 vcc, exec, s[12:13]
	s_cbranch_vccnz .LBB0_14
.LBB0_17:
	global_load_dwordx4 v[6:9], v[26:27], off offset:128
	s_lshl_b32 s12, s9, 6
	s_and_b64 vcc, exec, s[0:1]
	s_ashr_i32 s13, s12, 31
	s_cbranch_vccnz .LBB0_15
.LBB0_18:
	v_lshl_add_u64 v[10:11], s[12:13], 1, v[28:29]
	global_load_dwordx4 v[10:13], v[10:11], off
.LBB0_19:
	v_mov_b32_e32 v14, 0
	s_and_b64 vcc, exec, s[0:1]
	v_mov_b32_e32 v15, 0
	v_mov_b32_e32 v16, 0
	v_mov_b32_e32 v17, 0
	s_cbranch_vccnz .LBB0_21
	v_lshl_add_u64 v[14:15], s[12:13], 1, v[30:31]
	global_load_dwordx4 v[14:17], v[14:15], off
.LBB0_21:
	s_mov_b32 s0, 0x5040100
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_waitcnt vmcnt(0)
	ds_write2st64_b64 v33, v[2:3], v[6:7] offset0:32 offset1:48
	ds_write2st64_b64 v34, v[4:5], v[8:9] offset0:32 offset1:48
	v_perm_b32 v2, v14, v10, s0
	s_mov_b32 s1, 0x7060302
	ds_write_b32 v35, v2 offset:49152
	v_perm_b32 v2, v14, v10, s1
	ds_write_b32 v36, v2 offset:49280
	v_perm_b32 v2, v15, v11, s0
	ds_write_b32 v37, v2 offset:49408
	v_perm_b32 v2, v15, v11, s1
	ds_write_b32 v38, v2 offset:49536
	v_perm_b32 v2, v16, v12, s0
	ds_write_b32 v39, v2 offset:49664
	v_perm_b32 v2, v16, v12, s1
	ds_write_b32 v40, v2 offset:49792
	v_perm_b32 v2, v17, v13, s0
	v_and_b32_e32 v50, 31, v0
	v_and_b32_e32 v53, 32, v0
	ds_write_b32 v41, v2 offset:49920
	v_perm_b32 v2, v17, v13, s1
	ds_write_b32 v42, v2 offset:50048
	v_lshrrev_b32_e32 v2, 2, v53
	v_lshl_or_b32 v3, v50, 7, v62
	v_and_b32_e32 v51, 0x100, v0
	v_and_b32_e32 v52, 0xc0, v0
	v_xor_b32_e32 v2, v3, v2
	s_add_i32 s15, s10, 0xffffff80
	v_lshl_or_b32 v61, v51, 4, v2
	v_lshlrev_b32_e32 v2, 7, v1
	v_lshlrev_b32_e32 v3, 6, v52
	s_cmp_gt_i32 s15, 0
	v_lshrrev_b32_e32 v1, 2, v0
	v_or_b32_e32 v74, v2, v3
	s_cbranch_scc1 .LBB0_23
	v_or_b32_e32 v33, v2, v3
	s_mov_b64 s[0:1], 0
	s_branch .LBB0_24
.LBB0_23:
	s_mov_b64 s[0:1], -1
.LBB0_24:
	v_and_b32_e32 v73, 56, v1
	v_and_b32_e32 v1, 16, v0
	v_xor_b32_e32 v60, 16, v61
	v_xor_b32_e32 v59, 32, v61
	v_xor_b32_e32 v58, 48, v61
	v_xor_b32_e32 v57, 64, v61
	v_xor_b32_e32 v56, 0x50, v61
	v_xor_b32_e32 v55, 0x60, v61
	v_xor_b32_e32 v54, 0x70, v61
	s_mov_b32 s19, 1
	s_andn2_b64 vcc, exec, s[0:1]
	v_cmp_eq_u32_e64 s[0:1], 0, v1
	s_mov_b32 s16, 0
	s_cbranch_vccnz .LBB0_28
	v_mov_b32_e32 v1, 0x808
	v_cndmask_b32_e64 v1, v1, 0, s[0:1]
	v_xor_b32_e32 v1, v73, v1
	s_lshl_b64 s[20:21], s[12:13], 2
	v_xor_b32_e32 v1, v1, v62
	v_add_u32_e32 v2, s11, v62
	s_add_u32 s4, s4, s20
	v_and_b32_e32 v0, 7, v0
	v_or_b32_e32 v75, v1, v74
	v_ashrrev_i32_e32 v3, 31, v2
	s_addc_u32 s5, s5, s21
	v_lshlrev_b32_e32 v0, 4, v0
	v_mov_b32_e32 v1, 0
	v_lshl_add_u64 v[42:43], v[2:3], 1, s[4:5]
	v_lshl_add_u64 v[2:3], v[18:19], 1, v[0:1]
	v_lshl_add_u64 v[2:3], v[2:3], 0, s[2:3]
	s_mov_b64 s[20:21], 0x100
	v_lshl_add_u64 v[46:47], v[2:3], 0, s[20:21]
	v_add_u32_e32 v2, s8, v32
	v_mul_lo_u32 v2, s10, v2
	v_ashrrev_i32_e32 v3, 31, v2
	v_lshl_add_u64 v[2:3], v[2:3], 1, v[0:1]
	v_lshl_add_u64 v[2:3], v[2:3], 0, s[2:3]
	v_xor_b32_e32 v76, 16, v75
	v_xor_b32_e32 v77, 32, v75
	v_xor_b32_e32 v78, 48, v75
	v_xor_b32_e32 v79, 64, v75
	v_xor_b32_e32 v80, 0x50, v75
	v_xor_b32_e32 v81, 0x60, v75
	v_xor_b32_e32 v82, 0x70, v75
	v_lshlrev_b64 v[40:41], 1, v[22:23]
	s_lshl_b64 s[4:5], s[12:13], 1
	v_lshlrev_b64 v[44:45], 1, v[20:21]
	v_lshl_add_u64 v[48:49], v[2:3], 0, s[20:21]
	s_add_i32 s14, 0, 0x4000
	s_add_i32 s21, 0, 0x8000
	s_add_i32 s13, 0, 0xc000
	s_mov_b32 s17, 0x5040100
	s_mov_b32 s18, 0x7060302
	s_mov_b64 s[2:3], 0x80
	v_mov_b32_e32 v0, v1
	v_mov_b32_e32 v2, v1
	v_mov_b32_e32 v3, v1
	v_mov_b32_e32 v4, v1
	v_mov_b32_e32 v5, v1
	v_mov_b32_e32 v6, v1
	v_mov_b32_e32 v7, v1
	v_mov_b32_e32 v8, v1
	v_mov_b32_e32 v9, v1
	v_mov_b32_e32 v10, v1
	v_mov_b32_e32 v11, v1
	v_mov_b32_e32 v12, v1
	v_mov_b32_e32 v13, v1
	v_mov_b32_e32 v14, v1
	v_mov_b32_e32 v15, v1
	v_mov_b32_e32 v16, v1
	v_mov_b32_e32 v17, v1
	v_mov_b32_e32 v18, v1
	v_mov_b32_e32 v19, v1
	v_mov_b32_e32 v20, v1
	v_mov_b32_e32 v21, v1
	v_mov_b32_e32 v22, v1
	v_mov_b32_e32 v23, v1
	v_mov_b32_e32 v24, v1
	v_mov_b32_e32 v25, v1
	v_mov_b32_e32 v26, v1
	v_mov_b32_e32 v27, v1
	v_mov_b32_e32 v28, v1
	v_mov_b32_e32 v29, v1
	v_mov_b32_e32 v30, v1
	v_mov_b32_e32 v31, v1
	s_mov_b32 s20, 0
.LBB0_26:
	s_mov_b32 s22, s16
	v_add_u32_e32 v84, s21, v75
	v_add_u32_e32 v90, s21, v76
	v_add_u32_e32 v92, s21, v77
	v_add_u32_e32 v94, s21, v78
	global_load_dwordx4 v[32:35], v[48:49], off
	global_load_dwordx4 v[36:39], v[46:47], off
	s_waitcnt lgkmcnt(0)
	s_barrier
	v_add_u32_e32 v83, s22, v61
	ds_read_b64 v[88:89], v84
	ds_read2st64_b64 v[84:87], v83 offset1:16
	ds_read_b64 v[90:91], v90
	ds_read_b64 v[92:93], v92
	ds_read_b64 v[94:95], v94
	s_waitcnt lgkmcnt(3)
	v_mfma_f32_32x32x8_f16 v[0:15], v[88:89], v[84:85], v[0:15]
	v_add_u32_e32 v83, s22, v60
	s_mov_b32 s16, s14
	s_add_i32 s14, s19, 1
	s_cmp_lt_i32 s14, 2
	s_cselect_b32 s19, s14, 0
	s_add_i32 s20, s20, 64
	v_lshl_add_u64 v[46:47], v[46:47], 0, s[2:3]
	v_mfma_f32_32x32x8_f16 v[16:31], v[88:89], v[86:87], v[16:31]
	ds_read2st64_b64 v[84:87], v83 offset1:16
	v_add_u32_e32 v83, s22, v59
	v_lshl_add_u64 v[48:49], v[48:49], 0, s[2:3]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[90:91], v[84:85], v[0:15]
	v_mfma_f32_32x32x8_f16 v[16:31], v[90:91], v[86:87], v[16:31]
	ds_read2st64_b64 v[84:87], v83 offset1:16
	v_add_u32_e32 v83, s22, v58
	v_add_u32_e32 v90, s21, v80
	v_add_u32_e32 v91, s21, v81
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[92:93], v[84:85], v[0:15]
	v_mfma_f32_32x32x8_f16 v[16:31], v[92:93], v[86:87], v[16:31]
	ds_read2st64_b64 v[84:87], v83 offset1:16
	v_add_u32_e32 v83, s22, v57
	v_add_u32_e32 v92, s21, v82
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[94:95], v[84:85], v[0:15]
	v_add_u32_e32 v84, s21, v79
	s_mov_b32 s21, s13
	s_lshl_b32 s13, s19, 14
	s_add_i32 s14, s13, 0
	s_add_i32 s13, s14, 0x8000
	s_cmp_lt_i32 s20, s15
	v_add_u32_e32 v104, s14, v72
	v_mfma_f32_32x32x8_f16 v[16:31], v[94:95], v[86:87], v[16:31]
	ds_read_b64 v[88:89], v84
	ds_read2st64_b64 v[84:87], v83 offset1:16
	ds_read_b64 v[96:97], v90
	ds_read_b64 v[100:101], v91
	ds_read_b64 v[102:103], v92
	v_lshl_add_u64 v[92:93], v[42:43], 0, v[40:41]
	global_load_dwordx4 v[92:95], v[92:93], off
	v_add_u32_e32 v83, s22, v56
	s_waitcnt lgkmcnt(3)
	v_mfma_f32_32x32x8_f16 v[0:15], v[88:89], v[84:85], v[0:15]
	v_lshl_add_u64 v[84:85], v[42:43], 0, v[44:45]
	v_lshl_add_u64 v[42:43], v[42:43], 0, s[4:5]
	v_mfma_f32_32x32x8_f16 v[16:31], v[88:89], v[86:87], v[16:31]
	global_load_dwordx4 v[84:87], v[84:85], off
	ds_read2st64_b64 v[88:91], v83 offset1:16
	v_add_u32_e32 v83, s22, v55
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[96:97], v[88:89], v[0:15]
	v_mfma_f32_32x32x8_f16 v[16:31], v[96:97], v[90:91], v[16:31]
	ds_read2st64_b64 v[88:91], v83 offset1:16
	v_add_u32_e32 v83, s22, v54
	ds_read2st64_b64 v[96:99], v83 offset1:16
	v_add_u32_e32 v83, s14, v63
	s_waitcnt lgkmcnt(0)
	s_barrier
	v_mfma_f32_32x32x8_f16 v[0:15], v[100:101], v[88:89], v[0:15]
	v_add_u32_e32 v88, s14, v64
	v_add_u32_e32 v89, s14, v65
	s_waitcnt vmcnt(2)
	ds_write2st64_b64 v83, v[32:33], v[36:37] offset1:16
	ds_write2st64_b64 v88, v[34:35], v[38:39] offset1:16
	s_waitcnt vmcnt(0)
	v_perm_b32 v32, v92, v84, s17
	v_mfma_f32_32x32x8_f16 v[16:31], v[100:101], v[90:91], v[16:31]
	v_add_u32_e32 v90, s14, v66
	v_add_u32_e32 v91, s14, v67
	v_add_u32_e32 v100, s14, v70
	v_add_u32_e32 v101, s14, v71
	v_perm_b32 v33, v92, v84, s18
	v_perm_b32 v34, v93, v85, s17
	v_perm_b32 v35, v93, v85, s18
	v_mfma_f32_32x32x8_f16 v[0:15], v[102:103], v[96:97], v[0:15]
	v_add_u32_e32 v96, s14, v68
	v_add_u32_e32 v97, s14, v69
	v_perm_b32 v36, v94, v86, s17
	v_perm_b32 v37, v94, v86, s18
	v_perm_b32 v38, v95, v87, s17
	v_perm_b32 v39, v95, v87, s18
	ds_write_b32 v89, v32 offset:32768
	ds_write_b32 v90, v33 offset:32896
	ds_write_b32 v91, v34 offset:33024
	ds_write_b32 v96, v35 offset:33152
	ds_write_b32 v97, v36 offset:33280
	ds_write_b32 v100, v37 offset:33408
	ds_write_b32 v101, v38 offset:33536
	ds_write_b32 v104, v39 offset:33664
	v_mfma_f32_32x32x8_f16 v[16:31], v[102:103], v[98:99], v[16:31]
	s_cbranch_scc1 .LBB0_26
	v_mov_b32_e32 v33, v74
	s_branch .LBB0_29
.LBB0_28:
	v_mov_b32_e32 v31, 0
	s_add_i32 s14, 0, 0x4000
	s_add_i32 s21, 0, 0x8000
	s_add_i32 s13, 0, 0xc000
	v_mov_b32_e32 v30, v31
	v_mov_b32_e32 v29, v31
	v_mov_b32_e32 v28, v31
	v_mov_b32_e32 v27, v31
	v_mov_b32_e32 v26, v31
	v_mov_b32_e32 v25, v31
	v_mov_b32_e32 v24, v31
	v_mov_b32_e32 v23, v31
	v_mov_b32_e32 v22, v31
	v_mov_b32_e32 v21, v31
	v_mov_b32_e32 v20, v31
	v_mov_b32_e32 v19, v31
	v_mov_b32_e32 v18, v31
	v_mov_b32_e32 v17, v31
	v_mov_b32_e32 v16, v31
	v_mov_b32_e32 v15, v31
	v_mov_b32_e32 v14, v31
	v_mov_b32_e32 v13, v31
	v_mov_b32_e32 v12, v31
	v_mov_b32_e32 v11, v31
	v_mov_b32_e32 v10, v31
	v_mov_b32_e32 v9, v31
	v_mov_b32_e32 v8, v31
	v_mov_b32_e32 v7, v31
	v_mov_b32_e32 v6, v31
	v_mov_b32_e32 v5, v31
	v_mov_b32_e32 v4, v31
	v_mov_b32_e32 v3, v31
	v_mov_b32_e32 v2, v31
	v_mov_b32_e32 v1, v31
	v_mov_b32_e32 v0, v31
.LBB0_29:
	v_mov_b32_e32 v32, 0x808
	v_cndmask_b32_e64 v32, v32, 0, s[0:1]
	v_xor_b32_e32 v32, v73, v32
	v_xor_b32_e32 v32, v32, v62
	s_add_i32 s10, s10, 63
	v_or_b32_e32 v39, v32, v33
	s_cmp_lt_i32 s10, 64
	v_xor_b32_e32 v38, 16, v39
	v_xor_b32_e32 v37, 32, v39
	v_xor_b32_e32 v36, 48, v39
	v_xor_b32_e32 v35, 64, v39
	v_xor_b32_e32 v34, 0x50, v39
	v_xor_b32_e32 v33, 0x60, v39
	v_xor_b32_e32 v32, 0x70, v39
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_cbranch_scc1 .LBB0_31
	v_add_u32_e32 v40, s21, v39
	ds_read_b64 v[48:49], v40
	v_add_u32_e32 v40, s16, v61
	ds_read2st64_b64 v[40:43], v40 offset1:16
	v_add_u32_e32 v44, s21, v38
	v_add_u32_e32 v62, s21, v37
	v_add_u32_e32 v66, s21, v36
	v_add_u32_e32 v70, s21, v35
	v_add_u32_e32 v74, s21, v34
	v_add_u32_e32 v78, s21, v33
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[48:49], v[40:41], v[0:15]
	ds_read_b64 v[40:41], v44
	v_add_u32_e32 v44, s16, v60
	ds_read2st64_b64 v[44:47], v44 offset1:16
	v_add_u32_e32 v82, s21, v32
	v_mfma_f32_32x32x8_f16 v[16:31], v[48:49], v[42:43], v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[40:41], v[44:45], v[0:15]
	ds_read_b64 v[44:45], v62
	v_add_u32_e32 v62, s16, v59
	ds_read2st64_b64 v[62:65], v62 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[40:41], v[46:47], v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[44:45], v[62:63], v[0:15]
	ds_read_b64 v[62:63], v66
	v_add_u32_e32 v66, s16, v58
	ds_read2st64_b64 v[66:69], v66 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[44:45], v[64:65], v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[62:63], v[66:67], v[0:15]
	ds_read_b64 v[66:67], v70
	v_add_u32_e32 v70, s16, v57
	ds_read2st64_b64 v[70:73], v70 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[62:63], v[68:69], v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[66:67], v[70:71], v[0:15]
	ds_read_b64 v[70:71], v74
	v_add_u32_e32 v74, s16, v56
	ds_read2st64_b64 v[74:77], v74 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[66:67], v[72:73], v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[70:71], v[74:75], v[0:15]
	ds_read_b64 v[74:75], v78
	v_add_u32_e32 v78, s16, v55
	ds_read2st64_b64 v[78:81], v78 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[70:71], v[76:77], v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[74:75], v[78:79], v[0:15]
	ds_read_b64 v[78:79], v82
	v_add_u32_e32 v82, s16, v54
	ds_read2st64_b64 v[82:85], v82 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[74:75], v[80:81], v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[78:79], v[82:83], v[0:15]
	v_mfma_f32_32x32x8_f16 v[16:31], v[78:79], v[84:85], v[16:31]
.LBB0_31:
	s_cmpk_lt_i32 s10, 0x80
	s_cbranch_scc1 .LBB0_33
	v_add_u32_e32 v39, s13, v39
	ds_read_b64 v[48:49], v39
	v_add_u32_e32 v38, s13, v38
	ds_read_b64 v[62:63], v38
	v_add_u32_e32 v39, s14, v61
	ds_read2st64_b64 v[40:43], v39 offset1:16
	v_add_u32_e32 v37, s13, v37
	ds_read_b64 v[64:65], v37
	v_add_u32_e32 v38, s14, v60
	v_add_u32_e32 v37, s14, v59
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_32x32x8_f16 v[0:15], v[48:49], v[40:41], v[0:15]
	ds_read2st64_b64 v[38:41], v38 offset1:16
	ds_read2st64_b64 v[44:47], v37 offset1:16
	v_add_u32_e32 v36, s13, v36
	v_add_u32_e32 v35, s13, v35
	v_add_u32_e32 v34, s13, v34
	v_add_u32_e32 v33, s13, v33
	v_add_u32_e32 v32, s13, v32
	v_mfma_f32_32x32x8_f16 v[16:31], v[48:49], v[42:43], v[16:31]
	ds_read_b64 v[66:67], v35
	ds_read_b64 v[68:69], v34
	ds_read_b64 v[70:71], v33
	v_add_u32_e32 v35, s14, v57
	v_add_u32_e32 v34, s14, v56
	v_add_u32_e32 v33, s14, v55
	s_waitcnt lgkmcnt(4)
	v_mfma_f32_32x32x8_f16 v[0:15], v[62:63], v[38:39], v[0:15]
	v_mfma_f32_32x32x8_f16 v[16:31], v[62:63], v[40:41], v[16:31]
	s_waitcnt lgkmcnt(3)
	v_mfma_f32_32x32x8_f16 v[0:15], v[64:65], v[44:45], v[0:15]
	ds_read_b64 v[44:45], v36
	v_add_u32_e32 v36, s14, v58
	ds_read2st64_b64 v[36:39], v36 offset1:16
	ds_read2st64_b64 v[58:61], v35 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[64:65], v[46:47], v[16:31]
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_32x32x8_f16 v[0:15], v[44:45], v[36:37], v[0:15]
	ds_read2st64_b64 v[34:37], v34 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[44:45], v[38:39], v[16:31]
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_32x32x8_f16 v[0:15], v[66:67], v[58:59], v[0:15]
	ds_read2st64_b64 v[56:59], v33 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[66:67], v[60:61], v[16:31]
	s_waitcnt lgkmcnt(1)
	v_mfma_f32_32x32x8_f16 v[0:15], v[68:69], v[34:35], v[0:15]
	v_mfma_f32_32x32x8_f16 v[16:31], v[68:69], v[36:37], v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[70:71], v[56:57], v[0:15]
	ds_read_b64 v[56:57], v32
	v_add_u32_e32 v32, s14, v54
	ds_read2st64_b64 v[32:35], v32 offset1:16
	v_mfma_f32_32x32x8_f16 v[16:31], v[70:71], v[58:59], v[16:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f32_32x32x8_f16 v[0:15], v[56:57], v[32:33], v[0:15]
	v_mfma_f32_32x32x8_f16 v[16:31], v[56:57], v[34:35], v[16:31]
.LBB0_33:
	v_lshrrev_b32_e32 v32, 3, v53
	v_lshrrev_b32_e32 v33, 1, v52
	v_or3_b32 v32, v32, v33, s11
	v_lshrrev_b32_e32 v33, 3, v51
	v_or3_b32 v33, v33, v50, s8
	v_mul_lo_u32 v34, s9, v33
	v_add_u32_e32 v36, s12, v34
	v_ashrrev_i32_e32 v35, 31, v34
	v_ashrrev_i32_e32 v37, 31, v36
	v_ashrrev_i32_e32 v33, 31, v32
	v_lshl_add_u64 v[34:35], v[34:35], 1, s[6:7]
	v_lshl_add_u64 v[36:37], v[36:37], 1, s[6:7]
	v_lshlrev_b64 v[32:33], 1, v[32:33]
	v_lshl_add_u64 v[34:35], v[34:35], 0, v[32:33]
	v_lshl_add_u64 v[32:33], v[36:37], 0, v[32:33]
	v_cvt_f16_f32_e32 v0, v0
	v_cvt_f16_f32_e32 v36, v1
	v_cvt_f16_f32_e32 v1, v2
	v_cvt_f16_f32_e32 v2, v3
	v_cvt_f16_f32_e32 v3, v4
	v_cvt_f16_f32_e32 v4, v5
	v_cvt_f16_f32_e32 v5, v6
	v_cvt_f16_f32_e32 v6, v7
	v_cvt_f16_f32_e32 v7, v8
	v_cvt_f16_f32_e32 v8, v9
	v_cvt_f16_f32_e32 v9, v10
	v_cvt_f16_f32_e32 v10, v11
	v_cvt_f16_f32_e32 v11, v12
	v_cvt_f16_f32_e32 v12, v13
	v_cvt_f16_f32_e32 v13, v14
	v_cvt_f16_f32_e32 v14, v15
	v_cvt_f16_f32_e32 v15, v16
	v_cvt_f16_f32_e32 v16, v17
	v_cvt_f16_f32_e32 v17, v18
	v_cvt_f16_f32_e32 v18, v19
	v_pack_b32_f16 v1, v1, v2
	v_pack_b32_f16 v0, v0, v36
	v_cvt_f16_f32_e32 v19, v20
	v_cvt_f16_f32_e32 v20, v21
	v_cvt_f16_f32_e32 v21, v22
	v_cvt_f16_f32_e32 v22, v23
	global_store_dwordx2 v[34:35], v[0:1], off
	v_pack_b32_f16 v1, v5, v6
	v_pack_b32_f16 v0, v3, v4
	v_cvt_f16_f32_e32 v23, v24
	v_cvt_f16_f32_e32 v24, v25
	v_cvt_f16_f32_e32 v25, v26
	v_cvt_f16_f32_e32 v26, v27
	global_store_dwordx2 v[34:35], v[0:1], off offset:16
	v_pack_b32_f16 v1, v9, v10
	v_pack_b32_f16 v0, v7, v8
	v_cvt_f16_f32_e32 v27, v28
	v_cvt_f16_f32_e32 v28, v29
	v_cvt_f16_f32_e32 v29, v30
	v_cvt_f16_f32_e32 v30, v31
	global_store_dwordx2 v[34:35], v[0:1], off offset:32
	v_pack_b32_f16 v1, v13, v14
	v_pack_b32_f16 v0, v11, v12
	global_store_dwordx2 v[34:35], v[0:1], off offset:48
	v_pack_b32_f16 v1, v17, v18
	v_pack_b32_f16 v0, v15, v16
	global_store_dwordx2 v[32:33], v[0:1], off
	v_pack_b32_f16 v1, v21, v22
	v_pack_b32_f16 v0, v19, v20
	global_store_dwordx2 v[32:33], v[0:1], off offset:16
	v_pack_b32_f16 v1, v25, v26
	v_pack_b32_f16 v0, v23, v24
	global_store_dwordx2 v[32:33], v[0:1], off offset:32
	v_pack_b32_f16 v1, v29, v30
	v_pack_b32_f16 v0, v27, v28
	global_store_dwordx2 v[32:33], v[0:1], off offset:48
	s_endpgm
	.section	.rodata,"a",@progbits
	.amdhsa_kernel matmul
		.amdhsa_group_segment_fixed_size 0
		.amdhsa_private_segment_fixed_size 0
		.amdhsa_kernarg_size 56
		.amdhsa_user_sgpr_count 16
		.amdhsa_user_sgpr_dispatch_ptr 0
		.amdhsa_user_sgpr_queue_ptr 0
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_user_sgpr_dispatch_id 0
		.amdhsa_user_sgpr_kernarg_preload_length 14
		.amdhsa_user_sgpr_kernarg_preload_offset 0
		.amdhsa_user_sgpr_private_segment_size 0
		.amdhsa_uses_dynamic_stack 0
		.amdhsa_enable_private_segment 0
		.amdhsa_system_sgpr_workgroup_id_x 1
		.amdhsa_system_sgpr_workgroup_id_y 1
		.amdhsa_system_sgpr_workgroup_id_z 0
		.amdhsa_system_sgpr_workgroup_info 0
		.amdhsa_system_vgpr_workitem_id 0
		.amdhsa_next_free_vgpr 105
		.amdhsa_next_free_sgpr 23
		.amdhsa_accum_offset 108
		.amdhsa_reserve_vcc 1
		.amdhsa_reserve_xnack_mask 1
		.amdhsa_float_round_mode_32 0
		.amdhsa_float_round_mode_16_64 0
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_float_denorm_mode_16_64 3
		.amdhsa_dx10_clamp 1
		.amdhsa_ieee_mode 1
		.amdhsa_fp16_overflow 0
		.amdhsa_tg_split 0
		.amdhsa_exception_fp_ieee_invalid_op 0
		.amdhsa_exception_fp_denorm_src 0
		.amdhsa_exception_fp_ieee_div_zero 0
		.amdhsa_exception_fp_ieee_overflow 0
		.amdhsa_exception_fp_ieee_underflow 0
		.amdhsa_exception_fp_ieee_inexact 0
		.amdhsa_exception_int_div_zero 0
	.end_amdhsa_kernel
	.text
.Lfunc_end0:
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         8
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         16
        .size:           8
        .value_kind:     global_buffer
      - .offset:         24
        .size:           4
        .value_kind:     by_value
      - .offset:         28
        .size:           4
        .value_kind:     by_value
      - .offset:         32
        .size:           4
        .value_kind:     by_value
      - .address_space:  global
        .offset:         40
        .size:           8
        .value_kind:     global_buffer
      - .address_space:  global
        .offset:         48
        .size:           8
        .value_kind:     global_buffer
    .group_segment_fixed_size: 0
    .kernarg_segment_align: 8
    .kernarg_segment_size: 56
    .max_flat_workgroup_size: 512
    .name:           matmul
    .private_segment_fixed_size: 0
    .sgpr_count:     29
    .sgpr_spill_count: 0
    .symbol:         matmul.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     105
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
